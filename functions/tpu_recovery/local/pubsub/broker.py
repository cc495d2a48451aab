"""The topics and subscriptions: who gets what is published."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence

from google.protobuf import empty_pb2
from google.pubsub_v1 import types

from tpu_recovery.local.deliver import Post
from tpu_recovery.local.pubsub import rules
from tpu_recovery.local.pubsub.subscription import Subscription
from tpu_recovery.local.schedule import Clock, Schedule
from tpu_recovery.local.served import Message, page

DELETED_TOPIC = "_deleted-topic_"


class Broker:
    """The calls of the Publisher and Subscriber services over an in-memory state; bare messages in and out."""

    def __init__(self, *, clock: Clock, schedule: Schedule, post: Post) -> None:
        self._clock = clock
        self._schedule = schedule
        self._post = post
        self._lock = threading.Lock()
        self._topics: dict[str, Message] = {}
        self._subscriptions: dict[str, Subscription] = {}
        # Begins at the real time, so that ids do not come again after a restart, as they do with Google's emulator.
        self._message_ids = itertools.count(time.time_ns() // 1000)

    def publisher_calls(self) -> dict[str, Callable[[Message], Message]]:
        """What is served of google.pubsub.v1.Publisher."""
        return {
            "CreateTopic": self._create_topic,
            "GetTopic": lambda request: self._topic(request.topic),
            "ListTopics": self._list_topics,
            "DeleteTopic": self._delete_topic,
            "Publish": self._publish,
        }

    def subscriber_calls(self) -> dict[str, Callable[[Message], Message]]:
        """What is served of google.pubsub.v1.Subscriber."""
        return {
            "CreateSubscription": self._create_subscription,
            "GetSubscription": lambda request: self.subscription(request.subscription).settings,
            "ListSubscriptions": self._list_subscriptions,
            "DeleteSubscription": self._delete_subscription,
            "Pull": self._pull,
            "Acknowledge": self._acknowledge,
            "ModifyAckDeadline": self._modify_ack_deadline,
        }

    def publish(self, topic: str, messages: Sequence[Message]) -> list[str]:
        """Give messages an id and a time and offer them to every subscription of the topic; the ids."""
        rules.check_messages(messages)
        with self._lock:
            self._topic(topic)
            receivers = [each for each in self._subscriptions.values() if each.settings.topic == topic]
        published = int(self._clock() * 1000)  # the real one gives milliseconds
        for message in messages:
            message.message_id = str(next(self._message_ids))
            message.publish_time.FromMilliseconds(published)
            for receiver in receivers:
                receiver.offer(message)
        return [message.message_id for message in messages]

    def subscription(self, name: str) -> Subscription:
        """The subscription of that full name; refused as NOT_FOUND when there is none."""
        subscription = self._subscriptions.get(name)
        if subscription is None:
            raise rules.not_found(name)
        return subscription

    def _topic(self, name: str) -> Message:
        if name not in self._topics:
            raise rules.not_found(name)
        return self._topics[name]

    def _create_topic(self, topic: Message) -> Message:
        rules.check_topic(topic)
        with self._lock:
            if topic.name in self._topics:
                raise rules.already_exists(topic.name)
            topic.state = types.Topic.State.ACTIVE
            self._topics[topic.name] = topic
        return topic

    def _list_topics(self, request: Message) -> Message:
        with self._lock:
            found = [topic for name, topic in sorted(self._topics.items()) if name.startswith(f"{request.project}/")]
        topics, token = page(found, request.page_size, request.page_token)
        return types.ListTopicsResponse.pb()(topics=topics, next_page_token=token)

    def _delete_topic(self, request: Message) -> Message:
        with self._lock:
            self._topic(request.topic)
            del self._topics[request.topic]
            for subscription in self._subscriptions.values():
                if subscription.settings.topic == request.topic:
                    subscription.settings.topic = DELETED_TOPIC
        return empty_pb2.Empty()

    def _publish(self, request: Message) -> Message:
        return types.PublishResponse.pb()(message_ids=self.publish(request.topic, request.messages))

    def _forward(self, topic: str, message: Message) -> bool:
        if topic not in self._topics:
            return False
        self.publish(topic, [message])
        return True

    def _create_subscription(self, request: Message) -> Message:
        rules.check_subscription(request)
        with self._lock:
            if request.name in self._subscriptions:
                raise rules.already_exists(request.name)
            self._topic(request.topic)
            if request.HasField("dead_letter_policy"):
                self._topic(request.dead_letter_policy.dead_letter_topic)
            subscription = Subscription(
                rules.with_defaults(request),
                clock=self._clock,
                schedule=self._schedule,
                post=self._post,
                forward=self._forward,
            )
            self._subscriptions[request.name] = subscription
        return subscription.settings

    def _list_subscriptions(self, request: Message) -> Message:
        with self._lock:
            found = [
                subscription.settings
                for name, subscription in sorted(self._subscriptions.items())
                if name.startswith(f"{request.project}/")
            ]
        subscriptions, token = page(found, request.page_size, request.page_token)
        return types.ListSubscriptionsResponse.pb()(subscriptions=subscriptions, next_page_token=token)

    def _delete_subscription(self, request: Message) -> Message:
        with self._lock:
            self.subscription(request.subscription).close()
            del self._subscriptions[request.subscription]
        return empty_pb2.Empty()

    def _pull(self, request: Message) -> Message:
        subscription = self.subscription(request.subscription)
        received = subscription.pull(request.max_messages, wait=not request.return_immediately)
        return types.PullResponse.pb()(received_messages=received)

    def _acknowledge(self, request: Message) -> Message:
        self.subscription(request.subscription).acknowledge(request.ack_ids)
        return empty_pb2.Empty()

    def _modify_ack_deadline(self, request: Message) -> Message:
        subscription = self.subscription(request.subscription)
        subscription.modify_ack_deadline(request.ack_ids, request.ack_deadline_seconds)
        return empty_pb2.Empty()
