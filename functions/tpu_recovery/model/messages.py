"""What wakes a job: events (parsed audit-log entries), reports (of the runner), commands (of people)."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from tpu_recovery.model.names import ResourceName
from tpu_recovery.model.texts import Text, Word

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that says its zone; one that does not could be compared with no other."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number that the store can hold: whole numbers in Firestore have 64 bits."""

ExitCode = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""What a process ends with; below 0: the signal that ended it."""

YEARS = range(1970, 9999)
"""Years that a time from outside may be in: what is added to it or compared with it stays one that can be stored."""


def in_utc(moment: datetime) -> datetime:
    """The same moment in UTC. Raises ValueError when it has no such form, or none that leaves room for durations."""
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a time must have a form in UTC") from error
    if moment.year not in YEARS:
        raise ValueError(f"a time must be in the years {YEARS[0]} to {YEARS[-1]}, in UTC")
    return moment


class Meaning(StrEnum):
    """What an audit-log entry says about a resource, in one word. It is a hint; the API is the truth."""

    NODE_TERMINATED = "node-terminated"
    NODE_RESTARTED = "node-restarted"
    WORKER_PREEMPTED = "worker-preempted"
    HOST_ERROR = "host-error"
    HOST_MAINTENANCE = "host-maintenance"
    WORKER_RESTARTED = "worker-restarted"
    MAINTENANCE_NOTICE = "maintenance-notice"
    WORKER_STOPPED = "worker-stopped"
    RUN_TIME_EXPIRED = "run-time-expired"
    CREATE_ACCEPTED = "create-accepted"
    CREATE_ENDED = "create-ended"
    DELETE_ACCEPTED = "delete-accepted"
    DELETE_ENDED = "delete-ended"
    STOPPED = "stopped"
    STARTED = "started"
    CHANGED = "changed"
    CALL_REFUSED = "call-refused"
    OTHER = "other"


LOSS_MEANINGS = frozenset(
    {
        Meaning.NODE_TERMINATED,
        Meaning.WORKER_PREEMPTED,
        Meaning.HOST_ERROR,
        Meaning.HOST_MAINTENANCE,
        Meaning.WORKER_STOPPED,
        Meaning.RUN_TIME_EXPIRED,
    }
)
"""What the platform says when a node, or a worker of it, is gone or going."""

END_MEANINGS = frozenset({Meaning.DELETE_ACCEPTED, Meaning.DELETE_ENDED, Meaning.STOPPED})
"""What an entry says when somebody deletes or stops a node."""


class Author(StrEnum):
    """Who caused an audit-log entry."""

    PLATFORM = "platform"
    """A system event: nobody called an API."""
    SERVICE = "service"
    """Our own account."""
    PERSON = "person"
    """Any other named principal."""
    UNKNOWN = "unknown"
    """No principal is named."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An audit-log entry about a TPU node, a queued resource or a worker VM."""

    key: str
    resource: ResourceName
    method: str
    meaning: Meaning
    author: Author
    principal: str
    at: datetime
    operation: str = ""
    message: str = ""
    terminate_reason: str = ""
    """Kept as it came; it never decides anything (facts page, section 1.2)."""


class ReportKind(StrEnum):
    """What the runner has to say."""

    BOOTED = "booted"
    ALIVE = "alive"
    SETUP_FAILED = "setup_failed"
    REFUSED = "refused"
    STARTED = "started"
    PROGRESS = "progress"
    CRASHED = "crashed"
    GAVE_UP = "gave_up"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the runner on one worker VM. Unknown fields are left out, so that runners may be newer."""

    job: str
    uid: str
    generation: Count
    launch: Count
    worker: Count
    boot: Word
    sequence: Count
    kind: ReportKind
    at: Moment
    token: str
    version: int = 1
    hostname: Word = ""
    step: Count | None = None
    checkpoint_step: Count | None = None
    resumed_from: Count | None = None
    exit_code: ExitCode | None = None
    reason: Word | None = None
    detail: Text | None = None

    def __post_init__(self) -> None:
        """Times are kept in UTC. Raises ValueError, which decoding makes a ValidationError, for one that cannot be."""
        force_setattr(self, "at", in_utc(self.at))


class CommandKind(StrEnum):
    """What a person wants done with a job, beyond what its specification says."""

    APPLY = "apply"
    """The specification was written or changed: look at it."""
    RESUME = "resume"
    """Release a hold and go on."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A person's wish, sent through the topic `commands`."""

    id: str
    job: str
    kind: CommandKind
    at: Moment
    by: str = ""

    def __post_init__(self) -> None:
        """As in a report."""
        force_setattr(self, "at", in_utc(self.at))
