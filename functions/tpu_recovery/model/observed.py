"""What one look has read: plain values, so that deciding needs nothing else."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from tpu_recovery.model.incident import Evidence
from tpu_recovery.model.messages import Command, Event, Report


class Presence(StrEnum):
    """What the TPU API says about the existence of a resource."""

    PRESENT = "present"
    ABSENT = "absent"
    UNREADABLE = "unreadable"


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of GetNode or ListNodes. States and health are the API's names; a number for one from the future."""

    name: str
    presence: Presence
    state: str = ""
    health: str = ""
    id: str = ""
    create_time: datetime | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    workers: int = 0
    """How many worker VMs have an address."""
    problem: str = ""
    """Why it is unreadable."""


class OperationState(StrEnum):
    """How far a long-running operation is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FORGOTTEN = "forgotten"
    """The API no longer knows it: it ended long ago."""
    UNREADABLE = "unreadable"


class OperationReading(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of GetOperation."""

    state: OperationState
    code: str = ""
    message: str = ""


class CheckpointFinding(StrEnum):
    """What the checkpoint location holds."""

    FOUND = "found"
    EMPTY = "empty"
    INCOMPLETE = "incomplete"
    OLDER = "older"
    UNREADABLE = "unreadable"
    NOT_READ = "not-read"
    """No look was taken: the job has no checkpoints, they lie on the VM, or it was not needed."""
    OUTSTANDING = "outstanding"
    """No look was taken, and the answer has come to depend on one. Never a reading; situation_of finds it out."""


class CheckpointReading(msgspec.Struct, frozen=True, kw_only=True):
    """The newest complete checkpoint, and why newer ones were passed over."""

    finding: CheckpointFinding
    step: int | None = None
    path: str = ""
    why: str = ""


NOT_READ = CheckpointReading(finding=CheckpointFinding.NOT_READ)


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """One waiting inbox entry with what it says: exactly one of event, report, command is set."""

    key: str
    received: datetime
    evidence: Evidence
    event: Event | None = None
    report: Report | None = None
    command: Command | None = None


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """All that one look has read about one job."""

    project: str = ""
    """The project whose TPUs are used."""
    node: NodeReading | None = None
    """The current generation's node; None when no capacity was ever asked for."""
    operation: OperationReading | None = None
    leftovers: tuple[NodeReading, ...] = ()
    hostnames: tuple[str, ...] = ()
    attributes_unreadable: bool = False
    """The guest attributes were asked for and could not be read."""
    reports: tuple[Report, ...] = ()
    """Read from guest attributes."""
    checkpoint: CheckpointReading = NOT_READ
    letters: tuple[Letter, ...] = ()
