"""What went wrong with a job, which evidence says so, what was done about it and when."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from tpu_recovery.model.messages import Author, Meaning


class Cause(StrEnum):
    """Why a job was interrupted."""

    PREEMPTION = "PREEMPTION"
    HOST_MAINTENANCE = "HOST_MAINTENANCE"
    HOST_ERROR = "HOST_ERROR"
    EXPIRED = "EXPIRED"
    USER_DELETED = "USER_DELETED"
    USER_STOPPED = "USER_STOPPED"
    SETUP_FAILED = "SETUP_FAILED"
    TRAINING_CRASH = "TRAINING_CRASH"
    HANG = "HANG"
    LOST = "LOST"


class EvidenceKind(StrEnum):
    """Where a piece of evidence comes from."""

    EVENT = "event"
    REPORT = "report"
    READING = "reading"
    COMMAND = "command"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One event, report, command or API reading: when, about what, what it says, and its text as it came."""

    kind: EvidenceKind
    at: datetime
    received: datetime
    subject: str
    says: str
    meaning: Meaning | None = None
    author: Author | None = None
    raw: str = ""


class Outcome(StrEnum):
    """How an incident ended."""

    OPEN = "open"
    RESUMED = "resumed"
    HELD = "held"


class Milestones(msgspec.Struct, frozen=True, kw_only=True):
    """The way from interruption to training resumed, in UTC; None: not reached (yet)."""

    occurred: datetime | None = None
    received: datetime | None = None
    decided: datetime | None = None
    deleted: datetime | None = None
    accepted: datetime | None = None
    ready: datetime | None = None
    launched: datetime | None = None
    resumed: datetime | None = None


class ActionTaken(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was done, when, why, and what came of it."""

    at: datetime
    what: str
    why: str
    result: str = "intended"


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One interruption of a job, from its first sign until training has resumed or a person must act."""

    id: str
    job: str
    generation: int
    cause: Cause
    opened: datetime
    evidence: tuple[Evidence, ...] = ()
    milestones: Milestones = Milestones()
    actions: tuple[ActionTaken, ...] = ()
    checkpoint: str = ""
    """Which step training goes on from, and why that one, in words."""
    last_step: int | None = None
    """The newest training step known from before the interruption."""
    resume_step: int | None = None
    steps_lost: int | None = None
    spent: tuple[str, ...] = ()
    """The attempts that this incident used up, one word of `Attempts` each."""
    outcome: Outcome = Outcome.OPEN
    closed: datetime | None = None
    needs: str = ""
    """What a person has to do; empty when nothing."""
