from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.pubsub_v1 import types
from tests.local.receiver import Handler, ManualClock, Receiver, receiving

from tpu_recovery.local.deliver import claims_of
from tpu_recovery.local.pubsub import PubSubServer
from tpu_recovery.local.pubsub.broker import Broker
from tpu_recovery.local.pubsub.subscription import backoff
from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.schedule import Schedule
from tpu_recovery.local.served import Message, bare

EVENTS = "projects/demo/topics/events"
DEAD = "projects/demo/topics/dead-letters"
PUSHED = "projects/demo/subscriptions/pushed"
PULLED = "projects/demo/subscriptions/pulled"
URL = "https://recover.example/event"
PUSH: dict[str, Any] = {"push_config": {"push_endpoint": URL}}
DEAD_LETTERS: dict[str, Any] = {"dead_letter_policy": {"dead_letter_topic": DEAD, "max_delivery_attempts": 5}}


def retry_policy(shortest: int, longest: int) -> dict[str, Any]:
    return {"retry_policy": {"minimum_backoff": {"seconds": shortest}, "maximum_backoff": {"seconds": longest}}}


@dataclass
class Bench:
    """A broker with a clock that stands still and a handler without a network."""

    clock: ManualClock = field(default_factory=ManualClock)
    handler: Handler = field(default_factory=Handler)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.clock, name="test")
        self.broker = Broker(clock=self.clock, schedule=self.schedule, post=self.handler)
        self.calls = self.broker.publisher_calls() | self.broker.subscriber_calls()
        self.schedule.start()
        for topic in (EVENTS, DEAD):
            self.call("CreateTopic", types.Topic(name=topic))

    def call(self, name: str, request: Any) -> Message:
        return self.calls[name](bare(request))

    def subscribe(self, name: str, topic: str = EVENTS, **settings: Any) -> None:
        self.call("CreateSubscription", types.Subscription({"name": name, "topic": topic, **settings}))

    def publish(self, data: bytes, **attributes: str) -> None:
        self.call("Publish", types.PublishRequest(topic=EVENTS, messages=[{"data": data, "attributes": attributes}]))

    def pull(self, subscription: str = PULLED) -> list[Message]:
        request = types.PullRequest(subscription=subscription, max_messages=100, return_immediately=True)
        return list(self.call("Pull", request).received_messages)

    def pushes(self) -> int:
        """How often the handler has been called, once nothing more is due."""
        assert self.schedule.wait_idle(10)
        return len(self.handler.requests)

    def pushes_after(self, seconds: float) -> int:
        self.clock.move(seconds)
        return self.pushes()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.schedule.stop()


class TestBackoff:
    @pytest.mark.parametrize(
        ("shortest", "longest", "expected"),
        [
            (10, 600, [10, 20, 40, 80, 160, 320, 600, 600]),
            (1, 5, [1, 2, 4, 5, 5]),
            (0, 600, [0.1, 0.1, 0.1]),
            (600, 600, [600, 600]),
        ],
    )
    def test_it_doubles_up_to_the_longest(self, shortest: int, longest: int, expected: list[float]) -> None:
        policy = bare(types.Subscription(retry_policy(shortest, longest)).retry_policy)
        assert [backoff(policy, attempts) for attempts in range(1, len(expected) + 1)] == expected

    def test_an_empty_policy_means_10_to_600_seconds(self) -> None:
        policy = bare(types.RetryPolicy())
        assert [backoff(policy, 1), backoff(policy, 1000)] == [10, 600]

    def test_no_policy_means_at_once(self) -> None:
        assert [backoff(None, 1), backoff(None, 1000)] == [0.1, 0.1]


