"""The documents of the service, typed: ``specs``, ``jobs``, their ``incidents``, and the ``inbox``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from tpu_recovery.errors import Invalid, Unreadable
from tpu_recovery.model.codec import from_document, to_document
from tpu_recovery.model.incident import Incident
from tpu_recovery.model.job import Job
from tpu_recovery.model.spec import Wishes
from tpu_recovery.model.state import FINAL, JobState
from tpu_recovery.model.texts import cut
from tpu_recovery.model.validate import validate
from tpu_recovery.recovery.ports import Change, Create, Replace, Store, Stored, Write

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN = "open"
"""The one field of a job's document that its state does not have: whether the sweep has to care about the job."""


class InboxKind(StrEnum):
    """What an inbox entry holds."""

    EVENT = "event"
    REPORT = "report"
    COMMAND = "command"
    TIMER = "timer"


class InboxStatus(StrEnum):
    """What became of an inbox entry."""

    WAITING = "waiting"
    DONE = "done"
    IGNORED = "ignored"


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that arrived, as it came, and what became of it."""

    key: str
    kind: InboxKind
    job: str
    status: InboxStatus
    received: datetime
    expire_at: datetime
    reason: str = ""
    raw: str = ""


class Record(NamedTuple):
    """A job with the versions of the documents it was read from."""

    job: Job
    state_version: object
    incident_version: object | None


def job_path(job: str) -> str:
    """Where the service keeps what it knows about a job."""
    return f"jobs/{job}"


def spec_path(job: str) -> str:
    """Where people keep what they want of a job."""
    return f"specs/{job}"


def incident_path(job: str, incident: str) -> str:
    """Where an incident of a job is kept."""
    return f"jobs/{job}/incidents/{incident}"


def inbox_path(key: str) -> str:
    """Where an inbox entry is kept."""
    return f"inbox/{key}"


class Records:
    """Typed reading and writing over a Store. Methods raise what the Store raises."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self, name: str) -> Record | Wishes | None:
        """A job; only its wishes when the service has not registered it yet; None when nobody knows it."""
        state, spec = self._store.get(job_path(name), spec_path(name))
        wishes = _wishes(spec)
        if state is None:
            return wishes
        known = _state(state)
        incident = self._store.get(incident_path(name, known.incident))[0] if known.incident else None
        return Record(
            Job(state=known, wishes=wishes, incident=_incident(incident)),
            state.version,
            incident.version if incident else None,
        )

    def owner(self, resource: str) -> JobState | None:
        """The job that a resource is or lately was of."""
        found = self._store.find("jobs", ("resources", "array_contains", resource), limit=1)
        return _state(found[0]) if found else None

    def state(self, job: str) -> JobState | None:
        """What is known about one job."""
        stored = self._store.get(job_path(job))[0]
        return _state(stored) if stored else None

    def unfinished(self) -> list[JobState]:
        """All jobs that are not over, and those over that still have something to be deleted."""
        return sorted(_readable(self._store.find("jobs", (OPEN, "==", True))), key=lambda state: state.job)

    def everything(self) -> dict[str, JobState]:
        """Every job that the service knows, by name."""
        return {state.job: state for state in _readable(self._store.find("jobs"))}

    def incidents(self, job: str) -> list[Incident]:
        """All incidents of a job, newest first."""
        found = self._store.find(f"jobs/{job}/incidents")
        incidents = [_fitting(stored, Incident) for stored in found]
        return sorted(incidents, key=lambda incident: incident.opened, reverse=True)

    def registered(self, names: Sequence[str]) -> dict[str, JobState]:
        """Those of the named jobs that exist."""
        found = self._store.get(*(job_path(name) for name in names)) if names else ()
        return {state.job: state for state in _readable(filter(None, found))}

    def pauses(self) -> dict[str, bool]:
        """All jobs that people want something of, by name, with whether they want it paused."""
        found = self._store.find("specs")
        return {stored.path.rsplit("/", 1)[1]: stored.fields.get("paused") is True for stored in found}

    def waiting(self, job: str) -> list[InboxEntry]:
        """The job's inbox entries that no look has read yet, oldest first."""
        filters = (("job", "==", job), ("status", "==", InboxStatus.WAITING.value))
        entries = [_fitting(stored, InboxEntry) for stored in self._store.find("inbox", *filters)]
        return sorted(entries, key=lambda entry: (entry.received, entry.key))

    def waiting_jobs(self) -> set[str]:
        """Names of all jobs that have waiting inbox entries."""
        found = self._store.find("inbox", ("status", "==", InboxStatus.WAITING.value), limit=1000)
        return {str(stored.fields.get("job")) for stored in found if stored.fields.get("job")}

    def entry(self, key: str) -> InboxEntry | None:
        """One inbox entry."""
        stored = self._store.get(inbox_path(key))[0]
        return _fitting(stored, InboxEntry) if stored else None

    def commit(self, *writes: Write) -> Sequence[object]:
        """Make all writes or none; gives the new versions."""
        return self._store.commit(writes)


def put_state(state: JobState, version: object | None) -> Write:
    """Write a job's state: over the version that was read, or as a new document. Counts its own versions too."""
    state = replace(state, version=state.version + 1)
    still_open = state.phase not in FINAL or bool(state.leftovers)
    path, fields = job_path(state.job), {**to_document(state), OPEN: still_open}
    return Create(path, fields) if version is None else Replace(path, fields, version)


def put_incident(incident: Incident, version: object | None) -> Write:
    """Write an incident: over the version that was read, or as a new document."""
    path, fields = incident_path(incident.job, incident.id), to_document(incident)
    return Create(path, fields) if version is None else Replace(path, fields, version)


def put_entry(entry: InboxEntry) -> Write:
    """Write a new inbox entry."""
    return Create(inbox_path(entry.key), to_document(entry))


def settle_entry(key: str, reason: str = "") -> Write:
    """Mark an inbox entry as read; with a reason: as ignored."""
    status = InboxStatus.IGNORED if reason else InboxStatus.DONE
    return Change(inbox_path(key), {"status": status.value, "reason": cut(reason)})


def _state(stored: Stored) -> JobState:
    return _fitting(stored, JobState)


def _readable(found: Iterable[Stored]) -> Iterator[JobState]:
    """The states that can be read. One that cannot must not keep the service from all the others."""
    for stored in found:
        try:
            yield _state(stored)
        except Unreadable as problem:
            log.error("%s", problem)


def _fitting(stored: Stored, kind: type[T]) -> T:
    try:
        return from_document(dict(stored.fields), kind)
    except msgspec.ValidationError as error:
        raise Unreadable(f"{stored.path} does not fit this version of the service: {error}") from error


def _wishes(stored: Stored | None) -> Wishes | None:
    if stored is None:
        return None
    try:
        wishes = from_document(dict(stored.fields), Wishes)
        return wishes if validate(wishes.spec).name == stored.path.rsplit("/", 1)[1] else None
    except (msgspec.ValidationError, Invalid):
        return None  # treated as gone, whoever has written it: the job is held, nothing is destroyed


def _incident(stored: Stored | None) -> Incident | None:
    return _fitting(stored, Incident) if stored else None
