"""What has gone wrong for others, as far as deciding is concerned. The numbers are those of the public reports."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    NOW,
    STILL_RUNNING,
    Story,
    absent,
    coming_job,
    creates,
    deleted,
    event,
    handed_over,
    hours,
    job,
    leftover,
    minutes,
    name_of,
    node,
    operation,
    resume,
    running,
    said,
    seconds,
    seen,
    told,
    unreadable,
    waiting_job,
)

from tpu_recovery.model.incident import Cause, Outcome
from tpu_recovery.model.messages import Author, Meaning, ReportKind
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_UID
from tpu_recovery.model.observed import NodeReading, OperationState
from tpu_recovery.model.state import FINAL, Phase, Slice
from tpu_recovery.recovery.decide import decide
from tpu_recovery.recovery.situation import Capacity, capacity_of

API_STATES = (
    *("STATE_UNSPECIFIED", "CREATING", "READY", "RESTARTING", "REIMAGING", "DELETING", "REPAIRING", "STOPPED"),
    *("STOPPING", "STARTING", "PREEMPTED", "TERMINATED", "HIDING", "HIDDEN", "UNHIDING", "UNKNOWN", "17", "99"),
)


@pytest.mark.parametrize("reading", [*map(node, API_STATES), absent(), unreadable()], ids=lambda one: one.state or "-")
def test_p01_a_preempted_node_may_read_anything_and_every_reading_has_an_answer_with_a_deadline(
    reading: NodeReading,
) -> None:
    story = Story(job())
    decision = story.look(seen(reading, event(Meaning.NODE_TERMINATED)))
    if reading.state in ("PREEMPTED", "TERMINATED"):
        assert (creates(decision), deleted(decision)) == ([2], ["train-g1"])
        return
    assert (creates(decision), deleted(decision)) == ([], [])
    assert decision.state.phase is not Phase.RUNNING, "an entry said that it is lost: never assume that it is healthy"
    for _ in range(200):
        if story.state.phase is Phase.HELD or creates(decision):
            break
        decision = story.look_when_due(seen(reading))
    assert story.now - NOW <= hours(24)
    assert reading.state in ("READY", "") or story.state.phase is Phase.HELD


def test_p03_the_new_node_has_a_fresh_name_and_the_delete_of_the_old_one_is_followed_to_the_end() -> None:
    story = Story(job())
    story.look(seen(node("PREEMPTED")))
    assert story.state.slices[0].name != name_of(1)
    story.accepted()
    for reading in (node("PREEMPTED"), node("DELETING"), absent()):
        story.look(seen(node("CREATING", 2), leftovers=[reading]), after=minutes(1))
        assert [one.name for one in story.state.leftovers] == [name_of(1)]
    assert story.look(seen(node("CREATING", 2), leftovers=[absent()]), after=minutes(1)).state.leftovers == ()


def test_p04_a_delete_that_was_reported_ok_is_repeated_while_the_node_is_still_there() -> None:
    story = Story(job())
    story.look(seen(node("PREEMPTED")))
    story.accepted()
    again = [
        deleted(story.look(seen(node("CREATING", 2), leftovers=[node("PREEMPTED")]), after=minutes(5)))
        for _ in range(4)
    ]
    assert again == [[], ["train-g1"], [], ["train-g1"]]


@pytest.mark.parametrize("ended", [OperationState.FAILED, OperationState.FORGOTTEN, OperationState.UNREADABLE])
def test_p07_a_slow_create_whose_node_is_already_training_is_kept(ended: OperationState) -> None:
    story = Story(coming_job())
    story.look(seen(absent(), operation=STILL_RUNNING))
    slow = seen(
        node("READY"),
        said(ReportKind.PROGRESS, step=12),
        operation=operation(ended, "DEADLINE_EXCEEDED", "the operation took too long"),
    )
    decision = story.look(slow, after=minutes(25))
    assert (decision.state.phase, deleted(decision), creates(decision)) == (Phase.RUNNING, [], [])


def test_p07_a_create_that_is_slow_beyond_its_deadline_is_never_a_reason_to_delete() -> None:
    story, observed = Story(coming_job()), seen(node("CREATING"), operation=STILL_RUNNING)
    story.look(observed)
    decision = story.look_until(observed, Phase.HELD)
    assert deleted(decision) == []
    going = seen(node("READY"), resume(story.now + hours(1)), said(ReportKind.STARTED))
    assert story.look(going, after=hours(1)).state.phase is Phase.RUNNING


def test_p17_what_arrives_about_a_dead_generation_never_touches_the_living_one() -> None:
    slices = (Slice(name=name_of(2), id="node-2", state="READY"),)
    two = job(generation=2, slices=slices, runners=running(ReportKind.PROGRESS), leftovers=(leftover(1),))
    corpse = (
        event(Meaning.NODE_TERMINATED, about=name_of(1)),
        event(Meaning.DELETE_ENDED, Author.PERSON, about=name_of(1)),
        said(ReportKind.CRASHED, generation=1, sequence=50),
        said(ReportKind.FINISHED, generation=1, sequence=51),
        said(ReportKind.PROGRESS, generation=1, sequence=52, step=999_999),
    )
    decision = decide(two, seen(node(generation=2), *corpse, leftovers=[node("PREEMPTED")]), NOW)
    assert (decision.state.phase, creates(decision), decision.state.suspicion) == (Phase.RUNNING, [], ())
    assert decision.state.progress.step is None
    assert deleted(decision) == ["train-g1"]


def test_p20_a_name_that_exists_is_success_only_if_the_node_is_ours_and_alive() -> None:
    refused = Story(waiting_job()).refused("ALREADY_EXISTS").job
    ours = {LABEL_UID: "uid1", LABEL_GENERATION: "1"}
    for labels, state, capacity in (
        (ours, "READY", Capacity.READY),
        (ours, "CREATING", Capacity.COMING),
        (ours, "DELETING", Capacity.LEAVING),
        ({**ours, LABEL_GENERATION: "2"}, "READY", Capacity.FOREIGN),
        ({**ours, LABEL_UID: "other"}, "READY", Capacity.FOREIGN),
        ({}, "PREEMPTED", Capacity.FOREIGN),
    ):
        assert capacity_of(refused, seen(node(state, labels=labels)), NOW) is capacity


def test_p20_a_node_in_deletion_is_waited_for_until_it_is_not_found_and_only_then_replaced() -> None:
    story = Story(job())
    for _ in range(3):
        decision = story.look(seen(node("DELETING")), after=seconds(30))
        assert (creates(decision), deleted(decision)) == ([], [])
    while not creates(decision):
        decision = story.look_when_due(seen(absent()))
    assert story.now - NOW == seconds(90 + 30 + 80)


def test_p26_a_node_that_is_not_found_once_while_it_lives_on_is_neither_forgotten_nor_overtaken() -> None:
    slices = (Slice(name=name_of(2), id="node-2", state="READY"),)
    two = job(Phase.STARTING, generation=2, launch=0, handed=0, slices=slices, leftovers=(leftover(1),))
    story, up = Story(two), node(generation=2)
    story.look(seen(up, leftovers=[node("DELETING")]))
    assert handed_over(story.look(seen(up, leftovers=[absent()]), after=seconds(15))) == []
    back = story.look(seen(up, leftovers=[node("READY")]), after=seconds(15))
    assert (handed_over(back), deleted(back)) == ([], ["train-g1"])
    story.look(seen(up, leftovers=[absent()]), after=seconds(15))
    gone = story.look(seen(up, leftovers=[absent()]), after=seconds(20))
    assert (gone.state.leftovers, handed_over(gone)) == ((), [1])


@pytest.mark.parametrize("crash_first", [True, False])
@pytest.mark.parametrize("kind", [ReportKind.CRASHED, ReportKind.GAVE_UP, ReportKind.STOPPING])
def test_p39_the_exit_code_of_a_preempted_worker_is_not_the_programs_fault(crash_first: bool, kind: ReportKind) -> None:
    story = Story(job())
    crash = said(kind, exit_code=1, detail="Socket closed")
    told_by_cloud = event(Meaning.WORKER_PREEMPTED, about=name_of(1))
    first, second = (crash, told_by_cloud) if crash_first else (told_by_cloud, crash)
    story.look(seen(node(), first))
    story.look(seen(node(), second), after=seconds(60))
    decision = story.look(seen(node("PREEMPTED")), after=seconds(60))
    assert creates(decision) == [2]
    assert decision.incident is not None
    assert decision.incident.cause is Cause.PREEMPTION
    assert decision.incident.spent == ("loss",)
    assert decision.state.incidents == 1


def test_p43_a_bug_in_the_program_is_held_after_its_crashes_and_buys_no_new_hardware() -> None:
    story = Story(job(runners=running(ReportKind.STARTED)))
    for number in range(2, 5):
        assert creates(story.look(seen(node(), said(ReportKind.CRASHED, sequence=number)), after=minutes(1))) == []
    story.look(seen(node(), said(ReportKind.GAVE_UP, sequence=5, reason="crash-loop", exit_code=1)), after=minutes(1))
    decision = story.look_until(seen(node()), Phase.HELD)
    assert decision.incident is not None
    assert (decision.incident.cause, decision.incident.outcome) == (Cause.TRAINING_CRASH, Outcome.HELD)
    assert len(told(decision)) == 1
    assert all(creates(one) == [] for one in story.decisions)


@pytest.mark.parametrize("phase", sorted(FINAL))
@pytest.mark.parametrize("reading", [*map(node, API_STATES), absent(), unreadable(), None])
def test_p50_what_is_over_is_never_overwritten(phase: Phase, reading: NodeReading | None) -> None:
    letters = (event(Meaning.NODE_TERMINATED), said(ReportKind.CRASHED), resume())
    decision = decide(job(phase), seen(reading, *letters), NOW)
    assert (decision.state.phase, decision.state.generation, decision.actions) == (phase, 1, ())


def test_p50_a_look_that_is_repeated_after_a_crash_between_intent_and_action_converges() -> None:
    """The intent is committed, nothing was done, and all that was read arrives again."""
    letter = event(Meaning.NODE_TERMINATED)
    story = Story(job())
    story.look(seen(node("PREEMPTED"), letter), fails="the invocation ended")
    again = story.look(seen(absent(2), letter, leftovers=[node("PREEMPTED")]), after=seconds(30))
    assert (deleted(again), creates(again), story.state.generation) == (["train-g1"], [2], 2)
    assert again.incident is not None
    assert [one.says for one in again.incident.evidence].count("node-terminated") == 1
    late = story.look(seen(absent(2), leftovers=[node("DELETING")]), after=minutes(1))
    assert creates(late) == [], "the create is in the queue now"


@pytest.mark.parametrize(
    "one",
    [job(), job(Phase.STARTING), job(launch=0, handed=0, leftovers=(leftover(0, delete_accepted=NOW),)), coming_job()],
    ids=["running", "starting", "waiting for an older one", "coming"],
)
def test_p51_half_an_hour_without_the_api_destroys_nothing_and_training_goes_on(one: object) -> None:
    story = Story(one)  # type: ignore[arg-type]
    unread = replace(unreadable(0), name=name_of(0))
    for _ in range(30):
        decision = story.look(seen(unreadable(), leftovers=[unread]), after=minutes(1))
        assert decision.actions == ()
    back = seen(node(), said(ReportKind.PROGRESS), leftovers=[absent(0)])
    story.look(back, after=minutes(1))
    story.look(back, after=minutes(1))
    assert story.state.generation == 1


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_p54_many_entries_of_one_loss_in_any_order_are_one_incident(order: tuple[int, ...]) -> None:
    letters = [
        event(Meaning.NODE_TERMINATED, at=NOW),
        event(Meaning.WORKER_PREEMPTED, at=NOW - seconds(1)),
        event(Meaning.WORKER_STOPPED, at=NOW - seconds(2)),
    ]
    story = Story(job())
    for number in order:
        story.look(seen(node(), letters[number]), after=seconds(2))
    decision = story.look(seen(node("PREEMPTED")), after=seconds(2))
    assert creates(decision) == [2]
    assert decision.incident is not None
    assert {one.says for one in decision.incident.evidence} >= {str(letter.evidence.says) for letter in letters}
    assert decision.incident.milestones.occurred == NOW - seconds(2)
    story.look(seen(absent(2), *letters), after=seconds(2))
    assert (story.state.incidents, story.state.generation) == (1, 2)
