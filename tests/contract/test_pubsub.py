"""What the service relies on of Pub/Sub, through the real client."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from google.api_core.exceptions import AlreadyExists, InvalidArgument, NotFound, Unknown
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from tests.local.receiver import Receiver, receiving

from tpu_recovery.local.pubsub import PubSubServer

pytestmark = pytest.mark.contract

PROJECT = "projects/demo"
EVENTS = f"{PROJECT}/topics/events"
DEAD = f"{PROJECT}/topics/dead-letters"
PULLED = f"{PROJECT}/subscriptions/pulled"
PUSHED = f"{PROJECT}/subscriptions/pushed"


@dataclass(frozen=True)
class Clients:
    publisher: PublisherClient
    subscriber: SubscriberClient

    def publish(self, data: bytes, topic: str = EVENTS, **attributes: str) -> str:
        return str(self.publisher.publish(topic, data, **attributes).result(timeout=20))

    def pull(self, subscription: str = PULLED, most: int = 100) -> list[Any]:
        """The next messages; an empty list only after several tries."""
        for _ in range(10):
            answer = self.subscriber.pull(subscription=subscription, max_messages=most)
            if answer.received_messages:
                return list(answer.received_messages)
        return []

    def subscribe(self, name: str, **settings: Any) -> Any:
        return self.subscriber.create_subscription(request={"name": name, "topic": EVENTS, **settings})


@pytest.fixture(params=["embedded"])
def server_address() -> Iterator[str]:
    server = PubSubServer()
    server.start()
    yield f"127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture
def clients(server_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server_address)
    clients = Clients(PublisherClient(), SubscriberClient())
    clients.publisher.create_topic(name=EVENTS)
    yield clients
    clients.publisher.stop()
    clients.publisher.transport.close()
    clients.subscriber.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


class TestTopics:
    def test_a_created_topic_is_found_and_listed(self, clients: Clients) -> None:
        clients.publisher.create_topic(name=f"{PROJECT}/topics/reports")
        assert clients.publisher.get_topic(topic=EVENTS).name == EVENTS
        listed = clients.publisher.list_topics(project=PROJECT)
        assert {topic.name for topic in listed} == {EVENTS, f"{PROJECT}/topics/reports"}

    def test_a_name_is_given_once(self, clients: Clients) -> None:
        with pytest.raises(AlreadyExists):
            clients.publisher.create_topic(name=EVENTS)

    @pytest.mark.parametrize("topic_id", ["ab", "1st-topic", "goog-topic", "a b c"])
    def test_a_bad_id_is_refused(self, clients: Clients, topic_id: str) -> None:
        with pytest.raises(InvalidArgument):
            clients.publisher.create_topic(name=f"{PROJECT}/topics/{topic_id}")

    def test_a_deleted_topic_takes_no_messages(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        clients.publisher.delete_topic(topic=EVENTS)
        with pytest.raises(NotFound):
            clients.publish(b"lost")
        assert clients.subscriber.get_subscription(subscription=PULLED).topic == "_deleted-topic_"


class TestSubscriptions:
    def test_what_was_left_open_gets_the_defaults(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        subscription = clients.subscriber.get_subscription(subscription=PULLED)
        assert subscription.ack_deadline_seconds == 10
        assert subscription.message_retention_duration.total_seconds() == 7 * 86_400

    def test_subscriptions_are_listed(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        assert [found.name for found in clients.subscriber.list_subscriptions(project=PROJECT)] == [PULLED]

    @pytest.mark.parametrize(
        "settings",
        [
            {"ack_deadline_seconds": 9},
            {"ack_deadline_seconds": 601},
            {"retry_policy": {"minimum_backoff": {"seconds": 1}, "maximum_backoff": {"seconds": 601}}},
            {"dead_letter_policy": {"dead_letter_topic": EVENTS, "max_delivery_attempts": 4}},
            {"dead_letter_policy": {"dead_letter_topic": EVENTS, "max_delivery_attempts": 101}},
        ],
    )
    def test_settings_out_of_range_are_refused(self, clients: Clients, settings: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument):
            clients.subscribe(PULLED, **settings)

    def test_a_dead_letter_topic_must_exist(self, clients: Clients) -> None:
        with pytest.raises((NotFound, InvalidArgument)):
            clients.subscribe(PULLED, dead_letter_policy={"dead_letter_topic": DEAD, "max_delivery_attempts": 5})

    def test_a_topic_must_exist(self, clients: Clients) -> None:
        with pytest.raises(NotFound):
            clients.subscriber.create_subscription(name=PULLED, topic=DEAD)

    def test_a_name_is_given_once(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        with pytest.raises(AlreadyExists):
            clients.subscribe(PULLED)

    def test_a_deleted_subscription_is_gone(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        clients.subscriber.delete_subscription(subscription=PULLED)
        with pytest.raises(NotFound):
            clients.subscriber.get_subscription(subscription=PULLED)


class TestPull:
    def test_a_message_comes_with_its_data_and_attributes(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        message_id = clients.publish(b"hello", job="train")
        [received] = clients.pull()
        assert received.message.data == b"hello"
        assert dict(received.message.attributes) == {"job": "train"}
        assert received.message.message_id == message_id
        assert received.delivery_attempt == 0

    def test_a_message_with_attributes_only_is_fine(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        clients.publish(b"", job="train")
        [received] = clients.pull()
        assert received.message.data == b""

    def test_an_acknowledged_message_does_not_come_again(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        clients.publish(b"once")
        [received] = clients.pull()
        clients.subscriber.acknowledge(subscription=PULLED, ack_ids=[received.ack_id])
        clients.publish(b"next")
        assert [received.message.data for received in clients.pull()] == [b"next"]

    def test_a_message_that_is_given_back_comes_again(self, clients: Clients) -> None:
        clients.subscribe(PULLED)
        clients.publish(b"again")
        [received] = clients.pull()
        clients.subscriber.modify_ack_deadline(subscription=PULLED, ack_ids=[received.ack_id], ack_deadline_seconds=0)
        [again] = clients.pull()
        assert again.message.message_id == received.message.message_id

    def test_every_subscription_gets_every_message(self, clients: Clients) -> None:
        other = f"{PROJECT}/subscriptions/other"
        clients.subscribe(PULLED)
        clients.subscribe(other)
        clients.publish(b"both")
        assert [received.message.data for received in clients.pull(PULLED)] == [b"both"]
        assert [received.message.data for received in clients.pull(other)] == [b"both"]

    def test_what_was_published_before_the_subscription_is_not_delivered(self, clients: Clients) -> None:
        clients.publish(b"early")
        clients.subscribe(PULLED)
        clients.publish(b"late")
        assert [received.message.data for received in clients.pull()] == [b"late"]


class TestPush:
    def test_the_body_is_the_wrapped_message(self, clients: Clients, receiver: Receiver) -> None:
        clients.subscribe(PUSHED, push_config={"push_endpoint": f"{receiver.url}/event"})
        message_id = clients.publish(b"hello", job="train")
        [request] = receiver.wait_for(1)
        message = request.json["message"]
        assert request.url == "/event"
        assert request.json["subscription"] == PUSHED
        assert base64.b64decode(message["data"]) == b"hello"
        assert message["attributes"] == {"job": "train"}
        assert message["messageId"] == message["message_id"] == message_id
        assert message["publishTime"] == message["publish_time"]

    def test_a_minimal_message_has_no_attributes(self, clients: Clients, receiver: Receiver) -> None:
        clients.subscribe(PUSHED, push_config={"push_endpoint": receiver.url})
        clients.publish(b"hello")
        [request] = receiver.wait_for(1)
        assert "attributes" not in request.json["message"]
        assert "deliveryAttempt" not in request.json

    def test_a_message_that_is_not_acknowledged_comes_again(self, clients: Clients, receiver: Receiver) -> None:
        clients.subscribe(PUSHED, push_config={"push_endpoint": receiver.url})
        receiver.answer = lambda _request: 500 if len(receiver.requests) < 3 else 204
        message_id = clients.publish(b"hello")
        ids = [request.json["message"]["messageId"] for request in receiver.wait_for(3)]
        assert ids == [message_id] * 3

    def test_a_message_that_nobody_takes_becomes_a_dead_letter(self, clients: Clients, receiver: Receiver) -> None:
        clients.publisher.create_topic(name=DEAD)
        clients.subscriber.create_subscription(name=PULLED, topic=DEAD)
        clients.subscribe(
            PUSHED,
            push_config={"push_endpoint": receiver.url},
            dead_letter_policy={"dead_letter_topic": DEAD, "max_delivery_attempts": 5},
        )
        receiver.answer = lambda _request: 500
        clients.publish(b"poison", job="train")
        [letter] = clients.pull()
        assert letter.message.data == b"poison"
        assert letter.message.attributes["job"] == "train"
        assert letter.message.attributes["CloudPubSubDeadLetterSourceSubscription"] == "pushed"
        assert int(letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"]) >= 5

    def test_a_pushed_subscription_cannot_be_pulled(self, clients: Clients, receiver: Receiver) -> None:
        clients.subscribe(PUSHED, push_config={"push_endpoint": receiver.url})
        with pytest.raises(Exception) as refused:  # noqa: PT011  the code differs between servers
            clients.subscriber.pull(subscription=PUSHED, max_messages=1)
        assert not isinstance(refused.value, Unknown)
