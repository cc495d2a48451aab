"""The sweep finds what was lost on the way, removes what nobody claims, and is stopped by nothing."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.fakes.entries import SERVICE_ACCOUNT, push
from tests.fakes.wire import Call
from tests.recovery.shell.world import G1, G2, NODES, OTHER_ZONE, SPEC, ZONE, World, running

from tpu_recovery.errors import Refused, Unreadable
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID
from tpu_recovery.model.spec import Placement, WhenDone
from tpu_recovery.model.state import Leftover, Phase
from tpu_recovery.recovery.records import InboxStatus
from tpu_recovery.recovery.settings import Settings

ELSEWHERE = f"projects/p/locations/{OTHER_ZONE}/nodes"


def sweep(world: World) -> str:
    return world.deliver("/sweep")


def labels(world: World, generation: int, name: str = "train") -> dict[str, str]:
    return {LABEL_JOB: name, LABEL_UID: world.state(name).uid, LABEL_GENERATION: str(generation)}


def several(*names: str, **settings: Settings) -> World:
    """A world in which these jobs run, each in the same zone."""
    world = World(**settings)
    for name in names:
        world.apply(replace(SPEC, name=name, checkpoints=None))
    world.run(600)
    assert {world.state(name).phase for name in names} == {Phase.RUNNING}
    return world


# What was lost


def test_a_loss_that_no_entry_told_of_is_found() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.messages.clear()
    sweep(world)
    assert world.state().generation == 2


def test_a_node_that_the_platform_forgot_is_found_and_the_others_are_served() -> None:
    world = several("a", "b", "c", "d", "e")
    world.capacity.forget(f"{NODES}/c-g1")
    assert sweep(world) == "looked at 1 of 5 jobs, removed 0 nodes"
    assert world.state("c").phase is Phase.SUSPECT
    world.run(600)
    assert [world.state(name).generation for name in "abcde"] == [1, 1, 2, 1, 1]
    (incident,) = world.incidents("c")
    assert incident.cause == "LOST"
    assert any("NOT_FOUND" in one.says for one in incident.evidence)


def test_a_timer_that_was_lost_is_made_up_for_once_it_is_due() -> None:
    world = running()
    world.change(wake_at=world.clock() + timedelta(minutes=1))
    assert sweep(world) == "looked at 0 of 1 jobs, removed 0 nodes"
    world.clock.advance(60)
    assert sweep(world) == "looked at 1 of 1 jobs, removed 0 nodes"


def test_an_entry_about_a_job_that_is_over_is_read_too() -> None:
    world = running()
    world.capacity.forget(G1)
    world.change(phase=Phase.SUCCEEDED, slices=(), wake_at=None)
    assert sweep(world) == "looked at 0 of 0 jobs, removed 0 nodes"
    world.lease(seconds=1)
    world.command("resume")
    world.run(0)
    world.timers.lose_all()
    world.clock.advance(2)
    assert sweep(world) == "looked at 1 of 1 jobs, removed 0 nodes"
    assert {entry.status for entry in world.inbox()} == {InboxStatus.DONE, InboxStatus.IGNORED}


def test_an_entry_that_was_written_and_never_looked_at_is_found() -> None:
    world = running()
    world.lease(seconds=1)
    world.event(world.preempted())
    world.timers.lose_all()
    world.clock.advance(2)
    sweep(world)
    assert {entry.status for entry in world.inbox()} == {InboxStatus.DONE, InboxStatus.IGNORED}


def test_a_command_that_was_lost_is_made_up_for() -> None:
    world = World()
    world.wish()
    sweep(world)
    world.run(300)
    assert world.capacity.created == [G1]


def test_a_job_that_was_registered_and_no_more_is_looked_at() -> None:
    world = World()
    world.wish()
    sweep(world)
    world.change(phase=Phase.REGISTERED, wake_at=None)
    assert sweep(world).startswith("looked at 1 of 1")


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.PAUSED, Phase.STOOD_DOWN, Phase.WATCHED])
def test_jobs_at_rest_are_left_alone(phase: Phase) -> None:
    world = running()
    world.change(phase=phase)
    world.wish(paused=phase is Phase.PAUSED)
    world.capacity.preempt(G1)
    assert sweep(world).startswith("looked at 0 of 1")


@pytest.mark.parametrize(("phase", "paused"), [(Phase.RUNNING, True), (Phase.PAUSED, False)])
def test_a_lost_command_to_pause_or_to_go_on_is_made_up_for(phase: Phase, paused: bool) -> None:
    world = running()
    world.change(phase=phase)
    world.wish(paused=paused)
    assert sweep(world).startswith("looked at 1 of 1")
    assert (world.state().phase is Phase.PAUSED) is paused


def test_every_sweep_sees_to_it_that_a_timer_a_day_proves_the_path() -> None:
    world = World()
    sweep(world)
    sweep(world)
    assert [json.loads(task.body) for task in world.timers.waiting()] == [{"nothing": True}]
    world.clock.advance(86_400)
    sweep(world)
    assert len(world.timers.waiting()) == 2


# Leftovers


def test_leftovers_are_followed_until_their_absence_is_confirmed() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.run(150)
    assert [one.name for one in world.state().leftovers] == [G1]
    world.sweeping = False
    world.messages.clear()
    sweep(world)
    world.clock.advance(30)
    sweep(world)
    assert world.state().leftovers == ()


def test_a_leftover_in_a_zone_that_cannot_be_listed_is_not_taken_for_gone() -> None:
    world = running()
    world.capacity.add(f"{ELSEWHERE}/train-g0", labels(world, 0))
    older = Leftover(name=f"{ELSEWHERE}/train-g0", generation=0, stopped=True, delete_accepted=world.clock())
    world.change(leftovers=(older,))
    world.capacity.unlistable.add(OTHER_ZONE)
    for _ in range(3):
        sweep(world)
        world.clock.advance(30)
    (leftover,) = world.state().leftovers
    assert leftover.absent_since is None


@pytest.mark.parametrize("unlistable", [ZONE, ""])
def test_an_older_generation_that_runs_keeps_the_newer_one_from_starting_whatever_the_list_says(
    unlistable: str,
) -> None:
    world = running()
    world.capacity.add(f"{NODES}/train-g0", labels(world, 0))
    older = Leftover(name=f"{NODES}/train-g0", generation=0, delete_accepted=world.clock())
    world.change(leftovers=(older,), launch=2, handed=1)
    world.capacity.unlistable.add(unlistable)
    sweep(world)
    (leftover,) = world.state().leftovers
    assert not leftover.stopped
    assert not world.wire.made("capacity.write_metadata")


def test_a_list_that_is_older_than_a_node_does_not_prove_it_gone() -> None:
    """A sweep freezes after listing; meanwhile the job loses its node and the next generation comes to run."""
    world = running()
    world.capacity.preempt(G1)
    world.messages.clear()
    frozen: list[str] = []

    def freeze(call: Call) -> None:
        if call.name != "capacity.list_nodes" or frozen:
            return
        frozen.append(call.name)
        world.sweeping = False
        world.timer(zone=ZONE)
        world.run(600)
        assert world.runners.training() == [G2]
        running_leftover = Leftover(name=G2, generation=2, delete_accepted=world.clock())
        world.change(generation=3, launch=1, handed=0, leftovers=(running_leftover,), wake_at=world.clock())

    world.wire.after = freeze
    sweep(world)
    (leftover,) = world.state().leftovers
    assert (leftover.stopped, leftover.absent_since) == (False, None)


def test_a_job_that_is_over_keeps_being_looked_at_until_its_node_is_gone() -> None:
    world = running()

    def refuse(call: Call) -> None:
        if call.name == "capacity.delete":
            raise Refused("PERMISSION_DENIED", "not now")

    world.wire.before = refuse
    world.deliver("/report", push(world.runners.report(G1, "finished", exit_code=0)))
    world.messages.clear()
    assert world.state().phase is Phase.SUCCEEDED
    world.timers.lose_all()
    world.wire.before = lambda call: None
    world.run(1200)
    assert world.capacity.nodes == {}
    assert world.state().leftovers == ()
    assert sweep(world).startswith("looked at 0 of 0")


# Nodes that nobody claims


# Case: the node's id, what differs from the labels of generation 1 of our job, its state, whether it is removed
UNCLAIMED: dict[str, tuple[str, dict[str, str], str, bool]] = {
    "an older generation": ("train-g1", {}, "READY", True),
    "one that is being deleted": ("train-g1", {}, "DELETING", False),
    "a newer generation": ("train-g3", {LABEL_GENERATION: "3"}, "READY", False),
    "another registration": ("train-g1", {LABEL_UID: "older"}, "READY", False),
    "another job": ("train-g1", {LABEL_JOB: "nobody"}, "READY", False),
    "a label that is no job": ("train-g1", {LABEL_JOB: "__x__"}, "READY", False),
    "a label that is no number": ("train-g1", {LABEL_GENERATION: "²"}, "READY", False),
    "our labels under another name": ("my-node", {}, "READY", False),
    "no labels of ours": ("train-g1", {LABEL_JOB: "", LABEL_UID: ""}, "READY", False),
}


@pytest.mark.parametrize("case", UNCLAIMED)
def test_only_nodes_of_ours_below_the_generation_are_removed(case: str) -> None:
    node_id, changes, state, removed = UNCLAIMED[case]
    world = running()
    world.capacity.preempt(G1)
    world.run(900)
    assert world.state().leftovers == ()
    deleted = len(world.capacity.deleted)
    node = world.capacity.add(f"{NODES}/{node_id}", {**labels(world, 1), **changes}, state)
    assert sweep(world).endswith(f"removed {int(removed)} nodes")
    assert world.capacity.deleted[deleted:] == ([node.name] if removed else [])


def test_a_leftover_is_the_business_of_its_job_and_no_unclaimed_node() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.happen()
    world.capacity.delete_seconds = 10_000
    assert sweep(world).endswith("removed 0 nodes")


def test_an_unclaimed_node_that_cannot_be_deleted_stays_for_the_next_sweep() -> None:
    world = running()
    world.change(generation=2, slices=(replace(world.state().slices[0], name=G2, state=""),))
    world.capacity.nodes[G1].labels = labels(world, 1)

    def refuse(call: Call) -> None:
        if call.name == "capacity.delete":
            raise Refused("PERMISSION_DENIED", "not now")

    world.wire.before = refuse
    assert sweep(world).endswith("removed 0 nodes")
    world.wire.before = lambda call: None
    assert sweep(world).endswith("removed 1 nodes")


def test_a_node_that_a_frozen_create_makes_in_a_zone_of_the_past_is_removed() -> None:
    spec = replace(SPEC, placements=(Placement(zone=ZONE), Placement(zone=OTHER_ZONE)))
    world = World()
    world.capacity.stockouts.add(ZONE)
    world.apply(spec)
    world.run(900)
    assert world.runners.training() == [f"{ELSEWHERE}/train-g2"]
    assert world.state().leftovers == ()
    world.capacity.add(G1, labels(world, 1))
    assert sweep(world).endswith("removed 1 nodes")


def test_a_node_that_a_frozen_create_makes_after_the_job_is_over_is_removed() -> None:
    world = several("other", "train")
    world.deliver("/report", push(world.runners.report(G1, "finished", exit_code=0)))
    world.run(900)
    assert G1 not in world.capacity.nodes
    world.capacity.add(G1, labels(world, 1))
    assert sweep(world).endswith("removed 1 nodes")


def test_the_node_of_a_job_that_is_over_and_keeps_it_stays() -> None:
    world = World()
    other = replace(SPEC, name="other", checkpoints=None)
    world.apply(other)
    world.apply(replace(SPEC, when_done=WhenDone.KEEP))
    world.run(600)
    world.deliver("/report", push(world.runners.report(G1, "finished", exit_code=0)))
    world.run(900)
    assert G1 in world.capacity.nodes


# Nothing stops it


def test_a_zone_that_cannot_be_listed_does_not_keep_the_others_from_being_looked_at() -> None:
    world = World()
    for name, zone in (("a", OTHER_ZONE), ("b", ZONE)):
        world.apply(replace(SPEC, name=name, placements=(Placement(zone=zone),), checkpoints=None))
    world.run(600)
    world.capacity.unlistable.add(OTHER_ZONE)
    world.capacity.preempt(f"{NODES}/b-g1")
    world.messages.clear()
    assert sweep(world) == "looked at 1 of 2 jobs, removed 0 nodes"
    assert world.state("b").generation == 2
    assert world.state("a").phase is Phase.RUNNING


def test_a_job_that_cannot_be_looked_at_does_not_keep_the_others_from_it() -> None:
    world = several("a", "b")
    for name in "ab":
        world.capacity.preempt(f"{NODES}/{name}-g1")
    world.messages.clear()

    def refuse(call: Call) -> None:
        if call.name == "store.commit" and call.subject.startswith("jobs/a"):
            raise Unreadable("no answer")

    world.wire.before = refuse
    sweep(world)
    assert [world.state(name).generation for name in "ab"] == [1, 2]


def test_a_document_that_cannot_be_read_does_not_keep_the_others_from_being_looked_at() -> None:
    world = several("a", "b")
    world.store.put("jobs/a", {**world.store.document("jobs/a"), "phase": "DANCING"})
    world.capacity.preempt(f"{NODES}/b-g1")
    world.messages.clear()
    sweep(world)
    assert world.state("b").generation == 2
    assert f"{NODES}/a-g1" in world.capacity.nodes


def test_a_sweep_that_runs_out_of_time_goes_on_by_timer_after_the_last_job() -> None:
    settings = Settings(
        project="p", service_account=SERVICE_ACCOUNT, reports_topic="t", sweep_budget=timedelta(seconds=40)
    )
    world = several("a", "b", "c", settings=settings)
    for name in "abc":
        world.change(name, wake_at=world.clock())
    world.timers.lose_all()
    world.wire.after = lambda call: world.clock.advance(3)
    assert sweep(world) == "looked at 1 jobs; going on by timer"
    world.wire.after = lambda call: None
    (task,) = [task for task in world.timers.waiting() if b"sweep_after" in task.body]
    assert json.loads(task.body) == {"sweep_after": "a"}
    assert world.deliver(task.path, task.body).startswith("looked at 2 of 3")


def test_a_sweep_whose_reading_takes_all_its_time_still_looks_at_one_job() -> None:
    world = several("a", "b")
    for name in "ab":
        world.change(name, wake_at=world.clock())
    world.wire.after = lambda call: world.clock.advance(50) if call.name == "capacity.list_nodes" else None
    assert sweep(world) == "looked at 1 jobs; going on by timer"


def test_whatever_is_wrong_with_one_job_the_others_are_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    world = several("a", "b", "c")
    for name in "abc":
        world.capacity.preempt(f"{NODES}/{name}-g1")

    def broken(call: Call) -> None:
        if (call.name, call.subject) == ("capacity.describe", f"{NODES}/b-g1"):
            raise ZeroDivisionError("nobody has thought of this")

    world.wire.before = broken
    assert sweep(world) == "looked at 3 of 3 jobs, removed 0 nodes"
    assert [world.state(name).generation for name in "abc"] == [2, 1, 2]
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == ["job b could not be looked at"]
