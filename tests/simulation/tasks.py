"""Cloud Tasks: two queues, names that stay taken, a rate for creates; timers that come early, late, twice or never."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Hub

CREATES_APART = 1.0
"""Seconds between two dispatches of the queue `creates`, repetitions included: 60 a minute."""

DISPATCH_DEADLINE = 90.0
LONGEST_RETRY = 600.0

Deliver = Callable[[str, bytes, Callable[[bool], None]], None]
"""Serve a request; tells, once, whether it was answered with success."""


class Task(NamedTuple):
    """What a queue has to deliver."""

    queue: str
    path: str
    body: bytes
    key: str


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
        hub, strikes = self._hub, self._faults.strikes
        if strikes(Fault.TIMER_NEVER):
            return
        if strikes(Fault.TIMER_EARLY):
            at -= timedelta(seconds=hub.between(1, 120))
        if strikes(Fault.TIMER_LATE):
            at += timedelta(seconds=hub.between(1, 1800))
        task = Task(queue, path, body, key)
        for _ in range(2 if strikes(Fault.TIMER_TWICE) else 1):
            hub.at(at, f"task {key}", lambda: self._dispatch(task, 0))

    def _dispatch(self, task: Task, failures: int) -> None:
        if task.queue == "creates":
            turn = max(self._next_create, self._hub.now)
            self._next_create = turn + timedelta(seconds=CREATES_APART)
            self._hub.at(turn, f"turn of {task.key}", lambda: self._serve(task, failures))
        else:
            self._serve(task, failures)

    def _serve(self, task: Task, failures: int) -> None:
        answered = False

        def settle(success: bool) -> None:
            nonlocal answered
            if answered:
                return
            answered = True
            if not success:
                seconds = min(10 * 2**failures, LONGEST_RETRY)
                self._hub.after(seconds, f"task {task.key} again", lambda: self._dispatch(task, failures + 1))

        self._hub.after(DISPATCH_DEADLINE, f"deadline of {task.key}", lambda: settle(False))
        self._deliver(task.path, task.body, settle)
