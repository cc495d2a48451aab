from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.pubsub_v1 import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.commands import send
from tpu_recovery.cloud.notify import TopicNotifier
from tpu_recovery.errors import Unreadable
from tpu_recovery.events.reports import parse_command
from tpu_recovery.local.pubsub import PubSubServer
from tpu_recovery.model.decision import Notify
from tpu_recovery.model.messages import Command, CommandKind

TOPIC = "projects/demo/topics/notifications"
SUBSCRIPTION = "projects/demo/subscriptions/people"


class Inbox:
    """What a person who subscribed to the topic gets."""

    def __init__(self, port: int) -> None:
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._client = SubscriberClient(
            transport=SubscriberGrpcTransport(channel=channel, credentials=AnonymousCredentials())
        )
        clients.publisher_client().create_topic(name=TOPIC)
        self._client.create_subscription(name=SUBSCRIPTION, topic=TOPIC)

    def messages(self) -> list[Any]:
        pulled = self._client.pull(subscription=SUBSCRIPTION, max_messages=10)
        return [one.message for one in pulled.received_messages]


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    server = PubSubServer()
    server.start()
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{server.port}")
    yield Inbox(server.port)
    server.stop()


def test_a_notice_is_published_with_what_filters_need(inbox: Inbox) -> None:
    TopicNotifier(clients.publisher_client, TOPIC).tell("train", Notify(severity="error", text="held: no quota — ask"))
    (message,) = inbox.messages()
    assert json.loads(message.data) == {"job": "train", "severity": "error", "text": "held: no quota — ask"}
    assert dict(message.attributes) == {"job": "train", "severity": "error"}


def test_a_topic_that_is_not_there_is_unreadable(inbox: Inbox) -> None:
    notifier = TopicNotifier(clients.publisher_client, f"{TOPIC}-of-somebody-else")
    with pytest.raises(Unreadable, match=r"notifications-of-somebody-else does not take the message: 404"):
        notifier.tell("train", Notify(severity="info", text="hello"))


def test_a_command_is_published_for_its_job(inbox: Inbox) -> None:
    command = Command(id="c", job="train", kind=CommandKind.RESUME, at=datetime(2026, 12, 1, tzinfo=UTC), by="ann")
    send(clients.publisher_client(), TOPIC, command)
    (message,) = inbox.messages()
    assert parse_command(message.data) == command
    assert dict(message.attributes) == {"job": "train"}


def test_no_client_is_made_before_there_is_a_notice() -> None:
    def none() -> Any:
        raise AssertionError("a client was made")

    TopicNotifier(none, TOPIC)
