"""The wake-up rule and the timers: nothing that arrives is missed, and nothing is done twice."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from tests.fakes.wire import Call, Crash, failing, nothing, once
from tests.recovery.shell.world import G1, G2, OTHER_ZONE, ZONE, World, running

from tpu_recovery.errors import Conflict, Invalid, Refused, Unreadable
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.records import InboxStatus


def is_lease(call: Call) -> bool:
    return call.name == "store.commit" and call.subject == "jobs/train"


def waiting(world: World) -> list[str]:
    return [entry.kind.value for entry in world.inbox() if entry.status is InboxStatus.WAITING]


def bodies(world: World) -> list[dict[str, object]]:
    return [json.loads(task.body) for task in world.timers.waiting("timers")]


# The lease


def test_while_somebody_looks_an_entry_is_kept_and_a_timer_waits_for_the_lease_to_end() -> None:
    world = running()
    lease = world.lease()
    assert world.event(world.preempted()) == "done"
    assert waiting(world) == ["event"]
    (task,) = [task for task in world.timers.waiting() if b'"lease"' in task.body]
    assert lease.until < task.at < lease.until + timedelta(seconds=10)


def test_a_lease_that_is_never_given_back_ends_and_the_entry_is_looked_at() -> None:
    world = running()
    world.lease()
    world.capacity.preempt(G1)
    world.event(world.preempted())
    world.messages.clear()
    world.sweeping = False
    world.run(90)
    assert waiting(world) == []
    assert world.state().generation == 2


def test_a_lease_timer_that_fires_a_little_early_does_not_lose_the_entry() -> None:
    world = running()
    lease = world.lease()
    world.capacity.preempt(G1)
    world.event(world.preempted())
    world.messages.clear()
    world.sweeping = False
    (task,) = [task for task in world.timers.waiting() if b'"lease"' in task.body]
    world.clock.move_to(task.at - timedelta(seconds=4))
    assert world.clock() > lease.until
    assert world.deliver(task.path, task.body) == "looked"
    assert waiting(world) == []


def test_the_timer_of_a_lease_that_was_given_back_does_nothing() -> None:
    world = running()
    lease = world.lease()
    world.event(world.preempted())
    entry = world.inbox()[-1]
    world.store.put(f"inbox/{entry.key}", {**world.store.document(f"inbox/{entry.key}"), "status": "done"})
    world.change(lease=None)
    before = len(world.wire.made("capacity"))
    assert world.timer(job="train", uid=world.state().uid, lease=lease.id) == "the lease was given back in time"
    assert len(world.wire.made("capacity")) == before


def test_a_holder_that_dies_between_giving_the_lease_back_and_reading_again_loses_no_entry() -> None:
    world = running()
    world.capacity.preempt(G1)
    second = world.preempted(insert_id="second")

    def arrive() -> None:
        world.wire.after = die_when_the_lease_is_back
        assert world.event(second) == "done"  # it found the lease taken

    def die_when_the_lease_is_back(call: Call) -> None:
        if call.name == "store.commit" and world.state().lease is None:
            raise Crash

    world.wire.before = once(lambda call: call.name == "capacity.describe", arrive)
    with pytest.raises(Crash):
        world.event(world.preempted(insert_id="first"))
    world.wire.after = nothing
    assert waiting(world) == ["event"]
    world.messages.clear()
    world.sweeping = False
    world.run(90)
    assert waiting(world) == []


def test_entries_that_arrive_during_a_look_cause_another_one() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.messages.clear()
    second = world.preempted(insert_id="second")

    def arrive() -> None:
        world.event(second)

    world.wire.before = once(lambda call: call.name == "capacity.describe", arrive)
    before = world.looks()
    world.event(world.preempted(insert_id="first"))
    assert waiting(world) == ["event"]
    assert {"job": "train", "uid": world.state().uid, "waiting": True} in bodies(world)
    world.sweeping = False
    world.happen()
    assert waiting(world) == []
    assert world.looks() == before + 2


def test_sixteen_entries_at_once_cost_sixteen_writes_and_two_looks() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.messages.clear()
    world.capacity.emit = lambda _entry: None
    entries = [world.preempted(insert_id=f"e{number}") for number in range(16)]

    def others_arrive() -> None:
        for entry in entries[1:]:
            world.event(entry)

    looks, commits = world.looks(), len(world.wire.made("store.commit", "inbox/"))
    world.wire.before = once(lambda call: call.name == "capacity.describe", others_arrive)
    world.event(entries[0])
    world.happen()
    assert waiting(world) == []
    assert world.capacity.created == [G1, G2]
    assert world.looks() == looks + 2
    writes = world.wire.made("store.commit", "inbox/")[commits:]
    assert len([call for call in writes if call.subject.count(" ") == 0]) == 16


def test_a_job_that_changes_while_its_lease_is_taken_is_read_again() -> None:
    world = running()

    def change() -> None:
        world.change(failures=3)

    world.wire.before = once(is_lease, change)
    assert world.event(world.preempted()) == "done"
    assert world.state().failures == 3


def test_a_job_that_changes_all_the_time_is_left_to_a_later_delivery() -> None:
    world = running()
    world.capacity.preempt(G1)

    def refuse(call: Call) -> None:
        if call.name == "store.commit" and call.subject.startswith("jobs/"):
            raise Conflict("busy")

    world.wire.before = refuse
    with pytest.raises(Unreadable, match="faster than its lease"):
        world.event(world.preempted())
    world.wire.before = nothing
    world.run(120)
    assert world.state().generation == 2


# Registering


def test_two_invocations_register_a_job_once() -> None:
    world = World()

    def register_too() -> None:
        world.command("apply")
        world.happen()

    world.wire.before = once(is_lease, register_too)
    world.apply()
    world.happen()
    assert not world.messages
    world.run(300)
    assert world.capacity.created == [G1]


def test_a_job_whose_specification_goes_while_it_is_registered_is_no_job() -> None:
    world = World()
    world.apply()

    def remove() -> None:
        del world.store.documents["jobs/train"], world.store.documents["specs/train"]

    world.wire.after = once(is_lease, remove)
    world.happen()
    assert world.looks() == 0


# Timers of a job


def test_a_timer_is_set_after_the_state_and_names_its_number() -> None:
    world = World()
    world.apply()
    order: list[str] = []
    world.wire.after = lambda call: order.append(call.name) if call.port in ("store", "timers") else None
    world.happen()
    first = order.index("timers.call_later")
    assert order[first - 1] == "store.commit"
    state = world.state()
    assert {"job": "train", "uid": state.uid, "seq": state.timer_seq} in bodies(world)


def test_an_older_timer_does_nothing() -> None:
    world = running()
    state = world.change(wake_at=world.clock(), timer_seq=7)
    before = len(world.wire.calls)
    assert world.timer(job="train", uid=state.uid, seq=6) == "an older timer"
    assert {call.name for call in world.wire.calls[before:]} == {"store.get"}


def test_a_timer_of_an_earlier_registration_or_of_no_job_does_nothing() -> None:
    world = running()
    assert world.timer(job="train", uid="older", seq=1) == "the job is gone"
    assert world.timer(job="nobody", uid="x", seq=1) == "the job is gone"


@pytest.mark.parametrize(("early", "outcome"), [(0, "looked"), (5, "looked"), (6, "too early: set again")])
def test_up_to_five_seconds_early_counts_as_due(early: int, outcome: str) -> None:
    world = running()
    state = world.change(wake_at=world.clock() + timedelta(seconds=early), timer_seq=7)
    assert world.timer(job="train", uid=state.uid, seq=7) == outcome


def test_a_timer_that_fires_much_too_early_is_set_again_under_a_new_name() -> None:
    world = running()
    wake_at = world.clock() + timedelta(minutes=10)
    state = world.change(wake_at=wake_at, timer_seq=7)
    world.timer(job="train", uid=state.uid, seq=7)
    (task,) = [task for task in world.timers.waiting() if b'"seq":8' in task.body]
    assert task.at == wake_at
    assert world.state().timer_seq == 8


def test_a_timer_for_a_moment_that_was_called_off_does_nothing() -> None:
    world = running()
    state = world.change(wake_at=None)
    assert world.timer(job="train", uid=state.uid, seq=state.timer_seq) == "nothing is due"


def test_a_timer_that_is_too_early_while_the_job_moves_on_leaves_it_to_the_new_one() -> None:
    world = running()
    state = world.change(wake_at=world.clock() + timedelta(minutes=10), timer_seq=7)
    world.wire.before = once(is_lease, failing(Conflict("changed")))
    assert world.timer(job="train", uid=state.uid, seq=7) == "the job has moved on"


def test_a_timer_that_fires_a_little_early_and_finds_that_it_has_to_wait_on_is_set_again() -> None:
    world = running()
    world.capacity.nodes[G1].state = "REPAIRING"
    world.event(world.preempted())
    until = world.state().patience["repair"].until
    world.sweeping = False
    world.run((until - world.clock()).total_seconds() - 30)
    assert world.state().wake_at == until
    world.clock.move_to(until - timedelta(seconds=3))
    (task,) = world.timers.waiting("timers")[:1]
    assert world.deliver(task.path, task.body) == "looked"
    world.timers.finish(task)
    assert world.state().phase is Phase.SUSPECT
    world.run(10)
    assert world.state().phase is Phase.HELD


def test_a_timer_delivered_twice_looks_once() -> None:
    world = running()
    world.capacity.nodes[G1].state = "REPAIRING"
    world.event(world.preempted())
    (task,) = world.timers.waiting("timers")[:1]
    world.clock.move_to(task.at)
    assert world.deliver(task.path, task.body) == "looked"
    assert world.deliver(task.path, task.body) == "an older timer"


def test_a_timer_that_finds_the_lease_taken_leaves_word_once() -> None:
    world = running()
    state = world.change(wake_at=world.clock(), timer_seq=7)
    world.lease()
    for _ in range(2):
        assert world.timer(job="train", uid=state.uid, seq=7) == "busy"
    assert waiting(world) == ["timer"]
    assert any("lease" in body for body in bodies(world))
    before = world.looks()
    world.sweeping = False
    world.run(90)
    assert waiting(world) == []
    assert world.looks() >= before + 1


def test_a_timer_that_leaves_word_after_the_inbox_was_read_for_the_last_time_looks_by_itself() -> None:
    world = running()
    lease, wake_at = world.lease(), world.clock()
    state = world.change(lease=lease, wake_at=wake_at, timer_seq=7)

    def give_back() -> None:
        world.change(lease=None)

    world.wire.before = once(lambda call: "inbox/" in call.subject and call.name == "store.commit", give_back)
    assert world.timer(job="train", uid=state.uid, seq=7) == "looked"
    assert waiting(world) == []


def test_a_timer_that_the_queue_does_not_take_is_found_by_the_sweep() -> None:
    world = World()
    world.apply()
    world.wire.before = once(lambda call: call.name == "timers.call_later", failing(Unreadable("dozing")))
    world.happen()
    world.timers.lose_all()
    world.messages.clear()
    world.run(1800)
    assert world.state().phase is Phase.RUNNING


# Other timers


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"job": 7}'])
def test_a_body_that_is_no_timer_is_refused_for_good(body: bytes) -> None:
    with pytest.raises(Invalid, match="timer task"):
        World().deliver("/timer", body)


def test_the_daily_timer_does_nothing() -> None:
    world = World()
    assert world.timer(nothing=True) == "timers arrive"
    assert not world.wire.calls


def test_the_timer_of_a_zone_looks_at_the_jobs_there_that_have_changed() -> None:
    world = running()
    world.capacity.preempt(G1)
    assert world.timer(zone=ZONE) == f"looked at 1 of 1 jobs in {ZONE}"
    assert world.state().generation == 2


def test_the_timer_of_a_zone_that_cannot_be_listed_is_delivered_again() -> None:
    world = running()
    world.capacity.unlistable.add(ZONE)
    with pytest.raises(Unreadable):
        world.timer(zone=ZONE)


def test_a_zone_look_leaves_jobs_alone_whose_node_is_in_another_zone() -> None:
    world = running()
    elsewhere = "projects/p/locations/us-west4-a/nodes/train-g0"
    world.change(resources=(*world.state().resources, elsewhere))
    before = world.looks()
    assert world.timer(zone="us-west4-a") == "looked at 0 of 1 jobs in us-west4-a"
    assert world.looks() == before


def test_a_zone_without_a_job_is_not_listed() -> None:
    world = running()
    before = world.wire.made("capacity.list_nodes")
    assert world.timer(zone=OTHER_ZONE) == f"no job is in {OTHER_ZONE}"
    assert world.wire.made("capacity.list_nodes") == before


def test_a_zone_whose_list_is_refused_is_left_to_the_sweep_which_goes_on_with_the_others() -> None:
    world = running()
    world.wire.before = refusing_lists
    assert world.timer(zone=ZONE) == f"{ZONE} cannot be listed"
    assert world.deliver("/sweep") == "looked at 0 of 1 jobs, removed 0 nodes"


def refusing_lists(call: Call) -> None:
    if call.name == "capacity.list_nodes":
        raise Refused("PERMISSION_DENIED", "no")
