"""One subscription: what it still has to deliver, and the delivery itself, by push or by pull."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import grpc
from google.pubsub_v1 import types

from tpu_recovery.local.deliver import Post
from tpu_recovery.local.pubsub.push import ACKNOWLEDGING, push_body, push_headers
from tpu_recovery.local.pubsub.rules import backoff_range
from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.schedule import Alarm, Clock, Schedule
from tpu_recovery.local.served import Message, invalid, seconds

AT_ONCE = 0.1
"""Seconds until a redelivery where no retry policy asks for more."""

PATIENCE = 1.0
"""Real seconds that a pull waits for the first message."""

Forward = Callable[[str, Message], bool]
"""Publishes a dead letter to a topic; False when there is no such topic."""


@dataclass
class Delivery:
    """A message on its way to one subscription."""

    message: Message
    attempts: int = 0


def backoff(retry_policy: Message | None, attempts: int) -> float:
    """Seconds from a failed delivery to the next one, after so many attempts: doubled each time, up to the longest."""
    if retry_policy is None:
        return AT_ONCE
    shortest, longest = backoff_range(retry_policy)
    doubled = shortest * 2.0 ** min(attempts - 1, 32)
    return max(AT_ONCE, min(longest, doubled))


class Subscription:
    """Delivers every message at least once, until it is acknowledged, dead-lettered or too old.

    ``settings`` is the Subscription message, checked and with its defaults.
    """

    def __init__(self, settings: Message, *, clock: Clock, schedule: Schedule, post: Post, forward: Forward) -> None:
        self.settings = settings
        self.extra_copies = 0
        """How many more times than once every following message is delivered: a fault that tests inject."""
        self._clock = clock
        self._schedule = schedule
        self._post = post
        self._forward = forward
        self._arrived = threading.Condition()
        self._waiting: deque[Delivery] = deque()
        self._leased: dict[str, tuple[Delivery, Alarm]] = {}
        self._closed = False

    @property
    def is_push(self) -> bool:
        """Whether messages are pushed to an endpoint."""
        return bool(self.settings.push_config.push_endpoint)

    def offer(self, message: Message) -> None:
        """Take a published message."""
        for _ in range(1 + self.extra_copies):
            self._deliver(Delivery(message))

    def close(self) -> None:
        """Deliver nothing more: the subscription was deleted."""
        self._closed = True

    def pull(self, most: int, *, wait: bool) -> list[Message]:
        """Lease up to ``most`` messages; waits a moment for the first one if ``wait``."""
        self._refuse_if_pushed()
        if most < 1:
            raise invalid(f"max_messages is at least 1, not {most}")
        with self._arrived:
            if wait:
                self._arrived.wait_for(lambda: self._waiting, PATIENCE)
            count = min(most, len(self._waiting))
            return [self._lease(self._waiting.popleft()) for _ in range(count)]

    def acknowledge(self, ack_ids: Iterable[str]) -> None:
        """Forget leased messages. An id whose lease has ended does nothing: the message comes again."""
        for ack_id in ack_ids:
            self._end_lease(ack_id)

    def modify_ack_deadline(self, ack_ids: Iterable[str], deadline: int) -> None:
        """Let leases end in ``deadline`` seconds; 0 gives the messages back at once."""
        self._refuse_if_pushed()
        if not 0 <= deadline <= 600:
            raise invalid(f"ack_deadline_seconds is between 0 and 600, not {deadline}")
        for ack_id in ack_ids:
            if deadline == 0:
                self._expire(ack_id)
            else:
                self._extend(ack_id, deadline)

    def _deliver(self, delivery: Delivery) -> None:
        if self.is_push:
            self._schedule.soon(partial(self._push, delivery))
            return
        with self._arrived:
            self._waiting.append(delivery)
            self._arrived.notify()

    def _push(self, delivery: Delivery) -> None:
        if self._closed:
            return
        delivery.attempts += 1
        settings = self.settings
        attempt = delivery.attempts if settings.HasField("dead_letter_policy") else None
        status = self._post(
            settings.push_config.push_endpoint,
            body=push_body(delivery.message, settings.name, attempt),
            headers=push_headers(settings.push_config),
            timeout=settings.ack_deadline_seconds,
        )
        if status not in ACKNOWLEDGING:
            self._nack(delivery)

    def _nack(self, delivery: Delivery) -> None:
        now = self._clock()
        published = delivery.message.publish_time.ToNanoseconds() / 1e9
        too_old = now >= published + seconds(self.settings.message_retention_duration)
        if self._closed or too_old or self._dead_lettered(delivery):
            return
        retry_policy = self.settings.retry_policy if self.settings.HasField("retry_policy") else None
        self._schedule.at(now + backoff(retry_policy, delivery.attempts), partial(self._deliver, delivery))

    def _dead_lettered(self, delivery: Delivery) -> bool:
        policy = self.settings.dead_letter_policy
        if not self.settings.HasField("dead_letter_policy") or delivery.attempts < policy.max_delivery_attempts:
            return False
        _, project, _, subscription = self.settings.name.split("/")
        letter = types.PubsubMessage.pb()(data=delivery.message.data, attributes=dict(delivery.message.attributes))
        letter.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = str(delivery.attempts)
        letter.attributes["CloudPubSubDeadLetterSourceSubscription"] = subscription
        letter.attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = project
        letter.attributes["CloudPubSubDeadLetterSourceTopicPublishTime"] = delivery.message.publish_time.ToJsonString()
        return self._forward(policy.dead_letter_topic, letter)

    def _lease(self, delivery: Delivery) -> Message:
        delivery.attempts += 1
        ack_id = uuid.uuid4().hex
        self._leased[ack_id] = (delivery, self._ending(ack_id, self.settings.ack_deadline_seconds))
        counted = self.settings.HasField("dead_letter_policy")
        return types.ReceivedMessage.pb()(
            ack_id=ack_id, message=delivery.message, delivery_attempt=delivery.attempts if counted else 0
        )

    def _ending(self, ack_id: str, lease_seconds: int) -> Alarm:
        return self._schedule.at(self._clock() + lease_seconds, partial(self._expire, ack_id))

    def _extend(self, ack_id: str, lease_seconds: int) -> None:
        with self._arrived:
            if ack_id in self._leased:
                delivery, alarm = self._leased[ack_id]
                self._schedule.cancel(alarm)
                self._leased[ack_id] = (delivery, self._ending(ack_id, lease_seconds))

    def _expire(self, ack_id: str) -> None:
        delivery = self._end_lease(ack_id)
        if delivery:
            self._nack(delivery)

    def _end_lease(self, ack_id: str) -> Delivery | None:
        with self._arrived:
            delivery, alarm = self._leased.pop(ack_id, (None, None))
        if alarm:
            self._schedule.cancel(alarm)
        return delivery

    def _refuse_if_pushed(self) -> None:
        if self.is_push:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION, "This method is not supported for this subscription type."
            )