class TestPush:
    @pytest.mark.parametrize(
        ("answer", "pushes"),
        [(102, 1), (200, 1), (201, 1), (202, 1), (204, 1), (203, 2), (302, 2), (400, 2), (404, 2), (500, 2), (None, 2)],
    )
    def test_only_a_success_code_acknowledges(self, bench: Bench, answer: int | None, pushes: int) -> None:
        bench.handler.answer = lambda _request: answer
        bench.subscribe(PUSHED, **PUSH)
        bench.publish(b"event")
        assert bench.pushes() == 1
        assert bench.pushes_after(0.1) == pushes

    def test_redelivery_follows_the_retry_policy(self, bench: Bench) -> None:
        bench.handler.answer = lambda _request: 500
        bench.subscribe(PUSHED, **PUSH, **retry_policy(10, 600))
        bench.publish(b"event")
        assert [bench.pushes()] + [bench.pushes_after(seconds) for seconds in (9, 1, 19, 1, 40)] == [1, 1, 2, 2, 3, 4]

    def test_the_handler_has_as_long_as_the_ack_deadline(self, bench: Bench) -> None:
        bench.subscribe(PUSHED, **PUSH, ack_deadline_seconds=90)
        bench.publish(b"event")
        assert bench.pushes() == 1
        assert bench.handler.requests[0].timeout == 90

    def test_a_message_with_attributes_only_has_empty_data(self, bench: Bench) -> None:
        bench.subscribe(PUSHED, **PUSH)
        bench.publish(b"", job="train")
        assert bench.pushes() == 1
        assert bench.handler.requests[0].json["message"]["data"] == ""

    def test_the_whole_body_is_as_published(self, bench: Bench) -> None:
        bench.subscribe(PUSHED, **PUSH)
        bench.publish(b"event")
        assert bench.pushes() == 1
        [request] = bench.handler.requests
        message_id = request.json["message"]["messageId"]
        published = request.json["message"]["publishTime"]
        assert published == "2026-12-01T00:00:00Z"
        assert request.json == {
            "message": {
                "data": base64.b64encode(b"event").decode(),
                "messageId": message_id,
                "message_id": message_id,
                "publishTime": published,
                "publish_time": published,
            },
            "subscription": PUSHED,
        }

    @pytest.mark.parametrize(("audience", "expected"), [("", URL), ("https://recover.example", None)])
    def test_it_carries_the_configured_identity(self, bench: Bench, audience: str, expected: str | None) -> None:
        token = {"service_account_email": "push@demo.iam.gserviceaccount.com", "audience": audience}
        bench.subscribe(PUSHED, push_config={"push_endpoint": URL, "oidc_token": token})
        bench.publish(b"event")
        assert bench.pushes() == 1
        claims = claims_of(bench.handler.requests[0].headers["authorization"])
        assert claims["email"] == "push@demo.iam.gserviceaccount.com"
        assert claims["aud"] == (expected or audience)

    def test_it_carries_no_identity_when_none_is_configured(self, bench: Bench) -> None:
        bench.subscribe(PUSHED, **PUSH)
        bench.publish(b"event")
        assert bench.pushes() == 1
        assert "authorization" not in bench.handler.requests[0].headers

    def test_a_deleted_subscription_pushes_no_more(self, bench: Bench) -> None:
        bench.handler.answer = lambda _request: 500
        bench.subscribe(PUSHED, **PUSH)
        bench.publish(b"event")
        assert bench.pushes() == 1
        bench.call("DeleteSubscription", types.DeleteSubscriptionRequest(subscription=PUSHED))
        assert bench.pushes_after(10) == 1

    def test_a_message_is_given_up_when_its_retention_ends(self, bench: Bench) -> None:
        bench.handler.answer = lambda _request: 500
        bench.subscribe(PUSHED, **PUSH, **retry_policy(600, 600), message_retention_duration={"seconds": 600})
        bench.publish(b"event")
        assert [bench.pushes(), bench.pushes_after(600), bench.pushes_after(600)] == [1, 2, 2]

    def test_a_duplicated_message_comes_more_than_once(self, bench: Bench) -> None:
        bench.subscribe(PUSHED, **PUSH)
        bench.broker.subscription(PUSHED).extra_copies = 2
        bench.publish(b"event")
        assert bench.pushes() == 3
        assert len({request.json["message"]["messageId"] for request in bench.handler.requests}) == 1


