"""Cloud Tasks: two queues, names that stay taken, a rate for creates; timers that come early, late, twice or never."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Hub

CREATES_APART = 1.0
"""Seconds between two dispatches of the queue `creates`: 60 a minute."""

Deliver = Callable[[str, bytes, Callable[[bool], None]], None]
"""Serve a request; tells, once, whether it was answered with success."""


class Tasks:
    """Both queues."""

    def __init__(self, hub: Hub, faults: Faults, deliver: Deliver) -> None:
        self._hub, self._faults, self._deliver = hub, faults, deliver
        self._names: set[str] = set()
        self._next_create = hub.now

    def add(self, queue: str, path: str, body: bytes, key: str, at: datetime) -> None:
        """Create a task, unless one of this name exists or has run."""
        if key in self._names:
            return
        self._names.add(key)
        hub, rate = self._hub, self._faults.rate
        if hub.happens(rate(Fault.TIMER_NEVER)):
            return
        if hub.happens(rate(Fault.TIMER_EARLY)):
            at -= timedelta(seconds=hub.between(1, 120))
        if hub.happens(rate(Fault.TIMER_LATE)):
            at += timedelta(seconds=hub.between(1, 1800))
        twice = hub.happens(rate(Fault.TIMER_TWICE))
        if queue == "creates":
            at = self._next_create = max(at, self._next_create + timedelta(seconds=CREATES_APART), hub.now)
        for _ in range(2 if twice else 1):
            hub.at(at, f"task {key}", lambda: self._dispatch(path, body, key, 0))

    def _dispatch(self, path: str, body: bytes, key: str, failures: int) -> None:
        answered = False

        def settle(success: bool) -> None:
            nonlocal answered
            if answered:
                return
            answered = True
            if not success:
                seconds = min(10 * 2**failures, 600)
                self._hub.after(seconds, f"task {key} again", lambda: self._dispatch(path, body, key, failures + 1))

        self._hub.after(90, f"task {key} deadline", lambda: settle(False))
        self._deliver(path, body, settle)
