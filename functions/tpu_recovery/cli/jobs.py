"""What the command line does with jobs: people's documents are written, the service's are read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from tpu_recovery.errors import Conflict, Invalid
from tpu_recovery.model.codec import from_document, to_document
from tpu_recovery.model.incident import Incident
from tpu_recovery.model.messages import Command, CommandKind
from tpu_recovery.model.spec import JobSpec, Wishes
from tpu_recovery.model.state import JobState
from tpu_recovery.recovery.ports import Create, Replace, Store, Write
from tpu_recovery.recovery.records import Record, Records, spec_path


class Applied(StrEnum):
    """What applying a job file did."""

    REGISTERED = "registered"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Desk(NamedTuple):
    """What a person works with: the documents, the topic for commands, the time, a fresh id, a name."""

    store: Store
    send: Callable[[Command], None]
    clock: Callable[[], datetime]
    fresh: Callable[[], str]
    person: str


class JobView(NamedTuple):
    """A job for people to look at; the state is missing until the service has seen the specification."""

    name: str
    state: JobState | None
    wishes: Wishes | None
    incidents: tuple[Incident, ...] = ()


def apply(desk: Desk, spec: JobSpec) -> Applied:
    """Write what a job file says and tell the service. Applying the same file again changes nothing.

    Raises Conflict when somebody else writes the job at the same moment, Unreadable.
    """
    stored = desk.store.get(spec_path(spec.name))[0]
    if stored is None:
        _write(desk, Create(spec_path(spec.name), to_document(Wishes(spec=spec))), spec.name, CommandKind.APPLY)
        return Applied.REGISTERED
    before = from_document(dict(stored.fields), Wishes)
    if before.spec == spec:
        return Applied.UNCHANGED
    after = replace(before, spec=spec, revision=before.revision + 1)
    write = Replace(stored.path, to_document(after), stored.version)
    _write(desk, write, spec.name, CommandKind.APPLY)
    return Applied.CHANGED


def set_paused(desk: Desk, name: str, paused: bool) -> bool:
    """Pause or unpause a job; gives whether that changed anything.

    Raises Invalid for an unknown job, Conflict, Unreadable.
    """
    stored = desk.store.get(spec_path(name))[0]
    if stored is None:
        raise Invalid("job", name, "there is no such job; tpu-recovery list shows all")
    before = from_document(dict(stored.fields), Wishes)
    if before.paused == paused:
        return False
    write = Replace(stored.path, to_document(replace(before, paused=paused)), stored.version)
    _write(desk, write, name, CommandKind.APPLY)
    return True


def resume(desk: Desk, name: str) -> None:
    """Unpause a job, release its hold, and go on. Raises Invalid for an unknown job, Conflict, Unreadable."""
    set_paused(desk, name, paused=False)
    _tell(desk, name, CommandKind.RESUME)


def view_all(desk: Desk) -> list[JobView]:
    """Every job, by name."""
    records = Records(desk.store)
    states = records.everything()
    names = sorted({*states, *records.pauses()})
    return [JobView(name, states.get(name), None) for name in names]


def view(desk: Desk, name: str) -> JobView:
    """One job with its incidents, newest first. Raises Invalid for an unknown job, Unreadable."""
    records = Records(desk.store)
    found = records.load(name)
    if found is None:
        raise Invalid("job", name, "there is no such job; tpu-recovery list shows all")
    if not isinstance(found, Record):
        return JobView(name, None, found)
    return JobView(name, found.job.state, found.job.wishes, tuple(records.incidents(name)))


def _write(desk: Desk, write: Write, name: str, kind: CommandKind) -> None:
    try:
        desk.store.commit([write])
    except Conflict as error:
        raise Conflict(f"somebody else changed job {name} at the same moment; look at it and try again") from error
    _tell(desk, name, kind)


def _tell(desk: Desk, name: str, kind: CommandKind) -> None:
    desk.send(Command(id=desk.fresh(), job=name, kind=kind, at=desk.clock(), by=desk.person))
