"""A job and what was read of it -> a situation: one value for each column of the decision table."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import END_MEANINGS, LOSS_MEANINGS, Author, Meaning, ReportKind
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_UID
from tpu_recovery.model.observed import CheckpointFinding, NodeReading, Observed, OperationState, Presence
from tpu_recovery.model.state import FINAL, Phase, RunnerState
from tpu_recovery.recovery.resumes import asks_to_go_on

CONFIRM_ABSENCE = timedelta(seconds=20)
"""A loss that is seen by NOT_FOUND alone needs a second one this much later."""

UNANSWERED_AFTER = timedelta(minutes=10)
"""A queued create that has left no trace for this long is queued again, with the same request id."""


class Standing(StrEnum):
    """Whether the job is to be kept running at all."""

    ACTIVE = "active"
    HELD = "held"
    PAUSED = "paused"
    HELD_AND_PAUSED = "held-and-paused"
    STOOD_DOWN = "stood-down"
    WATCHED = "watched"
    OVER = "over"


class Wish(StrEnum):
    """What people want."""

    RUN = "run"
    RESUME = "resume"
    PAUSE = "pause"
    UNKNOWN = "unknown"


class Capacity(StrEnum):
    """What the current generation's capacity is, by the TPU API."""

    NONE = "none"
    QUEUED = "queued"
    ASKED = "asked"
    UNANSWERED = "unanswered"
    COMING = "coming"
    FAILED = "failed"
    REFUSED = "refused"
    READY = "ready"
    TAKEN = "taken"
    LEAVING = "leaving"
    CHANGING = "changing"
    VANISHING = "vanishing"
    VANISHED = "vanished"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"
    UNRECOGNIZED = "unrecognized"


class Kind(StrEnum):
    """Whether capacity can be taken away at any time."""

    SPOT = "spot"
    OTHER = "other"


class Blame(StrEnum):
    """Who, by the entries at hand, has ended the current generation's node."""

    NOBODY = "nobody"
    PLATFORM = "platform"
    PERSON = "person"


class Permission(StrEnum):
    """Whether the runner may start the program."""

    GIVEN = "given"
    DUE = "due"
    BLOCKED = "blocked"


class Runner(StrEnum):
    """What the runners of all workers say together about the current launch."""

    SILENT = "silent"
    BOOTED = "booted"
    UNHEARD = "unheard"
    """Nothing was heard, and what the workers wrote could not be read: they may be well."""
    STARTED = "started"
    PROGRESSED = "progressed"
    CRASHED = "crashed"
    GAVE_UP = "gave-up"
    SETUP_FAILED = "setup-failed"
    EXPIRED = "launch-expired"
    REFUSED = "refused"
    STOPPED = "stopped"
    FINISHED = "finished"


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One value for each column of the table (clock and budget depend on the row and are asked for there)."""

    standing: Standing
    wish: Wish
    capacity: Capacity
    kind: Kind
    blame: Blame
    permission: Permission
    runner: Runner
    checkpoint: CheckpointFinding


def situation_of(job: Job, observed: Observed, now: datetime) -> Situation:
    """Where the job is. ``job.state`` has already absorbed what was observed."""
    return Situation(
        standing=standing_of(job),
        wish=wish_of(job, observed),
        capacity=capacity_of(job, observed, now),
        kind=Kind.SPOT if job.wishes is None or job.is_spot else Kind.OTHER,
        blame=blame_of(job),
        permission=permission_of(job),
        runner=runner_of(job, observed),
        checkpoint=finding_of(job, observed),
    )


_STANDINGS = {
    Phase.HELD: Standing.HELD,
    Phase.PAUSED: Standing.PAUSED,
    Phase.STOOD_DOWN: Standing.STOOD_DOWN,
    Phase.WATCHED: Standing.WATCHED,
    **dict.fromkeys(FINAL, Standing.OVER),
}


def standing_of(job: Job) -> Standing:
    """Whether the job is to be kept running at all. To pause a held job and to unpause it does not release it."""
    if job.state.phase is Phase.PAUSED and job.state.hold is not None:
        return Standing.HELD_AND_PAUSED
    return _STANDINGS.get(job.state.phase, Standing.ACTIVE)


def wish_of(job: Job, observed: Observed) -> Wish:
    """What people want: the specification's `paused` before any command, and a command until it has been done."""
    if job.wishes is None:
        return Wish.UNKNOWN
    if job.wishes.paused:
        return Wish.PAUSE
    asked = asks_to_go_on(job.state, observed.letters)
    return Wish.RESUME if asked or job.state.going_on else Wish.RUN


