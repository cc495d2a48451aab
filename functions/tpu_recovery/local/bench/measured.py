"""A local stack that notes every call which arrives at its servers, and when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tpu_recovery.cloud import clients
from tpu_recovery.local.firestore import FirestoreServer
from tpu_recovery.local.firestore.messages import Message
from tpu_recovery.local.stack import INDEXES, Stack, StackSettings
from tpu_recovery.local.tasks import TasksServer

GET, FIND, COMMIT, TASK = "Firestore get", "Firestore query", "Firestore commit", "CreateTask"


class Arrival(NamedTuple):
    """One call: when it arrived (seconds of the performance counter), its name, what it was about if that is known."""

    at: float
    call: str
    subject: str = ""


class Timeline:
    """All calls in the order of their arrival."""

    def __init__(self) -> None:
        self._arrivals: list[Arrival] = []
        self._lock = threading.Lock()

    def note(self, call: str, subject: str = "") -> None:
        """A call has arrived."""
        with self._lock:
            self._arrivals.append(Arrival(time.perf_counter(), call, subject))

    def since(self, moment: float) -> list[Arrival]:
        """What has arrived since then."""
        with self._lock:
            return [arrival for arrival in self._arrivals if arrival.at >= moment]


class _Firestore(FirestoreServer):
    def __init__(self, timeline: Timeline) -> None:
        super().__init__(indexes=INDEXES)
        self._timeline = timeline

    def _batch_get_documents(self, request: Message) -> Any:
        self._timeline.note(GET)
        return super()._batch_get_documents(request)

    def _run_query(self, request: Message) -> Any:
        self._timeline.note(FIND)
        return super()._run_query(request)

    def _commit(self, request: Message) -> Message:
        self._timeline.note(COMMIT)
        return super()._commit(request)


class _Tasks(TasksServer):
    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline

    def _create_task(self, request: Message) -> Message:
        self._timeline.note(TASK, request.task.name)
        return super()._create_task(request)


class _Calls(list[tuple[str, str]]):
    """Takes the place of the TPU server's own list of calls."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline

    def append(self, call: tuple[str, str]) -> None:
        super().append(call)
        self._timeline.note(*call)


class MeasuredStack(Stack):
    """A stack with a timeline of the calls to Firestore, Cloud Tasks and the TPU API."""

    def __init__(self, settings: StackSettings) -> None:
        super().__init__(settings)
        self.timeline = Timeline()
        self.firestore = _Firestore(self.timeline)
        self.tasks = _Tasks(self.timeline)

    def start(self) -> MeasuredStack:
        """See Stack.start."""
        super().start()
        self.tpu.calls = _Calls(self.timeline)
        return self


@contextmanager
def measured(settings: StackSettings) -> Iterator[MeasuredStack]:
    """A measured stack that is up, with the clients of this process pointed at it."""
    before = dict(os.environ)
    stack = MeasuredStack(settings)
    with stack:
        os.environ.update(stack.environment)
        clients.forget()
        try:
            yield stack
        finally:
            clients.forget()
            os.environ.clear()
            os.environ.update(before)
