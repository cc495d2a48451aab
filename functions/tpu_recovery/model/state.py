"""What the service knows about a job: the document ``jobs/{job}``, written by the service only."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from tpu_recovery.model.incident import Evidence
from tpu_recovery.model.messages import ReportKind
from tpu_recovery.model.spec import Placement


class Phase(StrEnum):
    """Where a job is."""

    REGISTERED = "REGISTERED"
    WATCHED = "WATCHED"
    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUSPECT = "SUSPECT"
    RECOVERING = "RECOVERING"
    HELD = "HELD"
    PAUSED = "PAUSED"
    STOOD_DOWN = "STOOD_DOWN"
    SUCCEEDED = "SUCCEEDED"
    DELETED = "DELETED"


FINAL = frozenset({Phase.SUCCEEDED, Phase.DELETED})


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One TPU node of the job's current generation, as last read."""

    name: str
    id: str = ""
    create_time: datetime | None = None
    state: str = ""
    health: str = ""
    hostnames: tuple[str, ...] = ()


class CreateError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a create failed: the code's name and the text, as the call or the operation gave them."""

    code: str
    message: str
    at: datetime


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """The creation of the current generation: intended first, then asked for, then accepted or refused."""

    request_id: str
    intended: datetime
    placement: int
    """Its number in the specification of that moment."""
    launch: int
    """The launch number in the hand-off at creation: above 0 only with the generation before confirmed gone."""
    due: datetime
    """When the call is to leave the queue, at the earliest."""
    where: Placement
    """The placement as it was when the creation was decided: a later edit applies to the next generation."""
    queued: bool = False
    """Whether this attempt is known to be in the queue. An intent whose call never got there is repeated at once."""
    attempt: int = 1
    """How often the call was queued, always with the same request id."""
    operation: str = ""
    accepted: datetime | None = None
    error: CreateError | None = None
    resume_step: int | None = None
    resume_path: str = ""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A node of ours below the current generation: to be deleted, and followed until it is confirmed absent."""

    name: str
    generation: int
    stopped: bool = False
    """Confirmed not to run anything: absent when it was replaced, or read as PREEMPTED or TERMINATED since."""
    delete_accepted: datetime | None = None
    absent_since: datetime | None = None
    could_appear_until: datetime | None = None
    """Its create call was refused, but the same call may still be frozen somewhere on its way: until this moment a node
    that it makes would be allowed to start the program."""


class RunnerState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest report of one worker of the current generation."""

    worker: int
    kind: ReportKind
    launch: int
    boot: str
    sequence: int
    at: datetime
    received: datetime
    resumed_from: int | None = None
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far training is known to be."""

    step: int | None = None
    """The newest training step that was reported."""
    checkpoint_step: int | None = None
    """The newest complete checkpoint that was ever seen."""
    at: datetime | None = None
    older_accepted: datetime | None = None
    """When a person accepted an older checkpoint: what reports of before say about checkpoints is over."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Since when something is being waited for, and until when."""

    since: datetime
    until: datetime


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts used up for one cause since the job began, and how many of them later progress has forgiven.

    Both only grow; what counts against the limit is their difference.
    """

    spent: int = 0
    forgiven: int = 0

    @property
    def counted(self) -> int:
        """Attempts that count against the limit."""
        return self.spent - self.forgiven


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """We stopped on purpose: why, and what a person has to do."""

    reason: str
    needs: str
    since: datetime
    row: str = ""
    """Name of the row of the decision table that holds the job."""
    evidence: tuple[Evidence, ...] = ()


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who is looking at the job just now. It saves work; it never makes anything safe."""

    id: str
    until: datetime


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the service knows about one job."""

    job: str
    uid: str
    phase: Phase
    since: datetime
    version: int = 0
    generation: int = 0
    launch: int = 0
    launch_before: datetime | None = None
    """A first start of the current launch after this moment is refused by the runner."""
    handed: int = 0
    """The launch that the node's hand-off is known to hold."""
    token: str = ""
    """Secret of the current generation: it proves that a report comes from the VM we created."""
    slices: tuple[Slice, ...] = ()
    create: Create | None = None
    failures: int = 0
    """Creates in a row that failed."""
    leftovers: tuple[Leftover, ...] = ()
    resources: tuple[str, ...] = ()
    """Full names of nodes and worker VMs that are or lately were ours, for array_contains."""
    runners: tuple[RunnerState, ...] = ()
    progress: Progress = Progress()
    progressed: int = 0
    """The newest generation that has made progress."""
    suspicion: tuple[Evidence, ...] = ()
    """Evidence about the current generation that no incident holds yet."""
    absent_since: datetime | None = None
    """When the current generation's node was first read as absent, after it was there."""
    patience: dict[str, Patience] = msgspec.field(default_factory=dict)
    """What is being waited for, by concern."""
    spending: dict[str, Spending] = msgspec.field(default_factory=dict)
    why: str = ""
    """What the newest look has found, in words."""
    wake_at: datetime | None = None
    timer_seq: int = 0
    lease: Lease | None = None
    hold: Hold | None = None
    going_on: bool = False
    """A person has released the hold, and what that asks for could not be done yet."""
    incident: str = ""
    """Id of the open incident; empty when there is none."""
    incidents: int = 0
    """How many incidents the job has had."""
    revision: int = 0
    """The specification's revision that the newest creation used."""