ABOUT_OLDER_CHECKPOINTS = frozenset(
    {
        "a checkpoint that was there is missing",
        "the runner refuses to start: no checkpoint to resume from",
    }
)
"""Rows whose hold a person can only release by accepting an older checkpoint."""


def accepts_older(job: Job, observed: Observed) -> bool:
    """Whether a person goes on although a checkpoint that was seen is not there any more."""
    hold = job.state.hold
    return wish_of(job, observed) is Wish.RESUME and hold is not None and hold.row in ABOUT_OLDER_CHECKPOINTS


def finding_of(job: Job, observed: Observed) -> CheckpointFinding:
    """What the checkpoint location holds. One that was not read although the service could is still to be read: the
    answer may have come to depend on it only after everything was read, by a deadline that passed meanwhile."""
    finding = observed.checkpoint.finding
    where = job.wishes.spec.checkpoints if job.wishes else None
    if finding is CheckpointFinding.NOT_READ and where is not None and where.in_bucket:
        return CheckpointFinding.OUTSTANDING
    return finding


_CAPACITY_OF_STATE = {
    "CREATING": Capacity.COMING,
    "READY": Capacity.READY,
    "PREEMPTED": Capacity.TAKEN,
    "TERMINATED": Capacity.TAKEN,
    "DELETING": Capacity.LEAVING,
    **dict.fromkeys(
        ("RESTARTING", "REIMAGING", "REPAIRING", "STOPPING", "STOPPED", "STARTING", "HIDING", "HIDDEN", "UNHIDING"),
        Capacity.CHANGING,
    ),
}
"""Node states by name (facts page, section 3). Anything else, UNKNOWN included, is unrecognized: wait."""

