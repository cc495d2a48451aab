"""The one place where capacity is created: a task of the rate-limited queue. No lease, no waiting."""

from __future__ import annotations

import logging
from datetime import datetime

import msgspec
from msgspec.structs import replace

from tpu_recovery.errors import AlreadyExists, Conflict, Invalid, Refused, Unreadable
from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import Presence
from tpu_recovery.model.state import Create, CreateError, JobState
from tpu_recovery.model.texts import cut
from tpu_recovery.recovery import incidents, timers
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.records import Record, Records, put_incident, put_state
from tpu_recovery.recovery.requests import node_request
from tpu_recovery.recovery.situation import Standing, owns, standing_of

log = logging.getLogger(__name__)

TRIES = 12
"""How often the result is written again when looks are changing the job at the same time."""


class CreateTask(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a task: which creation of which job."""

    job: str
    uid: str
    generation: int
    attempt: int


def create(ports: Ports, body: bytes) -> str:
    """Carry out one creation if it is still wanted; gives what became of it, in words.

    Raises Invalid for a body that is no task, Unreadable when the store does not answer, or when it is unknown whether
    the call arrived: the queue then repeats it, with the same request id.
    """
    try:
        task = msgspec.json.decode(body, type=CreateTask)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise Invalid("create task", body[:200].decode("utf-8", "replace"), str(error)) from error
    records = Records(ports.store)
    record = records.load(task.job)
    if not isinstance(record, Record) or not _is_wanted(record.job, task):
        return "not wanted any more"
    outcome = _call(ports, record.job)
    _record(ports, records, task, outcome)
    return outcome.error.message if outcome.error else f"accepted: {outcome.operation}"


def _is_wanted(job: Job, task: CreateTask) -> bool:
    if job.wishes is None or job.wishes.paused or standing_of(job) is not Standing.ACTIVE:
        return False
    create = _intended(job.state, task)
    return create is not None and create.accepted is None and create.error is None


def _intended(state: JobState, task: CreateTask) -> Create | None:
    """The creation that the task is about, unless the job has gone on to another generation."""
    return state.create if (state.uid, state.generation) == (task.uid, task.generation) else None


class _CallOutcome(msgspec.Struct, frozen=True):
    operation: str = ""
    error: CreateError | None = None
    at: datetime | None = None


def _call(ports: Ports, job: Job) -> _CallOutcome:
    """Make the call. Raises Unreadable when it is unknown whether it arrived."""
    request = node_request(job, ports.settings, ports.startup_script())
    try:
        operation = ports.capacity.create(request)
    except AlreadyExists:
        return _taken(ports, job)
    except Refused as refusal:
        now = ports.clock()
        return _CallOutcome(error=CreateError(code=refusal.code, message=cut(refusal.message), at=now), at=now)
    return _CallOutcome(operation=operation, at=ports.clock())


def _taken(ports: Ports, job: Job) -> _CallOutcome:
    """The name exists: success if the node is the one this generation asked for, a conflict if it is anybody else's."""
    node = ports.capacity.describe(job.node_name)
    now = ports.clock()
    if node.presence is not Presence.PRESENT:
        raise Unreadable(f"{job.node_name} exists and cannot be read: {node.problem or 'NOT_FOUND'}")
    if owns(job, node):
        return _CallOutcome(at=now)
    message = f"{job.node_name} exists and is not ours (labels {dict(node.labels)})"
    return _CallOutcome(error=CreateError(code="ALREADY_EXISTS", message=cut(message), at=now), at=now)


def _record(ports: Ports, records: Records, task: CreateTask, outcome: _CallOutcome) -> None:
    """Write the call's result, whatever else changes the job at the same time."""
    for _ in range(TRIES):
        record = records.load(task.job)
        intended = _intended(record.job.state, task) if isinstance(record, Record) else None
        if not isinstance(record, Record) or intended is None:
            log.warning("a create of an earlier generation was answered late", extra={"job": task.job})
            return
        now = ports.clock()
        state = timers.scheduled(record.job.state, _with_outcome(record.job.state, intended, outcome, now), now)
        writes = [put_state(state, record.state_version)]
        incident = record.job.incident
        if incident is not None and outcome.at is not None and outcome.error is None:
            incident = incidents.with_milestone(incident, "accepted", outcome.at)
            writes.append(put_incident(incident, record.incident_version))
        try:
            records.commit(*writes)
        except Conflict:
            continue
        timers.set_timer(ports, record.job.state, state)
        return
    raise Unreadable(f"job {task.job} changes faster than the result of its create can be written")


def _with_outcome(state: JobState, create: Create, outcome: _CallOutcome, now: datetime) -> JobState:
    """The state with the call's result. Once accepted it stays so: a repetition cannot take that back."""
    if outcome.error is None:
        operation, accepted = create.operation or outcome.operation, create.accepted or outcome.at
        create = replace(create, operation=operation, accepted=accepted, error=None)
        return replace(state, create=create, handed=max(state.handed, create.launch))
    if create.accepted is not None:
        return state
    return replace(state, create=replace(create, error=outcome.error), wake_at=now)
