"""Capacity is created in one place, at most once for each generation, and the answer is never lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.timers import Task
from tests.fakes.wire import Call, Crash, failing, nothing, once
from tests.recovery.shell.world import G1, G2, NODES, OTHER_ZONE, SPEC, ZONE, World, running

from tpu_recovery.errors import Conflict, Invalid, Refused, Unreadable
from tpu_recovery.model.codec import to_document
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_UID
from tpu_recovery.model.spec import Placement, Wishes
from tpu_recovery.model.state import CreateError, JobState, Phase


def asked() -> tuple[World, Task]:
    """A world in which the creation of generation 1 waits in the queue."""
    world = World()
    world.apply()
    message = world.messages.pop()
    world.deliver(message.path, message.body)
    (task,) = world.timers.waiting("creates")
    return world, task


def create(world: World, task: Task) -> str:
    return world.deliver(task.path, task.body)


def is_result(call: Call) -> bool:
    return call.name == "store.commit" and call.subject.startswith("jobs/train")


def test_the_node_is_created_as_the_state_intends_and_the_operation_is_recorded() -> None:
    world, task = asked()
    outcome = create(world, task)
    state = world.state()
    assert state.create is not None
    assert outcome == f"accepted: {state.create.operation}"
    assert state.create.accepted == world.clock()
    node = world.capacity.nodes[G1]
    assert (node.labels[LABEL_UID], node.labels[LABEL_GENERATION]) == (state.uid, "1")
    handoff = json.loads(node.metadata["tpu-recovery"])
    assert (handoff["generation"], handoff["launch"], handoff["token"]) == (1, 1, state.token)
    assert node.metadata["startup-script"] == "#! /bin/sh"
    assert state.handed == 1


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"job": "train"}'])
def test_a_body_that_is_no_create_task_is_refused_for_good(body: bytes) -> None:
    with pytest.raises(Invalid, match="create task"):
        World().deliver("/create", body)


def with_create(state: JobState, **fields: Any) -> JobState:
    assert state.create is not None
    return replace(state, create=replace(state.create, **fields))


NOT_WANTED: dict[str, Callable[[JobState], JobState]] = {
    "it was accepted": lambda state: with_create(state, accepted=state.since),
    "it was refused": lambda state: with_create(
        state, error=CreateError(code="INVALID_ARGUMENT", message="no", at=state.since)
    ),
    "the job is held": lambda state: replace(state, phase=Phase.HELD),
    "the job is over": lambda state: replace(state, phase=Phase.SUCCEEDED),
    "the job has gone on": lambda state: replace(state, generation=2),
    "the job was registered anew": lambda state: replace(state, uid="another"),
    "no create is intended": lambda state: replace(state, create=None),
}


@pytest.mark.parametrize("case", NOT_WANTED)
def test_nothing_is_created_when(case: str) -> None:
    world, task = asked()
    after = NOT_WANTED[case](world.state())
    world.change(**{name: getattr(after, name) for name in ("create", "phase", "generation", "uid")})
    assert create(world, task) == "not wanted any more"
    assert not world.wire.made("capacity.create")


def test_nothing_is_created_for_a_job_that_is_paused_or_has_no_specification() -> None:
    world, task = asked()
    world.wish(paused=True)
    assert create(world, task) == "not wanted any more"
    del world.store.documents["specs/train"]
    assert create(world, task) == "not wanted any more"
    del world.store.documents["jobs/train"]
    assert create(world, task) == "not wanted any more"
    assert not world.wire.made("capacity.create")


def test_a_specification_that_cannot_be_read_counts_as_gone() -> None:
    world, task = asked()
    world.store.put("specs/train", {**to_document(Wishes(spec=SPEC)), "revision": "one"})
    assert create(world, task) == "not wanted any more"


def test_a_task_delivered_twice_creates_once() -> None:
    world, task = asked()
    create(world, task)
    assert create(world, task) == "not wanted any more"
    assert world.capacity.created == [G1]


def test_a_second_delivery_during_the_call_gets_the_same_operation() -> None:
    world, task = asked()

    def again() -> None:
        create(world, task)

    world.wire.before = once(lambda call: call.name == "capacity.create", again)
    create(world, task)
    assert len(world.wire.made("capacity.create")) == 2
    assert world.capacity.created == [G1]
    state = world.state()
    assert state.create is not None
    assert [one.name for one in world.capacity.operations.values()] == [state.create.operation]


def test_our_own_node_under_the_name_is_success_and_the_operation_stays_known() -> None:
    """A delivery freezes for two hours before its call; another one creates the node meanwhile."""
    world, task = asked()

    def meanwhile() -> None:
        create(world, task)
        world.clock.advance(7200)

    world.wire.before = once(lambda call: call.name == "capacity.create", meanwhile)
    assert create(world, task) == "accepted: "
    state = world.state()
    assert state.create is not None
    assert state.create.operation
    assert state.create.accepted == world.clock() - timedelta(hours=2)
    assert state.create.error is None


def test_a_refusal_of_a_repetition_takes_nothing_back() -> None:
    world, task = asked()

    def meanwhile() -> None:
        create(world, task)
        world.clock.advance(7200)
        world.capacity.refusals[ZONE] = Refused("RESOURCE_EXHAUSTED", "quota")

    world.wire.before = once(lambda call: call.name == "capacity.create", meanwhile)
    create(world, task)
    state = world.state()
    assert state.create is not None
    assert (state.create.error, state.create.accepted is None) == (None, False)


def test_a_node_of_somebody_else_under_the_name_holds_the_job_and_is_left_alone() -> None:
    world, task = asked()
    world.capacity.add(G1, {"owner": "ada"})
    assert "is not ours" in create(world, task)
    world.happen()
    assert world.state().phase is Phase.HELD
    world.run(900)
    assert world.capacity.nodes[G1].state == "READY"
    assert not world.wire.made("capacity.delete")


def test_a_name_that_is_taken_and_free_again_is_asked_for_later() -> None:
    world, task = asked()
    world.capacity.add(G1, {"owner": "ada"})
    world.wire.before = once(lambda call: call.name == "capacity.describe", lambda: world.capacity.forget(G1))
    with pytest.raises(Unreadable, match="exists and cannot be read"):
        create(world, task)
    world.run(1200)
    assert world.state().phase is Phase.RUNNING


def test_a_refused_create_is_recorded_and_looked_at_at_once() -> None:
    world, task = asked()
    world.capacity.refusals[ZONE] = Refused("INVALID_ARGUMENT", "there is no such runtime version")
    assert create(world, task) == "there is no such runtime version"
    world.timers.finish(task)
    state = world.state()
    assert state.create is not None
    assert state.create.error is not None
    assert state.create.error.code == "INVALID_ARGUMENT"
    world.happen()
    state = world.state()
    assert state.hold is not None
    assert "there is no such runtime version" in state.hold.reason


def test_a_zone_without_quota_is_tried_again_under_the_same_name() -> None:
    world = World()
    world.capacity.refusals[ZONE] = Refused("RESOURCE_EXHAUSTED", "quota")
    world.apply()
    world.run(60)
    world.capacity.refusals.clear()
    world.run(600)
    assert (world.state().phase, world.state().generation) == (Phase.RUNNING, 1)
    assert world.capacity.created == [G1]


def test_the_next_zone_is_tried_when_one_has_no_quota_but_nothing_starts_while_the_refused_call_could() -> None:
    """Another delivery of the refused call may be frozen on its way, with the permission to start."""
    world = World()
    world.capacity.refusals[ZONE] = Refused("RESOURCE_EXHAUSTED", "quota")
    world.apply(replace(SPEC, placements=(Placement(zone=ZONE), Placement(zone=OTHER_ZONE))))
    world.run(660)
    assert world.capacity.created == [f"projects/p/locations/{OTHER_ZONE}/nodes/train-g2"]
    assert world.runners.trained == []
    world.run(900)
    assert (world.state().phase, world.state().generation) == (Phase.RUNNING, 2)


@pytest.mark.parametrize("applied", [False, True], ids=["lost on the way", "arrived"])
def test_a_call_without_an_answer_is_repeated_with_the_same_request_id(applied: bool) -> None:
    world, task = asked()
    hook = once(lambda call: call.name == "capacity.create", failing(Unreadable("deadline exceeded")))
    setattr(world.wire, "after" if applied else "before", hook)
    with pytest.raises(Unreadable, match="deadline exceeded"):
        create(world, task)
    world.run(1200)
    assert world.capacity.created == [G1]
    assert world.runners.trained == [(G1, 1)]
    assert (world.state().phase, world.state().generation) == (Phase.RUNNING, 1)


def test_a_result_is_written_whatever_else_changes_the_job() -> None:
    world, task = asked()

    def change() -> None:
        world.change(failures=5)

    world.wire.before = once(is_result, change)
    create(world, task)
    state = world.state()
    assert state.create is not None
    assert (state.failures, bool(state.create.operation)) == (5, True)


def test_a_job_that_changes_all_the_time_is_left_to_the_next_delivery_which_creates_nothing_more() -> None:
    world, task = asked()

    def refuse(call: Call) -> None:
        if is_result(call):
            raise Conflict("busy")

    world.wire.before = refuse
    with pytest.raises(Unreadable, match="faster"):
        create(world, task)
    world.wire.before = nothing
    assert create(world, task).startswith("accepted")
    assert world.capacity.created == [G1]


@pytest.mark.parametrize("gone", [True, False], ids=["the job is gone", "the job has gone on"])
def test_an_answer_that_comes_too_late_changes_nothing(gone: bool) -> None:
    world, task = asked()

    def go_on() -> None:
        if gone:
            del world.store.documents["jobs/train"]
        else:
            world.change(generation=2)

    world.wire.after = once(lambda call: call.name == "capacity.create", go_on)
    create(world, task)
    assert gone or world.state().generation == 2
    assert not [
        call for call in world.wire.made("timers") if call.number > world.wire.made("capacity.create")[0].number
    ]


def test_a_create_that_dies_after_its_call_is_made_up_for_by_the_next_delivery() -> None:
    world, task = asked()
    world.wire.after = once(lambda call: call.name == "capacity.create", failing(Crash()))
    with pytest.raises(Crash):
        create(world, task)
    assert create(world, task).startswith("accepted")
    assert world.capacity.created == [G1]


def test_the_open_incident_learns_when_the_create_was_accepted() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.messages.clear()
    world.event(world.preempted())
    (task,) = world.timers.waiting("creates")
    world.clock.advance(7)
    create(world, task)
    (incident,) = world.incidents()
    assert incident.milestones.accepted == world.clock()


def test_a_create_that_freezes_for_hours_cannot_bring_an_old_generation_back_to_training() -> None:
    """Its job has long gone on: the node it makes is of an older generation, may not start, and is removed."""
    world = World()
    world.apply()
    frozen: list[str] = []

    def freeze(call: Call) -> None:
        if call.name != "capacity.create" or frozen:
            return
        frozen.append(call.subject)
        world.capacity.stockouts.add(ZONE)
        world.run(700)  # it is repeated, and there is no capacity
        world.capacity.stockouts.clear()
        world.run(3 * 3600)
        assert len(world.runners.training()) == 1
        assert G1 not in world.capacity.nodes

    world.wire.before = freeze
    world.happen()
    assert frozen == [G1]
    assert G1 in world.capacity.nodes
    trained = list(world.runners.trained)
    world.run(1200)
    assert world.runners.trained == trained
    assert world.runners.most_at_once == 1
    assert G1 not in world.capacity.nodes


def test_names_are_used_once() -> None:
    world = World()
    world.capacity.stockouts.add(ZONE)
    world.apply()
    world.run(3600)
    names = world.capacity.created
    assert len(names) > 3
    assert len(set(names)) == len(names)
    assert names[:2] == [G1, G2]
    assert set(world.capacity.nodes) <= {f"{NODES}/train-g{world.state().generation}"}
