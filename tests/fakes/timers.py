"""Tasks by name, as Cloud Tasks keeps them: a name that has run stays taken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from tests.fakes.wire import Wire


class Task(NamedTuple):
    """One call of the service by itself, at the given moment or later."""

    key: str
    queue: str
    path: str
    body: bytes
    at: datetime


class FakeTimers:
    """Timers. A test delivers what is due (or early, or twice) and then says `finish`."""

    def __init__(self, wire: Wire) -> None:
        self.tasks: dict[str, Task] = {}
        self.finished: dict[str, Task] = {}
        self._wire = wire

    def call_later(self, path: str, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """See Timers.call_later."""
        task = Task(key, "timers", path, msgspec.json.encode(body), at)
        self._wire.carry("timers", "call_later", task.body.decode(), lambda: self._add(task))

    def queue_create(self, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """See Timers.queue_create."""
        task = Task(key, "creates", "/create", msgspec.json.encode(body), at)
        self._wire.carry("timers", "queue_create", task.body.decode(), lambda: self._add(task))

    def waiting(self, queue: str = "") -> list[Task]:
        """The tasks that have not run, the earliest first."""
        tasks = [task for task in self.tasks.values() if queue in ("", task.queue)]
        return sorted(tasks, key=lambda task: (task.at, task.key))

    def due(self, now: datetime) -> list[Task]:
        """The tasks whose time has come, the earliest first."""
        return [task for task in self.waiting() if task.at <= now]

    def finish(self, task: Task) -> None:
        """The task was answered with success: it is gone, and its name stays taken."""
        self.finished[task.key] = self.tasks.pop(task.key, task)

    def lose_all(self) -> None:
        """What a crash between commit and creation does, for all tasks at once: none of them was ever there."""
        self.tasks.clear()

    def _add(self, task: Task) -> None:
        if task.key not in self.finished:
            self.tasks.setdefault(task.key, task)