_RETRYABLE = frozenset(
    {"RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "UNKNOWN"}
)
"""Codes of a failed create after which trying again, elsewhere or later, makes sense."""


def capacity_of(job: Job, observed: Observed, now: datetime) -> Capacity:
    """What the current generation's capacity is."""
    node = observed.node
    if job.state.generation == 0:
        return Capacity.NONE
    if node is None or node.presence is Presence.UNREADABLE:
        return Capacity.UNREADABLE
    if node.presence is Presence.ABSENT:
        return _absent(job, observed, now)
    if not owns(job, node):
        return Capacity.FOREIGN
    capacity = _CAPACITY_OF_STATE.get(node.state, Capacity.UNRECOGNIZED)
    if capacity is Capacity.COMING and _create_failed(observed):
        return Capacity.FAILED
    return capacity


def owns(job: Job, node: NodeReading) -> bool:
    """Whether the node that was read is the one we created for the current generation, by its labels."""
    return is_ours(job.state.uid, job.state.generation, node)


def is_ours(uid: str, generation: int, node: NodeReading) -> bool:
    """Whether the node that was read is the one we created for this generation of this job, by its labels."""
    return node.labels.get(LABEL_UID) == uid and node.labels.get(LABEL_GENERATION) == str(generation)


def _absent(job: Job, observed: Observed, now: datetime) -> Capacity:
    """NOT_FOUND is a loss only when no create of this generation is unfinished, and a node that never came further
    than CREATING is no loss when its create failed."""
    create, operation = job.state.create, observed.operation
    if create is None:
        return _vanished(job, now)
    if create.accepted is None:
        if create.error:
            return _failure(create.error.code)
        patient = create.queued and now < create.due + UNANSWERED_AFTER
        return Capacity.QUEUED if patient else Capacity.UNANSWERED
    if operation is None or operation.state in (OperationState.SUCCEEDED, OperationState.FORGOTTEN):
        return _vanished(job, now)
    if operation.state is OperationState.FAILED:
        return _vanished(job, now) if _came_up(job) else _failure(operation.code)
    return Capacity.ASKED if operation.state is OperationState.RUNNING else Capacity.UNREADABLE


def _failure(code: str) -> Capacity:
    return Capacity.FAILED if code in _RETRYABLE else Capacity.REFUSED


def _came_up(job: Job) -> bool:
    return any(one.state not in ("", "CREATING") for one in job.state.slices)


def _vanished(job: Job, now: datetime) -> Capacity:
    since = job.state.absent_since
    return Capacity.VANISHED if since is not None and now >= since + CONFIRM_ABSENCE else Capacity.VANISHING


def _create_failed(observed: Observed) -> bool:
    return observed.operation is not None and observed.operation.state is OperationState.FAILED


def blame_of(job: Job) -> Blame:
    """Who has ended the node, by the evidence at hand. The platform's word comes first: people tidy up what it took.

    Not so its word that the guest shut down: that is what a VM does whose node a person deletes.
    """
    said = {(evidence.author, evidence.meaning) for evidence in job.state.suspicion}
    by_platform = {meaning for author, meaning in said if author is Author.PLATFORM and meaning in LOSS_MEANINGS}
    if by_platform - {Meaning.WORKER_STOPPED}:
        return Blame.PLATFORM
    if any(author is Author.PERSON and meaning in END_MEANINGS for author, meaning in said):
        return Blame.PERSON
    return Blame.PLATFORM if by_platform else Blame.NOBODY


def permission_of(job: Job) -> Permission:
    """Whether the runner may start: two generations may never train, so every older one must have stopped first."""
    state = job.state
    if state.launch > 0 and state.handed >= state.launch:
        return Permission.GIVEN
    return Permission.DUE if all(leftover.stopped for leftover in state.leftovers) else Permission.BLOCKED


_FIRST_THAT_COUNTS = (
    (ReportKind.GAVE_UP, Runner.GAVE_UP),
    (ReportKind.SETUP_FAILED, Runner.SETUP_FAILED),
    (ReportKind.REFUSED, Runner.REFUSED),
    (ReportKind.STOPPING, Runner.STOPPED),
    (ReportKind.STOPPED, Runner.STOPPED),
    (ReportKind.CRASHED, Runner.CRASHED),
)
"""One worker in such a state speaks for the whole slice; the first of these that any worker is in counts."""


def runner_of(job: Job, observed: Observed) -> Runner:
    """What the workers say together. A report about an earlier launch only proves that the runner is there."""
    current = [runner for runner in job.state.runners if runner.launch == job.state.launch]
    kinds = {runner.kind for runner in current}
    for kind, meaning in _FIRST_THAT_COUNTS:
        if kind in kinds:
            return _refusal(current) if meaning is Runner.REFUSED else meaning
    expected = max(observed.node.workers if observed.node else 1, 1)
    running = [runner for runner in current if runner.kind in _RUNNING_KINDS]
    if len(running) < expected:
        return Runner.BOOTED if job.state.runners else _silence(observed)
    if kinds == {ReportKind.FINISHED}:
        return Runner.FINISHED
    return Runner.PROGRESSED if ReportKind.PROGRESS in kinds else Runner.STARTED


def _silence(observed: Observed) -> Runner:
    return Runner.UNHEARD if observed.attributes_unreadable else Runner.SILENT


_RUNNING_KINDS = frozenset({ReportKind.STARTED, ReportKind.PROGRESS, ReportKind.FINISHED})


def _refusal(current: list[RunnerState]) -> Runner:
    reasons = {runner.reason for runner in current if runner.kind is ReportKind.REFUSED}
    return Runner.EXPIRED if reasons == {"launch-expired"} else Runner.REFUSED