class TestDeadLetters:
    def test_a_message_is_given_up_after_the_last_attempt(self, bench: Bench) -> None:
        bench.handler.answer = lambda _request: 500
        bench.subscribe(PULLED, topic=DEAD)
        bench.subscribe(PUSHED, **PUSH, **DEAD_LETTERS)
        bench.publish(b"poison", job="train")
        for _ in range(10):
            bench.pushes_after(0.1)
        assert [request.json["deliveryAttempt"] for request in bench.handler.requests] == [1, 2, 3, 4, 5]
        [letter] = bench.pull()
        assert letter.message.data == b"poison"
        assert dict(letter.message.attributes) == {
            "job": "train",
            "CloudPubSubDeadLetterSourceDeliveryCount": "5",
            "CloudPubSubDeadLetterSourceSubscription": "pushed",
            "CloudPubSubDeadLetterSourceSubscriptionProject": "demo",
            "CloudPubSubDeadLetterSourceTopicPublishTime": "2026-12-01T00:00:00Z",
        }

    def test_a_deleted_dead_letter_topic_loses_nothing(self, bench: Bench) -> None:
        bench.handler.answer = lambda _request: 500
        bench.subscribe(PUSHED, **PUSH, **DEAD_LETTERS)
        bench.call("DeleteTopic", types.DeleteTopicRequest(topic=DEAD))
        bench.publish(b"poison")
        assert [bench.pushes_after(0.1) for _ in range(8)][-1] > 5

    def test_pulled_messages_count_their_attempts(self, bench: Bench) -> None:
        bench.subscribe(PULLED, **DEAD_LETTERS)
        bench.publish(b"event")
        attempts = []
        for _ in range(7):
            attempts += [received.delivery_attempt for received in bench.pull()]
            bench.pushes_after(10)  # the lease ends
            bench.pushes_after(0.1)  # the message is back
        assert attempts == [1, 2, 3, 4, 5]


class TestLeases:
    def test_a_message_comes_again_when_its_lease_ends(self, bench: Bench) -> None:
        bench.subscribe(PULLED, ack_deadline_seconds=30)
        bench.publish(b"event")
        assert len(bench.pull()) == 1
        bench.pushes_after(29)
        assert bench.pull() == []
        bench.pushes_after(1)
        bench.pushes_after(0.1)
        assert len(bench.pull()) == 1

    def test_a_lease_can_be_made_longer(self, bench: Bench) -> None:
        bench.subscribe(PULLED)
        bench.publish(b"event")
        [received] = bench.pull()
        longer = types.ModifyAckDeadlineRequest(
            subscription=PULLED, ack_ids=[received.ack_id], ack_deadline_seconds=600
        )
        bench.call("ModifyAckDeadline", longer)
        bench.pushes_after(599)
        assert bench.pull() == []
        bench.call("Acknowledge", types.AcknowledgeRequest(subscription=PULLED, ack_ids=[received.ack_id]))
        bench.pushes_after(600)
        assert bench.pull() == []


class TestRefusals:
    @pytest.mark.parametrize(
        "settings",
        [
            {"filter": 'attributes.job = "train"'},
            {"enable_message_ordering": True},
            {"enable_exactly_once_delivery": True},
            {"retain_acked_messages": True},
            {"bigquery_config": {"table": "p.d.t"}},
            {"push_config": {"push_endpoint": URL, "no_wrapper": {"write_metadata": True}}},
        ],
    )
    def test_what_is_not_served_is_refused_loudly(self, bench: Bench, settings: dict[str, Any]) -> None:
        with pytest.raises(Refusal, match="does not serve") as refused:
            bench.subscribe(PUSHED, **settings)
        assert refused.value.code is grpc.StatusCode.UNIMPLEMENTED

    def test_ordering_keys_are_refused_loudly(self, bench: Bench) -> None:
        with pytest.raises(Refusal, match="ordering_key"):
            bench.call("Publish", types.PublishRequest(topic=EVENTS, messages=[{"data": b"x", "ordering_key": "k"}]))

    @pytest.mark.parametrize(
        ("messages", "because"),
        [
            ([], "1 to 1000 messages"),
            ([{"data": b""}], "neither"),
            ([{"data": b"x" * 10_000_001}], "at most 10000000 bytes"),
            ([{"data": b"x"}] * 1001, "1 to 1000 messages"),
        ],
    )
    def test_bad_messages_are_refused(self, bench: Bench, messages: list[dict[str, Any]], because: str) -> None:
        with pytest.raises(Refusal, match=because):
            bench.call("Publish", types.PublishRequest(topic=EVENTS, messages=messages))

    @pytest.mark.parametrize(
        ("settings", "field"),
        [
            ({"push_config": {"push_endpoint": "recover.example"}}, "push_endpoint"),
            ({"push_config": {"push_endpoint": URL, "oidc_token": {"audience": URL}}}, "service_account_email"),
            (retry_policy(20, 10), "maximum_backoff"),
            ({"message_retention_duration": {"seconds": 599}}, "message_retention_duration"),
        ],
    )
    def test_bad_settings_are_refused_by_name(self, bench: Bench, settings: dict[str, Any], field: str) -> None:
        with pytest.raises(Refusal, match=field) as refused:
            bench.subscribe(PUSHED, **settings)
        assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def server() -> Iterator[PubSubServer]:
    server = PubSubServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def receiver(server: PubSubServer) -> Iterator[Receiver]:
    """Gets what is published to the topic."""
    with receiving() as receiver, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call(channel, "Publisher/CreateTopic", types.Topic(name=EVENTS))
        push = {"push_endpoint": receiver.url}
        call(channel, "Subscriber/CreateSubscription", types.Subscription(name=PUSHED, topic=EVENTS, push_config=push))
        yield receiver


