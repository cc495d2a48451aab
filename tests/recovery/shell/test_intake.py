"""What arrives is kept, with what became of it; only what may matter causes a look."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.fakes.entries import SERVICE_ACCOUNT, api_call, push, stamp, system_event
from tests.fakes.wire import Call, Crash, failing, once
from tests.recovery.shell.world import G1, G2, NODES, ZONE, World, running

from tpu_recovery.errors import Conflict, Unreadable
from tpu_recovery.recovery.records import InboxEntry, InboxStatus

WORKER = f"projects/p/zones/{ZONE}/instances/t1v-n-0badcafe-w-0"


def newest(world: World) -> InboxEntry:
    return world.inbox()[-1]


UNREADABLE: dict[str, tuple[str, bytes, str]] = {
    "no JSON": ("/event", b"{", "push request"),
    "no message": ("/report", b"[]", "push request"),
    "no base64": ("/command", b'{"message": {"data": "*"}}', "message.data"),
    "an entry that is no JSON": ("/event", push(b"hello"), "log entry"),
    "an entry of nothing we know": ("/event", push({"protoPayload": {"methodName": "x"}}), "resourceName"),
    "a report without its fields": ("/report", push({"kind": "started"}), "report"),
    "a command of a kind that there is not": (
        "/command",
        push({"id": "1", "job": "train", "kind": "dance"}),
        "command",
    ),
    "a name that is no document's": (
        "/command",
        push({"id": "1", "job": "a/b", "kind": "apply", "at": "2026-03-02T10:00:00Z"}),
        "job",
    ),
    "an empty name": ("/command", push({"id": "1", "job": "", "kind": "apply", "at": "2026-03-02T10:00:00Z"}), "job"),
    "bytes that are no text": ("/event", push(b"\xff\xfe"), "log entry"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_kept_with_its_reason_and_acknowledged(case: str) -> None:
    path, body, reason = UNREADABLE[case]
    world = World()
    assert world.deliver(path, body) == InboxStatus.IGNORED
    (entry,) = world.inbox()
    assert entry.status is InboxStatus.IGNORED
    assert reason in entry.reason
    assert entry.expire_at == world.clock() + timedelta(days=30)


def test_what_cannot_be_read_is_kept_once_however_often_it_comes() -> None:
    world = World()
    for _ in range(3):
        world.deliver("/event", push(b"hello"))
    (entry,) = world.inbox()
    assert entry.raw == "hello"


@pytest.mark.parametrize("data", [b"x" * 1_200_000, b"\xff" * 1_000_000], ids=["text", "no text"])
def test_a_message_too_large_for_a_document_is_kept_as_far_as_it_fits(data: bytes) -> None:
    world = World()
    assert world.deliver("/event", push(data)) == InboxStatus.IGNORED
    (entry,) = world.inbox()
    assert 800_000 < len(entry.raw.encode()) <= 900_000


def test_an_entry_is_written_before_anything_is_looked_at() -> None:
    world = running()
    world.wire.after = once(lambda call: call.name == "store.commit", failing(Crash()))
    world.capacity.preempt(G1)
    with pytest.raises(Crash):
        world.event(world.preempted())
    assert newest(world).status is InboxStatus.WAITING
    assert not world.wire.made("capacity.delete")


def test_an_entry_that_nobody_could_write_is_delivered_again() -> None:
    world = running()
    world.wire.before = once(lambda call: call.name == "store.commit", failing(Unreadable("no answer")))
    with pytest.raises(Unreadable):
        world.event(world.preempted())
    assert len(world.inbox()) == len(running().inbox())


def test_a_duplicate_of_an_entry_that_is_done_causes_no_look() -> None:
    world = running()
    entry = world.preempted()
    assert world.event(entry) == "done"
    before = world.looks()
    assert world.event(entry) == "done"
    assert world.looks() == before


def test_a_duplicate_that_comes_after_the_recreation_adds_nothing_to_the_incident() -> None:
    world = running()
    entry = world.preempted()
    world.capacity.preempt(G1)
    world.event(entry)
    assert world.state().generation == 2
    (before,) = world.incidents()
    for _ in range(15):
        world.clock.advance(1)
        assert world.event(entry) == "done"
    assert world.incidents() == [before]


def test_a_duplicate_of_an_entry_from_before_the_loss_is_no_evidence_of_it() -> None:
    world = running()
    earlier = api_call("CreateNode", G1, world.clock(), principal=SERVICE_ACCOUNT, last=True)
    assert world.event(earlier) == "done"
    world.capacity.preempt(G1)
    world.event(world.preempted())
    (before,) = world.incidents()
    assert world.event(earlier) == "done"
    assert world.incidents() == [before]


def test_late_entries_are_evidence_for_the_open_incident_once_each_and_cause_no_look() -> None:
    world = running()
    world.capacity.preempt(G1)
    first, late = world.preempted(), world.preempted(insert_id="late")
    late["timestamp"] = stamp(world.clock() - timedelta(minutes=6))
    world.event(first)
    before = world.looks()
    assert world.event(late) == "ignored"
    world.clock.advance(1)
    assert world.event(late) == "ignored"
    assert world.looks() == before
    (incident,) = world.incidents()
    told = [one for one in incident.evidence if "tpu.nodes.terminate" in one.says]
    assert len(told) == 2
    assert incident.milestones.occurred == world.clock() - timedelta(minutes=6, seconds=1)
    assert newest(world).reason == "it tells of a generation that is over"


def test_a_late_entry_finds_an_incident_that_others_are_writing_to() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.event(world.preempted())

    def is_about_the_incident(call: Call) -> bool:
        return call.name == "store.commit" and "incidents" in call.subject

    def keep_busy(call: Call) -> None:
        if is_about_the_incident(call):
            raise Conflict("busy")

    world.wire.before = once(is_about_the_incident, failing(Conflict("busy")))
    world.event(world.preempted(insert_id="a"))
    world.wire.before = keep_busy
    world.event(world.preempted(insert_id="b"))
    (incident,) = world.incidents()
    assert len([one for one in incident.evidence if "terminate" in one.says]) == 2
    assert (
        len([entry for entry in world.inbox() if entry.status is InboxStatus.IGNORED and "over" in entry.reason]) == 2
    )


def test_a_late_entry_after_the_incident_is_kept_and_changes_nothing() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.run(600)
    (before,) = world.incidents()
    assert world.event(world.preempted(insert_id="late")) == "ignored"
    assert world.incidents() == [before]


def test_an_incident_keeps_only_so_much_evidence() -> None:
    world = running()
    world.capacity.preempt(G1)
    for number in range(60):
        world.event(world.preempted(insert_id=f"e{number}"))
    (incident,) = world.incidents()
    assert len(incident.evidence) == 40


IGNORED_ENTRIES: dict[str, tuple[dict[str, Any], str]] = {
    "our own delete": (
        api_call("DeleteNode", G1, World().clock(), principal=SERVICE_ACCOUNT),
        "the service's own call",
    ),
    "our own create, accepted": (
        api_call("CreateNode", G1, World().clock(), principal=SERVICE_ACCOUNT),
        "the service's own call",
    ),
    "a node of nobody": (system_event("tpu.nodes.terminate", f"{NODES}/other", World().clock()), "no job claims"),
    "a VM of nobody": (system_event("compute.instances.preempted", WORKER, World().clock()), "no job claims"),
}


@pytest.mark.parametrize("case", IGNORED_ENTRIES)
def test_entries_that_concern_no_job_or_that_we_caused_cause_no_look(case: str) -> None:
    entry, reason = IGNORED_ENTRIES[case]
    world = running()
    before = world.looks()
    assert world.event(entry) == "ignored"
    assert world.looks() == before
    assert reason in newest(world).reason


def test_a_worker_of_an_unknown_vm_sets_one_timer_for_its_zone_and_minute() -> None:
    world = running()
    before = set(world.timers.tasks)
    for number in range(8):
        world.event(system_event("compute.instances.preempted", WORKER, world.clock(), f"i{number}"))
    tasks = [world.timers.tasks[key] for key in world.timers.tasks.keys() - before]
    assert [json.loads(task.body) for task in tasks] == [{"zone": ZONE}]
    world.clock.advance(60)
    world.event(system_event("compute.instances.preempted", WORKER, world.clock(), "later"))
    assert len(world.timers.tasks.keys() - before) == 2


def test_a_worker_of_ours_is_found_by_its_host_name() -> None:
    world = running()
    (hostname,) = world.state().slices[0].hostnames
    instance = f"projects/p/zones/{ZONE}/instances/{hostname}"
    assert world.event(system_event("compute.instances.preempted", instance, world.clock())) == "done"
    assert world.state().phase == "SUSPECT"


STRANGE_REPORTS: dict[str, tuple[dict[str, Any], str]] = {
    "another registration": ({"uid": "older"}, "uid 'older'"),
    "an unknown job": ({"job": "nobody"}, "no job 'nobody'"),
    "another generation": ({"generation": 7}, "generation 7"),
    "another token": ({"token": "guessed"}, "token"),
}


@pytest.mark.parametrize("case", STRANGE_REPORTS)
def test_a_report_that_is_not_of_the_current_vm_changes_nothing(case: str) -> None:
    changes, reason = STRANGE_REPORTS[case]
    world = running()
    report = {**world.runners.report(G1, "gave_up", reason="crash-loop", exit_code=1), **changes}
    world.messages.clear()
    world.capacity.nodes[G1].reports.clear()
    world.deliver("/report", push(report))
    entry = newest(world)
    assert entry.status is InboxStatus.IGNORED
    assert reason in entry.reason
    assert world.state().phase == "RUNNING"


def test_a_command_for_a_job_that_does_not_exist_is_kept_with_its_reason() -> None:
    world = World()
    body = {"id": "1", "job": "nobody", "kind": "resume", "at": stamp(world.clock())}
    assert world.deliver("/command", push(body)) == "ignored"
    assert "no job 'nobody'" in newest(world).reason


def test_an_entry_that_the_code_can_read_no_more_is_set_aside_with_its_reason() -> None:
    world = running()
    entry = world.inbox()[0]
    path = f"inbox/{entry.key}"
    world.store.put(path, {**world.store.document(path), "kind": "event", "status": "waiting", "raw": "old"})
    assert world.event(world.preempted()) == "done"
    (found,) = [one for one in world.inbox() if one.key == entry.key]
    assert found.status is InboxStatus.IGNORED
    assert "log entry" in found.reason


def test_a_late_entry_that_cannot_be_read_from_the_inbox_adds_no_evidence() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.event(world.preempted())
    late = world.preempted(insert_id="late")
    late["protoPayload"]["padding"] = "x" * 1_000_000
    (before,) = world.incidents()
    assert world.event(late) == "ignored"
    assert world.incidents() == [before]


def test_commands_are_evidence_of_the_incident_that_they_end() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.event(world.preempted())
    world.command("apply")
    world.happen()
    (incident,) = world.incidents()
    assert [one.says for one in incident.evidence if one.kind == "command"] == ["apply by ada@example.com"]
    assert G2 in world.capacity.nodes


@pytest.mark.parametrize(
    ("principal", "message", "says"),
    [
        ("", "", "tpu.nodes.terminate"),
        ("system@google.com", "", "tpu.nodes.terminate by system@google.com"),
        ("", "host fault", "tpu.nodes.terminate (host fault)"),
    ],
)
def test_evidence_says_what_the_entry_says(principal: str, message: str, says: str) -> None:
    world = running()
    entry = world.preempted()
    entry["protoPayload"]["authenticationInfo"] = {"principalEmail": principal}
    entry["protoPayload"]["status"] = {"message": message}
    world.capacity.preempt(G1)
    world.event(entry)
    (incident,) = world.incidents()
    assert incident.evidence[0].says == says


def test_a_worker_in_something_that_is_no_zone_sets_no_timer() -> None:
    world = World()
    worker = WORKER.replace(ZONE, "-")
    assert world.event(system_event("compute.instances.preempted", worker, world.clock())) == "ignored"
    assert not world.timers.waiting()
