"""Timers that fire: of a job, of a lease that ended, of a zone, of a sweep that goes on."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tpu_recovery.errors import AlreadyExists, Conflict, Invalid
from tpu_recovery.events.entry import digest
from tpu_recovery.model.state import JobState
from tpu_recovery.recovery import timers
from tpu_recovery.recovery.look import Outcome, look
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.records import (
    InboxEntry,
    InboxKind,
    InboxStatus,
    Record,
    Records,
    put_entry,
    put_state,
)
from tpu_recovery.recovery.sweep import sweep, zone_look


class TimerTask(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a timer. What it is a timer of shows by which fields are there."""

    job: str = ""
    uid: str = ""
    seq: int | None = None
    lease: str = ""
    waiting: bool = False
    zone: str = ""
    sweep_after: str | None = None
    nothing: bool = False


def fire(ports: Ports, body: bytes) -> str:
    """A timer has fired; gives what became of it, in words.

    Raises Invalid for a body that is no timer, Unreadable when the store or the queue does not answer.
    """
    try:
        task = msgspec.json.decode(body, type=TimerTask)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise Invalid("timer task", body[:200].decode("utf-8", "replace"), str(error)) from error
    if task.nothing:
        return "timers arrive"
    if task.zone:
        return zone_look(ports, task.zone)
    if task.sweep_after is not None:
        return sweep(ports, after=task.sweep_after)
    if not task.job:
        raise Invalid("timer task", body.decode(), "it must name a job, a zone, or the job that a sweep goes on after")
    return _job_timer(ports, task)


def _job_timer(ports: Ports, task: TimerTask) -> str:
    records = Records(ports.store)
    record = records.load(task.job)
    if not isinstance(record, Record) or record.job.state.uid != task.uid:
        return "the job is gone"
    state = record.job.state
    if task.seq is not None:
        return _sequenced(ports, record, task.seq)
    if task.lease and (state.lease is None or state.lease.id != task.lease) and not records.waiting(task.job):
        return "the lease was given back in time"
    return look(ports, task.job).value


def _sequenced(ports: Ports, record: Record, seq: int) -> str:
    state = record.job.state
    if state.timer_seq != seq:
        return "an older timer"
    if not timers.is_due(state, ports.clock()):
        return _set_again(ports, record)
    outcome = look(ports, state.job)
    if outcome is Outcome.BUSY:
        _leave_word(ports, state, seq)
        outcome = look(
            ports, state.job
        )  # its holder may have read the inbox for the last time before the word was there
    return outcome.value


def _set_again(ports: Ports, record: Record) -> str:
    """It fired far too early; its name is used up, so the job gets a new one for the same moment."""
    before = record.job.state
    if before.wake_at is None:
        return "nothing is due"
    after = replace(before, timer_seq=before.timer_seq + 1)
    try:
        Records(ports.store).commit(put_state(after, record.state_version))
    except Conflict:
        return "the job has moved on"
    timers.set_timer(ports, before, after)
    return "too early: set again"


def _leave_word(ports: Ports, state: JobState, seq: int) -> None:
    """The timer found the lease taken: an inbox entry makes the holder, or whoever comes after it, look again."""
    now = ports.clock()
    entry = InboxEntry(
        key=digest("timer", state.uid, str(seq)),
        kind=InboxKind.TIMER,
        job=state.job,
        status=InboxStatus.WAITING,
        received=now,
        expire_at=now + ports.settings.inbox_life,
    )
    try:
        Records(ports.store).commit(put_entry(entry))
    except AlreadyExists:
        return  # this timer was delivered twice and has left its word already
