"""One look: what it does when others are quicker, when people cannot be told, and when a launch has to wait."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.fakes.wire import Call, failing, nothing, once
from tests.recovery.shell.world import CHECKPOINTS, G1, G2, SPEC, World, running

from tpu_recovery.errors import Conflict, Refused, Unreadable
from tpu_recovery.model.spec import Checkpoints
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.look import Outcome, look
from tpu_recovery.recovery.records import InboxStatus


def is_intent(call: Call) -> bool:
    """The commit that opens the incident."""
    return call.name == "store.commit" and "incidents" in call.subject and "inbox" not in call.subject


def is_result(call: Call) -> bool:
    return call.name == "store.commit" and "incidents" in call.subject and "inbox" in call.subject


def lost() -> World:
    """A world whose node was taken, and nobody has looked yet."""
    world = running()
    world.capacity.preempt(G1)
    world.messages.clear()
    return world


def last_status(world: World) -> InboxStatus:
    return next(entry.status for entry in reversed(world.inbox()) if "terminate" in entry.raw)


def test_nobody_looks_at_a_job_that_does_not_exist() -> None:
    world = World()
    assert look(world.ports, "nobody") is Outcome.UNKNOWN


def test_a_decision_is_made_anew_when_the_job_has_changed_meanwhile() -> None:
    world = lost()

    def change() -> None:
        world.change(failures=3)

    world.wire.before = once(is_intent, change)
    world.event(world.preempted())
    assert world.state().generation == 2
    assert last_status(world) is InboxStatus.DONE


@pytest.mark.parametrize("gone", [False, True], ids=["another look", "nobody: the job is gone"])
def test_a_look_that_was_overtaken_before_its_decision_does_nothing(gone: bool) -> None:
    world = lost()

    def overtake() -> None:
        if gone:
            del world.store.documents["jobs/train"]
        else:
            world.lease()

    world.wire.before = once(is_intent, overtake)
    world.event(world.preempted())
    assert not world.wire.made("capacity.delete")
    assert last_status(world) is InboxStatus.WAITING


def test_a_job_that_changes_faster_than_it_can_be_decided_is_left_to_a_later_delivery() -> None:
    world = lost()

    def refuse(call: Call) -> None:
        if is_intent(call):
            raise Conflict("busy")

    world.wire.before = refuse
    with pytest.raises(Unreadable, match="faster than a decision"):
        world.event(world.preempted())
    assert not world.wire.made("capacity.delete")


def test_a_result_is_written_over_whatever_has_changed_meanwhile() -> None:
    world = lost()

    def change() -> None:
        world.change(failures=3)

    world.wire.before = once(is_result, change)
    world.event(world.preempted())
    state = world.state()
    assert (state.failures, state.lease) == (3, None)
    assert state.leftovers[0].delete_accepted == world.clock()
    assert world.incidents()[0].milestones.deleted == world.clock()


def test_a_result_that_comes_while_somebody_else_looks_leaves_them_their_lease() -> None:
    world = lost()

    def look_too() -> None:
        world.lease()

    world.wire.before = once(is_result, look_too)
    world.event(world.preempted())
    state = world.state()
    assert state.lease is not None
    assert state.lease.id == "somebody-else"
    assert state.leftovers[0].delete_accepted == world.clock()


def test_a_result_that_comes_after_the_incident_was_closed_is_recorded_in_the_state() -> None:
    world = lost()

    def close() -> None:
        world.change(incident="")

    world.wire.before = once(is_result, close)
    world.event(world.preempted())
    assert world.state().leftovers[0].delete_accepted == world.clock()


def test_a_result_of_a_job_that_is_gone_is_nobodys() -> None:
    world = lost()

    def remove() -> None:
        del world.store.documents["jobs/train"]

    world.wire.before = once(is_result, remove)
    assert world.event(world.preempted()) == "done"
    assert "jobs/train" not in world.store.documents


def test_results_that_cannot_be_written_are_made_again_by_the_next_look() -> None:
    world = lost()

    def refuse(call: Call) -> None:
        if is_result(call):
            raise Conflict("busy")

    world.wire.before = refuse
    with pytest.raises(Unreadable, match="faster than results"):
        world.event(world.preempted())
    world.wire.before = nothing
    world.run(1200)
    assert (world.state().phase, world.state().generation) == (Phase.RUNNING, 2)
    assert world.capacity.created == [G1, G2]


def test_a_delete_that_is_refused_does_not_keep_the_create_from_being_queued_and_is_made_again() -> None:
    world = lost()
    world.wire.before = once(
        lambda call: call.name == "capacity.delete", failing(Refused("PERMISSION_DENIED", "may not"))
    )
    world.event(world.preempted())
    (incident,) = world.incidents()
    assert [(one.what, one.result) for one in incident.actions] == [
        ("create train-g2", "queued"),
        ("delete train-g1", "failed: PERMISSION_DENIED: may not"),
    ]
    world.run(60)
    assert G1 not in world.capacity.nodes


def test_a_node_that_is_gone_already_counts_as_deleted() -> None:
    world = lost()
    world.wire.before = once(lambda call: call.name == "capacity.delete", lambda: world.capacity.forget(G1))
    world.event(world.preempted())
    assert world.state().leftovers[0].delete_accepted == world.clock()


def test_that_people_cannot_be_told_stops_nothing() -> None:
    world = lost()
    world.wire.before = once(lambda call: call.port == "notifier", failing(Unreadable("no topic")))
    world.event(world.preempted())
    world.run(600)
    assert world.state().phase is Phase.RUNNING
    assert world.notifier.told == []


def test_every_new_generation_has_a_secret_of_its_own() -> None:
    world = running()
    first = world.state().token
    world.capacity.preempt(G1)
    world.run(600)
    assert world.state().token not in ("", first)
    assert json.loads(world.capacity.nodes[G2].metadata["tpu-recovery"])["token"] == world.state().token


# What is read


def test_without_guest_attributes_the_messages_of_the_runner_have_to_do() -> None:
    world = World()
    world.capacity.without_attributes = True
    world.apply()
    world.run(600)
    assert world.state().phase is Phase.RUNNING


def test_what_others_write_into_guest_attributes_says_nothing() -> None:
    world = World()
    world.apply()
    world.run(119)
    world.capacity.nodes[G1].reports["other"] = "hello"
    world.run(600)
    assert world.state().phase is Phase.RUNNING


def test_guest_attributes_have_to_do_when_no_message_of_the_runner_arrives() -> None:
    world = World()
    world.runners.send = lambda report: None
    world.apply()
    world.run(3 * 3600)
    assert world.state().phase is Phase.RUNNING
    assert world.state().progress.checkpoint_step == 10


@pytest.mark.parametrize(
    ("checkpoints", "says"),
    [
        (None, "saves no checkpoints"),
        (Checkpoints(path="/mnt/disk/train"), "not verified before creation"),
        (Checkpoints(path=CHECKPOINTS), "step 10 is complete"),
    ],
    ids=["none", "on a disk", "in a bucket"],
)
def test_the_incident_says_what_training_goes_on_from(checkpoints: Checkpoints | None, says: str) -> None:
    world = World()
    world.apply(replace(SPEC, checkpoints=checkpoints))
    world.run(600)
    world.capacity.preempt(G1)
    world.run(600)
    (incident,) = world.incidents()
    assert says in incident.checkpoint


def test_a_person_may_accept_an_older_checkpoint() -> None:
    world = running()
    world.checkpoints.found.clear()
    world.capacity.preempt(G1)
    world.run(60)
    assert world.state().phase is Phase.HELD
    calls = len(world.wire.made("capacity"))
    world.run(600)
    assert len(world.wire.made("capacity")) <= calls + 8  # a held job costs lists, no looks at its node
    world.command("resume")
    world.run(600)
    assert (world.state().phase, world.state().generation) == (Phase.RUNNING, 2)


def test_a_missing_specification_holds_the_job_and_costs_no_call() -> None:
    world = running()
    del world.store.documents["specs/train"]
    calls = len(world.wire.made("capacity"))
    world.event(world.preempted())
    assert len(world.wire.made("capacity")) == calls
    assert world.state().phase is Phase.HELD


# Two generations may never train


def test_a_generation_whose_predecessor_may_still_run_is_launched_once_that_is_gone() -> None:
    world = World()
    world.runners.mute.add(G1)
    world.capacity.delete_seconds = 400
    world.apply()
    world.run(1200)
    assert world.runners.training() == [G1]
    assert world.state().generation == 2
    assert world.capacity.nodes[G2].state == "READY"
    assert json.loads(world.capacity.nodes[G2].metadata["tpu-recovery"])["launch"] == 0
    world.run(600)
    assert world.runners.training() == [G2]
    assert world.runners.most_at_once == 1
    assert world.state().phase is Phase.RUNNING


def test_a_hand_off_that_is_refused_is_written_again() -> None:
    world = World()
    world.runners.mute.add(G1)
    world.capacity.delete_seconds = 400
    world.apply()
    world.wire.before = once(
        lambda call: call.name == "capacity.write_metadata", failing(Unreadable("another update is in flight"))
    )
    world.run(2400)
    assert len(world.wire.made("capacity.write_metadata")) == 2
    assert world.runners.training() == [G2]


def test_timers_are_set_for_the_very_moment() -> None:
    world = lost()
    world.event(world.preempted())
    state = world.state()
    (task,) = [task for task in world.timers.waiting("timers") if json.loads(task.body).get("seq") == state.timer_seq]
    assert task.at == state.wake_at
    assert state.wake_at is not None
    assert state.wake_at > world.clock() + timedelta(minutes=1)