def call(channel: grpc.Channel, method: str, request: Any) -> bytes:
    send = channel.unary_unary(f"/google.pubsub.v1.{method}")
    answer: bytes = send(bare(request).SerializeToString(), timeout=10)
    return answer


def rest(server: PubSubServer, path: str, body: bytes, token: str = "Bearer ya29") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
    request = urllib.request.Request(f"http://127.0.0.1:{server.rest_port}/v1/{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


class TestRest:
    def test_a_published_message_is_delivered(self, server: PubSubServer, receiver: Receiver) -> None:
        message = {"data": base64.b64encode(b"report").decode(), "attributes": {"job": "train"}}
        status, answer = rest(server, f"{EVENTS}:publish", json.dumps({"messages": [message]}).encode())
        [request] = receiver.wait_for(1)
        assert status == 200
        assert answer == {"messageIds": [request.json["message"]["messageId"]]}
        assert request.json["message"]["data"] == message["data"]
        assert request.json["message"]["attributes"] == {"job": "train"}

    @pytest.mark.parametrize(
        ("path", "body", "error"),
        [
            (f"{EVENTS}:publish", b"{", (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b"[]", (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b"{}", (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": {}}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": ["x"]}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": [{}]}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": [{"data": "not base64!"}]}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": [{"data": 7}]}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": [{"body": "eA=="}]}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": [{"attributes": {"step": 7}}]}', (400, "INVALID_ARGUMENT")),
            (f"{EVENTS}:publish", b'{"messages": [{"attributes": []}]}', (400, "INVALID_ARGUMENT")),
            (f"{DEAD}:publish", b'{"messages": [{"data": "eA=="}]}', (404, "NOT_FOUND")),
            (f"{PUSHED}:pull", b"{}", (501, "UNIMPLEMENTED")),
            (f"{EVENTS}:publish", b'{"messages": [{"data": "eA==", "orderingKey": "k"}]}', (501, "UNIMPLEMENTED")),
        ],
    )
    def test_a_bad_request_is_refused_in_the_shape_of_google_errors(
        self, server: PubSubServer, receiver: Receiver, path: str, body: bytes, error: tuple[int, str]
    ) -> None:
        status, answer = rest(server, path, body)
        assert (status, answer["error"]["status"]) == error
        assert answer["error"]["code"] == status
        assert answer["error"]["message"]

    def test_a_request_without_a_token_is_refused(self, server: PubSubServer, receiver: Receiver) -> None:
        status, answer = rest(server, f"{EVENTS}:publish", b'{"messages": [{"data": "eA=="}]}', token="")
        assert (status, answer["error"]["status"]) == (401, "UNAUTHENTICATED")


class TestServer:
    @pytest.mark.parametrize("method", ["Publisher/UpdateTopic", "Subscriber/Seek", "Subscriber/CreateSnapshot"])
    def test_other_calls_are_refused_loudly(self, server: PubSubServer, receiver: Receiver, method: str) -> None:
        with (
            grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
            pytest.raises(grpc.RpcError) as refused,
        ):
            call(channel, method, types.Topic())
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert method.split("/")[1] in refused.value.details()

    def test_streaming_pull_is_refused_loudly(self, server: PubSubServer) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stream = channel.stream_stream("/google.pubsub.v1.Subscriber/StreamingPull")(iter([b""]), timeout=10)
            with pytest.raises(grpc.RpcError, match="StreamingPull") as refused:
                next(stream)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED

    def test_duplicates_can_be_asked_for(self, server: PubSubServer, receiver: Receiver) -> None:
        server.duplicate(PUSHED, 1)
        rest(server, f"{EVENTS}:publish", b'{"messages": [{"data": "eA=="}]}')
        assert server.wait_idle(10)
        assert len(receiver.requests) == 2
