"""Runs actions when their time has come: what the local Pub/Sub and Cloud Tasks servers do everything with."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

Clock = Callable[[], float]
"""Gives seconds since the epoch. Tests pass one that they move by hand."""

Action = Callable[[], None]

LONGEST_NAP = 0.5
"""Seconds after which a moved clock is noticed even when nobody calls :meth:`Schedule.tick`."""

log = logging.getLogger(__name__)


@dataclass(order=True)
class Alarm:
    """One action and the time at which it is due, in seconds since the epoch."""

    due: float
    order: int
    action: Action = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class Schedule:
    """A heap of alarms, one thread that watches it, and a pool of threads in which the actions run."""

    def __init__(self, clock: Clock, *, name: str, workers: int = 64) -> None:
        self._clock = clock
        lock = threading.RLock()
        self._moved = threading.Condition(lock)
        """The first alarm or the clock changed: the watching thread must look again."""
        self._settled = threading.Condition(lock)
        """The last running action ended: whoever waits for idleness must look again."""
        self._alarms: list[Alarm] = []
        self._order = itertools.count()
        self._running = 0
        self._failure: BaseException | None = None
        self._stopped = False
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._watcher = threading.Thread(target=self._watch, name=f"{name}-schedule", daemon=True)

    def start(self) -> None:
        """Begin to run what is due."""
        self._watcher.start()

    def stop(self) -> None:
        """Start nothing more. An action that is running is not waited for."""
        with self._moved:
            self._stopped = True
            self._moved.notify()
        if self._watcher.is_alive():
            self._watcher.join()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def at(self, due: float, action: Action) -> Alarm:
        """Run ``action`` when the clock reaches ``due`` (seconds since the epoch)."""
        alarm = Alarm(due, next(self._order), action)
        with self._moved:
            heapq.heappush(self._alarms, alarm)
            if self._alarms[0] is alarm:
                self._moved.notify()
        return alarm

    def soon(self, action: Action) -> None:
        """Run ``action`` as soon as a thread is free."""
        with self._moved:
            if self._stopped:
                return
            self._running += 1
            self._workers.submit(action).add_done_callback(self._finished)

    def cancel(self, alarm: Alarm) -> None:
        """Forget an alarm. One that has already gone off is not called back."""
        with self._moved:
            alarm.cancelled = True

    def tick(self) -> None:
        """Notice at once that the clock was moved."""
        with self._moved:
            self._moved.notify()

    def wait_idle(self, timeout: float, *, within: float = 0.0) -> bool:
        """Wait until nothing would happen any more if the clock stood still; False when that took too long.

        ``timeout`` is in real seconds. With ``within``, alarms due in the next so many seconds of the clock are
        waited for too (``math.inf``: all of them). Raises whatever an action raised: that is a bug of the server.
        """
        deadline = time.monotonic() + timeout
        with self._settled:
            while not self._idle(within):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._moved.notify()
                self._settled.wait(min(left, LONGEST_NAP))
            if self._failure is not None:
                raise self._failure
            return True

    def _idle(self, within: float) -> bool:
        self._drop_cancelled()
        return not self._running and (not self._alarms or self._alarms[0].due > self._clock() + within)

    def _drop_cancelled(self) -> None:
        while self._alarms and self._alarms[0].cancelled:
            heapq.heappop(self._alarms)

    def _watch(self) -> None:
        with self._moved:
            while not self._stopped:
                self._moved.wait(self._start_due())

    def _start_due(self) -> float:
        """Hand what is due to the pool; how long nothing will be due, in seconds."""
        while True:
            self._drop_cancelled()
            if not self._alarms:
                return LONGEST_NAP
            left = self._alarms[0].due - self._clock()
            if left > 0:
                return min(left, LONGEST_NAP)
            self.soon(heapq.heappop(self._alarms).action)

    def _finished(self, future: Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error:
            log.error("an action of the local stack failed", exc_info=error)
        with self._settled:
            self._failure = self._failure or error
            self._running -= 1
            if not self._running:
                self._settled.notify_all()
