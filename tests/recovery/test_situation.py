"""From a job and what was read of it to one value for each column of the table."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    FOUND,
    NOW,
    STILL_RUNNING,
    STOCKOUT,
    SUCCEEDED,
    absent,
    checkpoint,
    coming_job,
    command,
    created,
    event,
    fresh_job,
    job,
    leftover,
    minutes,
    node,
    operation,
    resume,
    running,
    seconds,
    seen,
    unreadable,
    waiting_job,
    wishing,
)

from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import Author, CommandKind, Meaning, ReportKind
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_UID
from tpu_recovery.model.observed import NOT_READ, CheckpointFinding, NodeReading, OperationState
from tpu_recovery.model.spec import CapacityKind, Checkpoints
from tpu_recovery.model.state import CreateError, Phase, Slice
from tpu_recovery.recovery.situation import (
    Blame,
    Capacity,
    Kind,
    Permission,
    Runner,
    Standing,
    Wish,
    blame_of,
    capacity_of,
    finding_of,
    owns,
    permission_of,
    runner_of,
    situation_of,
    standing_of,
    wish_of,
)


@pytest.mark.parametrize(
    ("state", "capacity"),
    [
        ("CREATING", Capacity.COMING),
        ("READY", Capacity.READY),
        ("PREEMPTED", Capacity.TAKEN),
        ("TERMINATED", Capacity.TAKEN),
        ("DELETING", Capacity.LEAVING),
        ("RESTARTING", Capacity.CHANGING),
        ("REIMAGING", Capacity.CHANGING),
        ("REPAIRING", Capacity.CHANGING),
        ("STOPPING", Capacity.CHANGING),
        ("STOPPED", Capacity.CHANGING),
        ("STARTING", Capacity.CHANGING),
        ("HIDING", Capacity.CHANGING),
        ("HIDDEN", Capacity.CHANGING),
        ("UNHIDING", Capacity.CHANGING),
        ("UNKNOWN", Capacity.UNRECOGNIZED),
        ("STATE_UNSPECIFIED", Capacity.UNRECOGNIZED),
        ("99", Capacity.UNRECOGNIZED),
        ("", Capacity.UNRECOGNIZED),
    ],
)
def test_every_state_of_a_node_is_one_kind_of_capacity(state: str, capacity: Capacity) -> None:
    assert capacity_of(job(), seen(node(state)), NOW) is capacity


@pytest.mark.parametrize(
    ("one", "observed", "capacity"),
    [
        (fresh_job(), seen(), Capacity.NONE),
        (job(), seen(None), Capacity.UNREADABLE),
        (job(), seen(unreadable()), Capacity.UNREADABLE),
        (job(), seen(node(labels={})), Capacity.FOREIGN),
        (coming_job(), seen(node("CREATING"), operation=STOCKOUT), Capacity.FAILED),
        (coming_job(), seen(node("READY"), operation=STOCKOUT), Capacity.READY),
        (waiting_job(), seen(absent()), Capacity.QUEUED),
        (coming_job(), seen(absent(), operation=STILL_RUNNING), Capacity.ASKED),
        (coming_job(), seen(absent(), operation=STOCKOUT), Capacity.FAILED),
        (coming_job(), seen(absent(), operation=SUCCEEDED), Capacity.VANISHING),
        (coming_job(), seen(absent(), operation=operation(OperationState.FORGOTTEN)), Capacity.VANISHING),
        (coming_job(), seen(absent(), operation=operation(OperationState.UNREADABLE)), Capacity.UNREADABLE),
        (coming_job(), seen(absent(), operation=operation(OperationState.FAILED, "NOT_FOUND")), Capacity.REFUSED),
        (job(), seen(absent(), operation=STOCKOUT), Capacity.VANISHING),
        (job(create=None), seen(absent()), Capacity.VANISHING),
    ],
)
def test_capacity(one: Job, observed: object, capacity: Capacity) -> None:
    assert capacity_of(one, observed, NOW) is capacity  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "capacity"),
    [
        ("RESOURCE_EXHAUSTED", Capacity.FAILED),
        ("INTERNAL", Capacity.FAILED),
        ("UNAVAILABLE", Capacity.FAILED),
        ("DEADLINE_EXCEEDED", Capacity.FAILED),
        ("INVALID_ARGUMENT", Capacity.REFUSED),
        ("PERMISSION_DENIED", Capacity.REFUSED),
        ("FAILED_PRECONDITION", Capacity.REFUSED),
        ("ALREADY_EXISTS", Capacity.REFUSED),
        ("77", Capacity.REFUSED),
    ],
)
def test_a_create_that_failed_may_be_tried_again_or_not_by_its_code(code: str, capacity: Capacity) -> None:
    create = created(accepted=None, operation="", error=CreateError(code=code, message="no", at=NOW))
    assert capacity_of(waiting_job(create=create), seen(absent()), NOW) is capacity
    failed = operation(OperationState.FAILED, code)
    assert capacity_of(coming_job(), seen(absent(), operation=failed), NOW) is capacity


def test_a_create_is_unanswered_ten_minutes_after_it_was_to_leave_the_queue() -> None:
    one = waiting_job(create=created(due=NOW, operation="", accepted=None))
    assert capacity_of(one, seen(absent()), NOW + minutes(10) - seconds(1)) is Capacity.QUEUED
    assert capacity_of(one, seen(absent()), NOW + minutes(10)) is Capacity.UNANSWERED


def test_a_create_that_never_reached_the_queue_is_unanswered_at_once() -> None:
    one = waiting_job(create=created(due=NOW + minutes(5), operation="", accepted=None, queued=False))
    assert capacity_of(one, seen(absent()), NOW) is Capacity.UNANSWERED


def test_absence_is_a_loss_only_twenty_seconds_after_it_was_first_seen() -> None:
    one = job(absent_since=NOW)
    assert capacity_of(one, seen(absent()), NOW + seconds(19)) is Capacity.VANISHING
    assert capacity_of(one, seen(absent()), NOW + seconds(20)) is Capacity.VANISHED


def test_an_error_of_a_repeated_call_says_nothing_about_a_node_that_was_there() -> None:
    late = CreateError(code="RESOURCE_EXHAUSTED", message="no", at=NOW)
    assert capacity_of(job(create=created(error=late)), seen(absent()), NOW) is Capacity.VANISHING


def test_a_node_that_was_only_seen_coming_up_was_not_lost_when_its_create_failed() -> None:
    slices = (Slice(name="n", id="node-1", state="CREATING"),)
    assert capacity_of(coming_job(slices=slices), seen(absent(), operation=STOCKOUT), NOW) is Capacity.FAILED


@pytest.mark.parametrize(
    "labels", [{}, {LABEL_UID: "uid1"}, {LABEL_UID: "uid1", LABEL_GENERATION: "2"}, {LABEL_GENERATION: "1"}]
)
def test_a_node_is_ours_only_with_both_labels(labels: dict[str, str]) -> None:
    assert not owns(job(), node(labels=labels))
    assert owns(job(), node())


@pytest.mark.parametrize(
    ("phase", "standing"),
    [
        (Phase.REGISTERED, Standing.ACTIVE),
        (Phase.SUSPECT, Standing.ACTIVE),
        (Phase.HELD, Standing.HELD),
        (Phase.PAUSED, Standing.PAUSED),
        (Phase.STOOD_DOWN, Standing.STOOD_DOWN),
        (Phase.WATCHED, Standing.WATCHED),
        (Phase.SUCCEEDED, Standing.OVER),
        (Phase.DELETED, Standing.OVER),
    ],
)
def test_standing(phase: Phase, standing: Standing) -> None:
    assert standing_of(job(phase)) is standing


def test_wishes() -> None:
    nothing, again = seen(), seen(None, resume())
    assert wish_of(job(), nothing) is Wish.RUN
    assert wish_of(job(), again) is Wish.RESUME
    assert wish_of(job(), seen(None, command(CommandKind.APPLY))) is Wish.RUN
    assert wish_of(job(going_on=True), nothing) is Wish.RESUME
    assert wish_of(wishing(job(), paused=True), again) is Wish.PAUSE
    assert wish_of(replace(job(), wishes=None), again) is Wish.UNKNOWN


PLATFORM, PERSON = Author.PLATFORM, Author.PERSON


@pytest.mark.parametrize(
    ("said", "blame"),
    [
        ([], Blame.NOBODY),
        ([(PLATFORM, Meaning.NODE_TERMINATED)], Blame.PLATFORM),
        ([(PLATFORM, Meaning.WORKER_STOPPED)], Blame.PLATFORM),
        ([(PERSON, Meaning.DELETE_ACCEPTED)], Blame.PERSON),
        ([(PERSON, Meaning.STOPPED)], Blame.PERSON),
        ([(PERSON, Meaning.DELETE_ENDED), (PLATFORM, Meaning.HOST_ERROR)], Blame.PLATFORM),
        ([(PERSON, Meaning.DELETE_ENDED), (PLATFORM, Meaning.WORKER_STOPPED)], Blame.PERSON),
        ([(PERSON, Meaning.CALL_REFUSED)], Blame.NOBODY),
        ([(Author.UNKNOWN, Meaning.DELETE_ACCEPTED)], Blame.NOBODY),
        ([(PLATFORM, Meaning.MAINTENANCE_NOTICE)], Blame.NOBODY),
    ],
)
def test_blame(said: list[tuple[Author, Meaning]], blame: Blame) -> None:
    suspicion = tuple(event(meaning, author).evidence for author, meaning in said)
    assert blame_of(job(suspicion=suspicion)) is blame


def test_permission() -> None:
    runs, stopped = leftover(1), leftover(1, stopped=True)
    assert permission_of(job()) is Permission.GIVEN
    assert permission_of(job(launch=2, handed=1)) is Permission.DUE
    assert permission_of(job(launch=0, handed=0)) is Permission.DUE
    assert permission_of(job(launch=0, handed=0, leftovers=(stopped,))) is Permission.DUE
    assert permission_of(job(launch=0, handed=0, leftovers=(stopped, runs))) is Permission.BLOCKED
    assert permission_of(job(launch=2, handed=1, leftovers=(runs,))) is Permission.BLOCKED


@pytest.mark.parametrize(
    ("kinds", "workers", "meaning"),
    [
        ((), 1, Runner.SILENT),
        ((ReportKind.BOOTED,), 1, Runner.BOOTED),
        ((ReportKind.STARTED,), 1, Runner.STARTED),
        ((ReportKind.STARTED,), 0, Runner.STARTED),
        ((ReportKind.STARTED,), 2, Runner.BOOTED),
        ((ReportKind.STARTED, ReportKind.BOOTED), 2, Runner.BOOTED),
        ((ReportKind.STARTED, ReportKind.FINISHED), 2, Runner.STARTED),
        ((ReportKind.PROGRESS, ReportKind.FINISHED), 2, Runner.PROGRESSED),
        ((ReportKind.FINISHED, ReportKind.FINISHED), 2, Runner.FINISHED),
        ((ReportKind.FINISHED,), 2, Runner.BOOTED),
        ((ReportKind.FINISHED, ReportKind.CRASHED), 2, Runner.CRASHED),
        ((ReportKind.STOPPED, ReportKind.CRASHED), 2, Runner.STOPPED),
        ((ReportKind.GAVE_UP, ReportKind.STOPPED), 2, Runner.GAVE_UP),
    ],
)
def test_what_workers_say_together(kinds: tuple[ReportKind, ...], workers: int, meaning: Runner) -> None:
    assert runner_of(job(runners=running(*kinds)), seen(node(workers=workers))) is meaning


def test_one_worker_is_expected_where_no_node_was_read() -> None:
    assert runner_of(job(runners=running(ReportKind.STARTED)), seen()) is Runner.STARTED


def test_a_report_about_an_earlier_launch_only_proves_that_the_runner_is_there() -> None:
    assert runner_of(job(launch=2, runners=running(ReportKind.FINISHED)), seen(node())) is Runner.BOOTED


@pytest.mark.parametrize(
    ("finding", "job_has", "found"),
    [
        (NOT_READ, None, CheckpointFinding.NOT_READ),
        (NOT_READ, Checkpoints(path="/mnt/disk"), CheckpointFinding.NOT_READ),
        (NOT_READ, Checkpoints(path="gs://b/c"), CheckpointFinding.OUTSTANDING),
        (FOUND, Checkpoints(path="gs://b/c"), CheckpointFinding.FOUND),
        (checkpoint(CheckpointFinding.EMPTY), Checkpoints(path="gs://b/c"), CheckpointFinding.EMPTY),
    ],
)
def test_a_bucket_that_was_not_read_is_still_to_be_read(
    finding: object, job_has: Checkpoints | None, found: CheckpointFinding
) -> None:
    one = wishing(job(), checkpoints=job_has)
    assert finding_of(one, seen(checkpoint=finding)) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("capacity", "kind"),
    [(CapacityKind.SPOT, Kind.SPOT), (CapacityKind.ON_DEMAND, Kind.OTHER), (CapacityKind.RESERVED, Kind.OTHER)],
)
def test_only_spot_capacity_can_be_taken_at_any_time(capacity: CapacityKind, kind: Kind) -> None:
    assert situation_of(wishing(job(), kind=capacity), seen(node()), NOW).kind is kind


def test_a_job_without_a_specification_has_a_situation_too() -> None:
    reading: NodeReading = node()
    assert situation_of(replace(job(), wishes=None), seen(reading), NOW).wish is Wish.UNKNOWN
