"""What a look has decided: plain data, to be written down first and carried out second."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tpu_recovery.model.incident import Incident
from tpu_recovery.model.state import JobState


class DeleteNode(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a node of ours."""

    name: str
    why: str


class QueueCreate(msgspec.Struct, frozen=True, kw_only=True):
    """Put the creation of the current generation into the queue, to run after a delay."""

    generation: int
    attempt: int
    delay: timedelta
    why: str


class HandOff(msgspec.Struct, frozen=True, kw_only=True):
    """Write the hand-off with this launch number into the node's metadata."""

    name: str
    launch: int
    why: str


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Tell people."""

    severity: str
    text: str


Action = DeleteNode | QueueCreate | HandOff | Notify


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The row of the table that applied, why, and everything that follows from it."""

    row: str
    why: str
    state: JobState
    incident: Incident | None
    actions: tuple[Action, ...] = ()
    ignored: dict[str, str] = msgspec.field(default_factory=dict)
    """Inbox entries that say nothing valid about this job, with the reason. All others count as read."""
