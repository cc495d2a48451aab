"""The whole service on this machine, and a person at the keyboard."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tpu_recovery.cli import jobs
from tpu_recovery.cloud import clients
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.local.demo_job import job_file
from tpu_recovery.local.stack import DATABASE, PROJECT, Stack, StackSettings, wait_until
from tpu_recovery.local.tpu import TpuSettings
from tpu_recovery.model.codec import from_document
from tpu_recovery.model.incident import Incident
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.messages import Command
from tpu_recovery.model.state import JobState, Phase
from tpu_recovery.recovery.records import InboxEntry, Records

QUICK = TpuSettings(create_seconds=0.3, delete_seconds=0.2, preemption_grace=0.5)
PATIENCE = 40.0
"""Seconds that a test waits for something to happen before it fails; nothing is asserted about how long it takes."""


class Person:
    """Writes job files, looks at jobs, and waits for what must happen."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        store = FirestoreStore(clients.firestore_client(PROJECT, DATABASE))
        self.records = Records(store)
        self.desk = jobs.Desk(
            store=store,
            send=self._send,
            clock=lambda: datetime.now(UTC),
            fresh=lambda: uuid.uuid4().hex,
            person="tester",
        )
        self._store = store

    def file(self, name: str, **changes: str) -> str:
        """A valid job file with some of its text replaced."""
        text = job_file(self.stack.objects.url, name)
        for before, after in changes.items():
            line = next(line for line in text.splitlines() if line.strip().startswith(f"{before}:"))
            text = text.replace(line, line.split(":", 1)[0] + f": {after}")
        return text

    def apply(self, text: str) -> None:
        """tpu-recovery apply."""
        jobs.apply(self.desk, parse_job_file(text))

    def resume(self, name: str) -> None:
        """tpu-recovery resume."""
        jobs.resume(self.desk, name)

    def state(self, name: str) -> JobState | None:
        """What the service knows about a job."""
        return self.records.everything().get(name)

    def incidents(self, name: str) -> list[Incident]:
        """The job's incidents, newest first."""
        return self.records.incidents(name)

    def inbox(self) -> list[InboxEntry]:
        """Everything that arrived."""
        return [from_document(dict(stored.fields), InboxEntry) for stored in self._store.find("inbox")]

    def until(self, name: str, condition: Callable[[JobState], Any]) -> JobState:
        """Wait until the job's state fulfils the condition."""

        def met() -> bool:
            state = self.state(name)
            return state is not None and bool(condition(state))

        assert wait_until(met, PATIENCE), f"it did not come to that; the job is {self.state(name)}\n{self.log()}"
        state = self.state(name)
        assert state is not None
        return state

    def until_training(self, name: str, generation: int) -> JobState:
        """Wait until a generation has made progress and nothing is open any more."""
        return self.until(
            name, lambda job: job.progressed == generation and job.phase is Phase.RUNNING and not job.incident
        )

    def log(self) -> str:
        """The end of the function's log."""
        return self.stack.function.log.read_text()[-6000:]

    def _send(self, command: Command) -> None:
        self.stack.publish("commands", msgspec.json.encode(command), job=command.job)


@contextmanager
def standing(directory: Path, settings: StackSettings) -> Iterator[Person]:
    """A stack that is up, with this process's clients pointed at it."""
    before = dict(os.environ)
    with Stack(settings, directory) as stack:
        os.environ.update(stack.environment)
        clients.firestore_client.cache_clear()
        try:
            yield Person(stack)
        finally:
            clients.firestore_client(PROJECT, DATABASE).close()
            clients.firestore_client.cache_clear()
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """A person in front of a fresh installation; every message is delivered three times."""
    with standing(tmp_path, StackSettings(tpu=QUICK, sweep_every=5, duplicates=2, creates_per_second=20)) as one:
        yield one
