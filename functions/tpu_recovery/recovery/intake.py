"""What arrives by Pub/Sub: written down first, looked at second. Nothing is acknowledged before it is durable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from tpu_recovery.errors import AlreadyExists, Conflict, Invalid, Unstorable
from tpu_recovery.events.entry import digest, parse_entry
from tpu_recovery.events.envelope import LARGEST_MESSAGE, Message, read_envelope
from tpu_recovery.events.reports import key_of_command, key_of_report, parse_command, parse_report
from tpu_recovery.model.messages import Author, Event, Meaning
from tpu_recovery.model.state import JobState
from tpu_recovery.model.texts import LONGEST_RAW, cut
from tpu_recovery.model.validate import ZONE
from tpu_recovery.recovery import incidents, timers
from tpu_recovery.recovery.absorb import MOST_EVIDENCE
from tpu_recovery.recovery.letters import read_letters
from tpu_recovery.recovery.look import look
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.records import (
    InboxEntry,
    InboxKind,
    InboxStatus,
    Record,
    Records,
    put_entry,
    put_incident,
)

log = logging.getLogger(__name__)

LATE_TRIES = 3
"""How often a late entry is added to an incident that others are writing to; the inbox has it in any case."""


class Arrival(NamedTuple):
    """What a message turns out to be: its inbox key, whose it is, and what is to be done beyond writing it down."""

    key: str
    job: str
    reason: str = ""
    """Why nobody has to look; empty when somebody has to."""
    late: bool = False
    """It tells of a generation that is over: evidence for the incident, no reason to look."""
    zone: str = ""
    """A worker VM that no job claims is in this zone."""


def receive(ports: Ports, kind: InboxKind, body: bytes) -> InboxStatus:
    """Take one push request of the topic for events, reports or commands; gives what became of it.

    Raises Unreadable when the store does not answer: the message then has to be delivered again.
    """
    try:
        message = read_envelope(body)
    except Invalid as problem:
        return _keep_unreadable(ports, kind, body, str(problem))
    try:
        arrival = _SORTERS[kind](ports, message)
    except Invalid as problem:
        return _keep_unreadable(ports, kind, message.data or body, str(problem))
    entry = _written(ports, _entry(ports, kind, arrival, message.data))
    if entry.status is InboxStatus.WAITING:
        look(ports, entry.job)
        return InboxStatus.DONE
    if entry.status is InboxStatus.IGNORED:
        _after_ignoring(ports, arrival, entry)
    return entry.status


def _entry(ports: Ports, kind: InboxKind, arrival: Arrival, data: bytes) -> InboxEntry:
    now = ports.clock()
    return InboxEntry(
        key=arrival.key,
        kind=kind,
        job=arrival.job,
        status=InboxStatus.IGNORED if arrival.reason else InboxStatus.WAITING,
        received=now,
        expire_at=now + ports.settings.inbox_life,
        reason=cut(arrival.reason),
        raw=_text(data),
    )


def _text(data: bytes) -> str:
    """As much of a message as the inbox can keep. What is no UTF-8 grows when it becomes text, so it is cut twice."""
    text = data[:LARGEST_MESSAGE].decode("utf-8", "replace")
    return text.encode()[:LARGEST_MESSAGE].decode("utf-8", "ignore")


def _written(ports: Ports, entry: InboxEntry) -> InboxEntry:
    """Write an entry once; gives what the inbox holds, which for a duplicate is the first one and what became of it."""
    records = Records(ports.store)
    try:
        records.commit(put_entry(entry))
    except AlreadyExists:
        return records.entry(entry.key) or entry
    except Unstorable as problem:
        return _written_short(records, entry, problem)
    return entry


def _written_short(records: Records, entry: InboxEntry, problem: Unstorable) -> InboxEntry:
    """Write the beginning of an entry that the store refuses as a whole: it is no better when it is delivered again."""
    log.error("only the beginning of a message is kept: %s", problem, extra={"inbox": entry.key, "job": entry.job})
    short = replace(
        entry, status=InboxStatus.IGNORED, reason=cut(f"not kept whole: {problem}"), raw=cut(entry.raw, LONGEST_RAW)
    )
    with suppress(AlreadyExists):
        records.commit(put_entry(short))
    return short


def _keep_unreadable(ports: Ports, kind: InboxKind, data: bytes, reason: str) -> InboxStatus:
    arrival = Arrival(key=digest("unreadable", kind, data.decode("latin-1")), job="", reason=reason)
    log.warning("a message that cannot be read was kept: %s", reason, extra={"inbox": arrival.key, "topic": kind.value})
    return _written(ports, _entry(ports, kind, arrival, data)).status


def _sort_event(ports: Ports, message: Message) -> Arrival:
    event = parse_entry(message.data, service_account=ports.settings.service_account)
    owner = Records(ports.store).owner(str(event.resource))
    if owner is None:
        zone = event.resource.zone if event.resource.is_worker and ZONE.fullmatch(event.resource.zone) else ""
        return Arrival(event.key, "", reason=f"no job claims {event.resource}", zone=zone)
    if event.author is Author.SERVICE and event.meaning is not Meaning.CREATE_ENDED:
        return Arrival(event.key, owner.job, reason="the service's own call; it knows")
    if not _is_current(owner, event):
        return Arrival(event.key, owner.job, reason="it tells of a generation that is over", late=True)
    return Arrival(event.key, owner.job)


def _is_current(owner: JobState, event: Event) -> bool:
    """Whether the entry is about the current generation; a worker VM that is not mapped to an older one counts too."""
    name = str(event.resource)
    return any(name == one.name or event.resource.id in one.hostnames for one in owner.slices)


def _sort_report(ports: Ports, message: Message) -> Arrival:
    report = parse_report(message.data)
    known = Records(ports.store).state(report.job)
    key = key_of_report(report)
    if known is None or known.uid != report.uid:
        return Arrival(key, "", reason=f"no job {report.job!r} with uid {report.uid!r} is registered")
    if report.generation != known.generation:
        reason = f"it is about generation {report.generation}; the current one is {known.generation}"
        return Arrival(key, report.job, reason=reason)
    return Arrival(key, report.job)


def _sort_command(ports: Ports, message: Message) -> Arrival:
    command = parse_command(message.data)
    if Records(ports.store).load(command.job) is None:
        return Arrival(key_of_command(command), "", reason=f"there is no job {command.job!r}")
    return Arrival(key_of_command(command), command.job)


_SORTERS: dict[InboxKind, Callable[[Ports, Message], Arrival]] = {
    InboxKind.EVENT: _sort_event,
    InboxKind.REPORT: _sort_report,
    InboxKind.COMMAND: _sort_command,
}


def _after_ignoring(ports: Ports, arrival: Arrival, entry: InboxEntry) -> None:
    if arrival.zone:
        timers.look_at_zone(ports, ports.settings.project, arrival.zone)
    if arrival.late:
        _add_to_incident(ports, arrival.job, entry)


def _add_to_incident(ports: Ports, job: str, entry: InboxEntry) -> None:
    """Late evidence is attached to the open incident and does nothing else."""
    records = Records(ports.store)
    letters, _ = read_letters([entry], ports.settings.service_account)
    for _ in range(LATE_TRIES):
        record = records.load(job)
        if not isinstance(record, Record) or record.job.incident is None or not letters:
            return
        incident, evidence = record.job.incident, letters[0].evidence
        if evidence in incident.evidence or len(incident.evidence) >= MOST_EVIDENCE:
            return
        incident = replace(incident, evidence=(*incident.evidence, evidence))
        incident = incidents.first_seen(incident, evidence)
        try:
            records.commit(put_incident(incident, record.incident_version))
        except Conflict:
            continue
        return
    log.info("the incident was busy; the inbox keeps the late entry", extra={"job": job, "inbox": entry.key})
