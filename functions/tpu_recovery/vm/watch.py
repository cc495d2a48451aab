"""Threads that keep an eye on something slow, so that the runner never waits for it while the program runs."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

from tpu_recovery.vm.handoff import KEY
from tpu_recovery.vm.log import log
from tpu_recovery.vm.metadata import MetadataServer, MetadataSilent, Value

_ATTRIBUTE = f"instance/attributes/{KEY}"
_HOLD = 60.0  # seconds for which the metadata server may hold a question back


class HandoffWatch:
    """The newest text of the hand-off. Silence of the metadata server, for however long, changes nothing."""

    def __init__(self, metadata: MetadataServer, wake: Callable[[], None]) -> None:
        self.text: Optional[str] = None
        """None until there was one; an attribute that vanishes keeps its last text."""
        self.poll = 1.0
        """Seconds between questions when the server does not hold them back."""
        self._metadata = metadata
        self._wake = wake
        self._silent = False

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        etag = ""
        while True:
            asked = time.monotonic()
            value = self._ask(etag)
            etag = value.etag if value is not None else ""
            if value is not None and value.text != self.text:
                self.text = value.text
                self._wake()
            else:  # no news; not asking too often matters only when the server answers at once
                time.sleep(max(0.0, self.poll - (time.monotonic() - asked)))

    def _ask(self, etag: str) -> Optional[Value]:
        try:
            value = self._metadata.wait_for_change(_ATTRIBUTE, etag, _HOLD) if etag else self._metadata.get(_ATTRIBUTE)
        except MetadataSilent as silent:
            if not self._silent:
                log(f"waiting for the metadata server: {silent}")
            self._silent = True
            return None
        if self._silent:
            log("the metadata server answers again")
        self._silent = False
        return value


class CheckpointWatch:
    """The newest complete step, looked up every so many seconds until stopped."""

    def __init__(self, look: Callable[[], Optional[int]], interval: float, newest: Optional[int]) -> None:
        """Begin to watch; ``newest`` is the step known so far."""
        self.newest = newest
        self._look = look
        self._interval = interval
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End it after the look under way."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                newest = self._look()
            except Exception as error:  # noqa: BLE001 - must end neither the runner nor the program
                log(f"looking for checkpoints failed: {error!r}")
                continue
            if newest is not None:
                self.newest = newest
