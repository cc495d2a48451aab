"""What came of the actions becomes part of what is known."""

from __future__ import annotations

import pytest
from tests.recovery.builders import NOW, job, leftover, minutes, name_of, seconds

from tpu_recovery.model.decision import Action, DeleteNode, HandOff, Notify, QueueCreate
from tpu_recovery.model.incident import ActionTaken, Cause, Incident
from tpu_recovery.model.state import Slice
from tpu_recovery.recovery.act import Result
from tpu_recovery.recovery.results import with_results

DELETE = DeleteNode(name=name_of(1), why="generation 1 is over")
HAND_OFF = HandOff(name=name_of(1), launch=2, why="again")
CREATE = QueueCreate(generation=2, attempt=1, delay=seconds(0), why="taken")


def incident(*what: str) -> Incident:
    actions = tuple(ActionTaken(at=NOW, what=one, why="") for one in what)
    return Incident(id="i", job="train", generation=1, cause=Cause.PREEMPTION, opened=NOW, actions=actions)


def test_a_delete_that_was_accepted_is_noted_for_its_leftover_and_in_the_incident() -> None:
    state = job(leftovers=(leftover(0), leftover(1))).state
    state, found = with_results(state, incident(), [Result(DELETE)], NOW)
    assert [one.delete_accepted for one in state.leftovers] == [None, NOW]
    assert found is not None
    assert (found.actions[0].what, found.actions[0].result, found.milestones.deleted) == (
        "delete train-g1",
        "accepted",
        NOW,
    )


def test_a_hand_off_that_was_written_is_known_to_be_there() -> None:
    state, found = with_results(job().state, incident("launch 2"), [Result(HAND_OFF)], NOW)
    assert state.handed == 2
    assert found is not None
    assert found.actions[0].result == "handed over"


def test_a_hand_off_that_was_written_late_never_lowers_what_is_known() -> None:
    assert with_results(job(handed=3).state, None, [Result(HAND_OFF)], NOW)[0].handed == 3


@pytest.mark.parametrize("slices", [(), (Slice(name=name_of(2)),)])
def test_a_hand_off_to_a_node_that_is_not_the_current_one_says_nothing(slices: tuple[Slice, ...]) -> None:
    assert with_results(job(slices=slices).state, None, [Result(HAND_OFF)], NOW)[0].handed == 1


def test_a_create_that_was_queued_is_noted_in_the_incident() -> None:
    _, found = with_results(job().state, incident("create train-g2"), [Result(CREATE)], NOW)
    assert found is not None
    assert found.actions[0].result == "queued"


@pytest.mark.parametrize("action", [DELETE, HAND_OFF, CREATE])
def test_without_an_incident_only_the_state_changes(action: Action) -> None:
    assert with_results(job().state, None, [Result(action)], NOW)[1] is None
    assert with_results(job().state, None, [Result(action, "UNAVAILABLE")], NOW)[1] is None


@pytest.mark.parametrize(
    ("action", "what"),
    [
        (DELETE, "delete train-g1"),
        (HAND_OFF, "launch 2"),
        (CREATE, "create train-g2"),
        (Notify(severity="ERROR", text="x"), "tell people"),
    ],
)
def test_what_failed_is_noted_under_its_name_and_looked_at_again_soon(action: Action, what: str) -> None:
    state, found = with_results(job().state, incident(), [Result(action, "UNAVAILABLE: later")], NOW)
    assert state.wake_at == NOW + seconds(30)
    assert found is not None
    assert (found.actions[0].what, found.actions[0].result) == (what, "failed: UNAVAILABLE: later")


def test_that_people_were_told_is_no_result_to_note() -> None:
    one = incident()
    assert with_results(job().state, one, [Result(Notify(severity="ERROR", text="x"))], NOW) == (job().state, one)


def test_a_look_that_is_due_sooner_stays_due() -> None:
    failed = [Result(DELETE, "UNAVAILABLE")]
    assert with_results(job(wake_at=NOW + seconds(5)).state, None, failed, NOW)[0].wake_at == NOW + seconds(5)
    assert with_results(job(wake_at=NOW + minutes(5)).state, None, failed, NOW)[0].wake_at == NOW + seconds(30)


def test_one_failure_does_not_hide_what_was_done() -> None:
    state = job(leftovers=(leftover(1),)).state
    state, _ = with_results(state, None, [Result(HAND_OFF, "ABORTED"), Result(DELETE)], NOW)
    assert (state.handed, state.leftovers[0].delete_accepted) == (1, NOW)


def test_results_can_be_applied_again_to_a_newer_state() -> None:
    results = [Result(DELETE), Result(HAND_OFF), Result(CREATE)]
    once = with_results(job(leftovers=(leftover(1),)).state, incident("create train-g2"), results, NOW)
    assert with_results(*once, results, NOW) == once
