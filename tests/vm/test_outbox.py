from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tpu_recovery.vm.google_api import GoogleApi
from tpu_recovery.vm.metadata import MetadataServer, MetadataSilent
from tpu_recovery.vm.outbox import Outbox


class Sent:
    """Both ways out of the VM; keeps what went out, in order, and fails as often as told."""

    def __init__(self, write_fails: int = 0, publish_fails: int = 0) -> None:
        self.order: list[tuple[str, Any]] = []
        self.slept: list[float] = []
        sent = self

        class Metadata(MetadataServer):
            def put_guest_attribute(self, namespace: str, key: str, value: str) -> None:
                nonlocal write_fails
                write_fails -= 1
                if write_fails >= 0:
                    raise MetadataSilent("silent")
                sent.order.append((f"{namespace}/{key}", json.loads(value)["sequence"]))

        class Google(GoogleApi):
            def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
                nonlocal publish_fails
                publish_fails -= 1
                if publish_fails >= 0:
                    raise OSError("503")
                sent.order.append((topic, json.loads(data)["sequence"]))

        google = Google(lambda: "token", "http://127.0.0.1:1", "http://127.0.0.1:1")
        self.outbox = Outbox(Metadata("127.0.0.1:1"), google, self.slept.append)

    def send(self, sequence: int, topic: str | None = "topic", kind: str = "started") -> None:
        self.outbox.send({"job": "train", "kind": kind, "sequence": sequence}, topic)


def test_the_guest_attribute_comes_before_the_message() -> None:
    sent = Sent()
    sent.send(1)
    sent.outbox.flush(5)
    assert sent.order == [("tpu-recovery/report", 1), ("topic", 1)]


def test_alive_has_a_guest_attribute_of_its_own_and_no_message() -> None:
    sent = Sent()
    sent.send(1, topic=None, kind="alive")
    sent.send(2, topic=None, kind="booted")
    sent.outbox.flush(5)
    assert sent.order == [("tpu-recovery/alive", 1), ("tpu-recovery/report", 2)]


def test_a_guest_attribute_that_fails_does_not_hold_up_the_hint_and_is_written_with_the_next() -> None:
    sent = Sent(write_fails=1)
    sent.send(1)
    sent.outbox.flush(5)
    assert sent.order == [("topic", 1)]
    sent.send(2, topic=None, kind="alive")
    sent.outbox.flush(5)
    assert sent.order[1:] == [("tpu-recovery/report", 1), ("tpu-recovery/alive", 2)]


def test_a_message_is_tried_again_with_growing_waits_and_then_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    sent = Sent(publish_fails=6)
    sent.send(1)
    sent.send(2)
    sent.outbox.flush(5)
    assert sent.slept == [1, 2, 4, 8, 16]
    assert [entry for entry in sent.order if entry[0] == "topic"] == [("topic", 2)]
    assert "report dropped" in capsys.readouterr().out
