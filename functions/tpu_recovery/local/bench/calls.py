"""How many calls one recovery makes: one Spot node lost, everything from the first entry to the last report.

Not counted is what the regular sweep does for all jobs together, such as confirming that the old node is gone.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from tpu_recovery.cli import jobs
from tpu_recovery.cloud import clients
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.local.bench.measured import COMMIT, FIND, GET, TASK, MeasuredStack, measured
from tpu_recovery.local.bench.running import node_of
from tpu_recovery.local.demo_job import job_file
from tpu_recovery.local.stack import DATABASE, PROJECT, StackSettings, wait_until
from tpu_recovery.local.tpu import TpuSettings
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.messages import Command
from tpu_recovery.model.state import JobState, Phase
from tpu_recovery.recovery.records import Records

JOB = "bench"
SETTINGS = StackSettings(
    tpu=TpuSettings(create_seconds=0.5, delete_seconds=0.3, preemption_grace=0.5), sweep_every=0, creates_per_second=20
)
PATIENCE = 90.0
"""Seconds for each part of the story."""

_ELSEWHERE = (GET, FIND, COMMIT, TASK)


class Calls(NamedTuple):
    """The calls by name."""

    counts: Mapping[str, int]

    @property
    def tpu(self) -> dict[str, int]:
        """Calls of the TPU API."""
        return {call: count for call, count in sorted(self.counts.items()) if call not in _ELSEWHERE}


class NotRecovered(Exception):
    """The job did not come to where it had to; the message holds the job and the end of the log."""


def count_calls() -> Calls:
    """Train, lose the node, train again, tidy up, and count from the loss on. Raises NotRecovered."""
    with measured(SETTINGS) as stack:
        store = FirestoreStore(clients.firestore_client(PROJECT, DATABASE))
        _register(stack, store)
        watch = _Watch(stack, Records(store))
        watch.until(lambda job: _is_training(job, 1))
        watch.until_quiet()
        before = watch.reads
        begin = time.perf_counter()
        stack.tpu.preempt(node_of(JOB))
        watch.until(lambda job: _is_training(job, 2) and node_of(JOB) not in stack.tpu.node_names())
        watch.until_quiet()
        counts = Counter(arrival.call for arrival in stack.timeline.since(begin))
        counts[FIND] -= watch.reads - before
        return Calls(counts)


class _Watch:
    """Looks at the job in the store; counts its own queries, which are no part of a recovery."""

    def __init__(self, stack: MeasuredStack, records: Records) -> None:
        self._stack = stack
        self._records = records
        self.reads = 0

    def until(self, condition: Callable[[JobState], bool]) -> None:
        def met() -> bool:
            state = self._state()
            return state is not None and condition(state)

        if not wait_until(met, PATIENCE, every=0.2):
            log = self._stack.function.log.read_text()[-3000:]
            raise NotRecovered(f"the job is {self._state()}\n{log}")

    def until_quiet(self) -> None:
        """Until nothing is on its way any more."""
        if not (self._stack.tasks.wait_idle(PATIENCE) and self._stack.pubsub.wait_idle(PATIENCE)):
            raise NotRecovered("messages are still on their way")

    def _state(self) -> JobState | None:
        self.reads += 1
        return self._records.everything().get(JOB)


def _is_training(job: JobState, generation: int) -> bool:
    return job.progressed == generation and job.phase is Phase.RUNNING and not job.incident


def _register(stack: MeasuredStack, store: FirestoreStore) -> None:
    def send(command: Command) -> None:
        stack.publish("commands", msgspec.json.encode(command), job=command.job)

    desk = jobs.Desk(
        store=store,
        send=send,
        clock=lambda: datetime.now(UTC),
        fresh=lambda: uuid.uuid4().hex,
        person="bench",
    )
    jobs.apply(desk, parse_job_file(job_file(stack.objects.url, JOB)))
