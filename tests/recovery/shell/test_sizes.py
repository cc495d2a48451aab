"""Whatever comes in, and however often: every document stays one that can be written again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.entries import push
from tests.fakes.store import LARGEST_DOCUMENT
from tests.fakes.wire import Call, once
from tests.recovery.shell.world import G1, World, running

from tpu_recovery.errors import Unstorable
from tpu_recovery.model.codec import to_document
from tpu_recovery.model.state import Phase
from tpu_recovery.model.texts import LONGEST_RAW, LONGEST_REASON
from tpu_recovery.recovery.absorb import MOST_EVIDENCE
from tpu_recovery.recovery.records import InboxStatus

WIDE = "🎈"
"""One character, four bytes."""


def report(world: World, **changes: Any) -> bytes:
    usual = world.runners.report(G1, "crashed")
    return push({**usual, "sequence": 100, "boot": "b", **changes})


@pytest.mark.parametrize(
    "changes",
    [{"detail": "x" * 4_001}, {"reason": "x" * 257}, {"boot": "x" * 257}, {"hostname": "x" * 257}],
)
def test_a_report_with_a_text_that_no_runner_sends_is_not_read(changes: dict[str, Any]) -> None:
    world = running()
    assert world.deliver("/report", report(world, **changes)) == InboxStatus.IGNORED


def test_reports_that_are_not_the_runners_are_no_evidence() -> None:
    world = running()
    world.capacity.preempt(G1)
    world.lease(seconds=1)
    for sequence in range(MOST_EVIDENCE):
        text = {"token": "guessed", "sequence": sequence, "detail": WIDE * 4_000}
        world.deliver("/report", report(world, **text))
    world.clock.advance(2)
    world.event(world.preempted())
    (incident,) = world.incidents()
    assert [one.kind for one in incident.evidence] == ["event", "reading"]


def test_the_longest_texts_that_can_come_leave_the_job_workable() -> None:
    world = running()
    world.lease(seconds=1)
    for number in range(MOST_EVIDENCE + 5):
        entry = world.preempted(insert_id=f"s{number}")
        entry["severity"] = WIDE * 25_000
        entry["protoPayload"]["metadata"] = {"terminateReason": WIDE * 25_000}
        world.event(entry)
    for worker in range(200):
        words = {"worker": worker, "reason": WIDE * 256, "detail": WIDE * 4_000}
        world.deliver("/report", report(world, **words))
    world.clock.advance(2)
    world.capacity.preempt(G1)
    world.messages.clear()
    world.store.put("specs/train", {**world.store.document("specs/train"), "spec": None})
    world.run(900)
    assert world.state().phase is Phase.HELD
    assert world.state().suspicion
    assert all(len(one.says.encode()) <= LONGEST_REASON for one in world.state().suspicion)
    assert all(len(one.raw.encode()) <= LONGEST_RAW for one in world.state().suspicion)
    assert len(world.state().why.encode()) <= LONGEST_REASON
    for path, stored in world.store.documents.items():
        assert len(str(stored.fields).encode()) < LARGEST_DOCUMENT or path.startswith("inbox/"), path


@pytest.mark.parametrize("comes_twice", [False, True])
def test_of_an_entry_that_the_store_refuses_as_a_whole_the_beginning_is_kept(comes_twice: bool) -> None:
    world = running()

    def refuse() -> None:
        if comes_twice:
            world.store.put(f"inbox/{key}", to_document(replace(world.inbox()[0], key=key)))
        raise Unstorable("too large")

    key = ""

    def remember(call: Call) -> bool:
        nonlocal key
        key = call.subject.removeprefix("inbox/")
        return call.name == "store.commit" and call.subject.startswith("inbox/")

    world.wire.before = once(remember, refuse)
    before = len(world.inbox())
    assert world.event(world.preempted()) == InboxStatus.IGNORED
    assert len(world.inbox()) == before + 1


def test_a_search_for_capacity_that_lasts_for_weeks_fits_into_its_incident() -> None:
    from tpu_recovery.recovery.incidents import MOST_ACTIONS, with_action

    world = running()
    world.capacity.preempt(G1)
    world.event(world.preempted())
    (incident,) = world.incidents()
    first = incident.actions[0]
    for number in range(2 * MOST_ACTIONS):
        incident = with_action(incident, world.clock(), f"create {number}", "")
    assert len(incident.actions) == MOST_ACTIONS
    assert (incident.actions[0], incident.actions[-1].what) == (first, f"create {2 * MOST_ACTIONS - 1}")
