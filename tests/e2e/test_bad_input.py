"""What is wrong comes to a clear message and a record; nothing is lost, nothing is half done, nothing is destroyed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.conftest import Person

from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.records import InboxStatus

pytestmark = pytest.mark.e2e

RUBBISH = (
    b"",
    b"not json at all",
    b'{"logName": "cut sho',
    b"[1, 2, 3]",
    b"\xff\xfe\x00" * 40_000,
    b"x" * 1_000_000,
    json.dumps({"protoPayload": {"methodName": "tpu.nodes.terminate", "resourceName": "nowhere"}}).encode(),
)


def test_a_program_whose_digest_is_wrong_is_tried_twice_and_then_held(person: Person) -> None:
    person.apply(person.file("train", sha256="a" * 64))
    state = person.until("train", lambda job: job.phase is Phase.HELD)
    assert state.hold is not None
    assert "archive-digest" in state.hold.reason
    assert "tpu-recovery resume train" in state.hold.needs
    assert state.spending["setup"].spent == 2
    assert len(person.stack.tpu.node_names()) == 1


def test_a_checkpoint_bucket_that_is_not_there_creates_nothing_and_ends_in_a_hold(person: Person) -> None:
    text = person.file("train").replace("gs://demo-bucket/train/checkpoints", "gs://nobody-has-this/ck")
    person.apply(text + "  checkpoint: 1s\n")
    state = person.until("train", lambda job: job.phase is Phase.HELD)
    assert state.hold is not None
    assert "bucket nobody-has-this does not exist" in state.hold.reason
    assert person.stack.tpu.node_names() == []


def test_a_denied_create_is_held_with_the_message_and_goes_on_when_it_is_cured(person: Person) -> None:
    person.stack.tpu.deny("CreateNode")
    person.apply(person.file("train"))
    state = person.until("train", lambda job: job.phase is Phase.HELD)
    assert state.hold is not None
    assert "PERMISSION_DENIED" in state.hold.reason
    person.resume("train")
    person.until_training("train", 1)


def test_an_accelerator_that_the_zone_does_not_offer_is_held_with_the_message(person: Person) -> None:
    person.apply(person.file("train", accelerator_type="v9-1024"))
    state = person.until("train", lambda job: job.phase is Phase.HELD)
    assert state.hold is not None
    assert "v9-1024" in state.hold.reason


def test_a_state_from_the_future_destroys_nothing_and_ends_in_a_hold(person: Person) -> None:
    person.apply(person.file("train") + "  reading: 2s\n")
    person.until_training("train", 1)
    (node,) = person.stack.tpu.node_names()
    person.stack.tpu.set_state(node, state=99)
    person.stack.sweep()
    person.until("train", lambda job: job.patience)
    state = person.until("train", lambda job: job.phase is Phase.HELD)
    assert state.hold is not None
    assert "99" in state.hold.reason
    assert person.stack.tpu.node_names() == [node]


@pytest.mark.parametrize("topic", ["events", "reports", "commands"])
def test_rubbish_is_kept_with_its_reason_and_not_delivered_for_ever(person: Person, topic: str) -> None:
    for data in RUBBISH:
        person.stack.publish(topic, data, only="attributes")
    assert person.stack.pubsub.wait_idle(30)
    entries = person.inbox()
    assert {entry.status for entry in entries} == {InboxStatus.IGNORED}
    assert len(entries) == len(RUBBISH)
    assert all(entry.reason for entry in entries)


def test_wrong_base64_and_bodies_that_are_no_push_are_kept_too(person: Person) -> None:
    for body in (b'{"message": {"data": "%%%"}}', b'{"message": 7}', b"<html>", b""):
        assert person.stack.function.post("/event", body)
    assert len(person.inbox()) == 4


def test_a_report_with_a_wrong_token_is_ignored_and_its_token_is_in_no_log(person: Person, tmp_path: Path) -> None:
    person.apply(person.file("train"))
    state = person.until_training("train", 1)
    forged = {
        "version": 1, "job": "train", "uid": state.uid, "generation": 1, "launch": 1, "worker": 0, "boot": "b",
        "sequence": 10**6, "kind": "finished", "at": "2099-01-01T00:00:00Z", "token": "guessed-secret",
    }  # fmt: skip
    person.stack.publish("reports", json.dumps(forged).encode())
    assert person.stack.pubsub.wait_idle(20)
    assert "its token is not the one of this generation" in {entry.reason for entry in person.inbox()}
    assert person.state("train").phase is Phase.RUNNING  # type: ignore[union-attr]
    assert "guessed-secret" not in person.stack.function.log.read_text()
    assert state.token not in person.stack.function.log.read_text()
    consoles = [file.read_text() for file in tmp_path.glob("vms/*/console.log")]
    assert consoles
    assert all(state.token not in console for console in consoles)
