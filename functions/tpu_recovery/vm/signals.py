"""One place to wait in: it ends early when the VM shuts down, a child process ends or a thread has news."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType
from typing import Callable, Optional


class Signals:
    """SIGTERM (or SIGINT) sets ``terminating`` and is passed on at once, whatever the runner is doing just then."""

    def __init__(self) -> None:
        self.terminating = False
        self.pass_on: Optional[Callable[[], None]] = None
        """Called in the signal handler: stops the program that is running. Must not take locks."""
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)

    def install(self) -> None:
        """Take over the signals; from the main thread only."""
        # The interpreter writes a byte for every signal that has a handler, so a wait cannot miss one.
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._terminate)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def wait(self, seconds: float) -> None:
        """Wait that long, or until something happened."""
        select.select([self._read_end], [], [], max(0.0, seconds))
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 4096):
                pass

    def wake(self) -> None:
        """End the wait; from any thread."""
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._write_end, b"\0")

    def _terminate(self, _number: int, _frame: Optional[FrameType]) -> None:
        self.terminating = True
        if self.pass_on is not None:
            self.pass_on()
