"""What Pub/Sub refuses, and the defaults it fills in."""

from __future__ import annotations

import re
from collections.abc import Sequence

import grpc
from google.pubsub_v1 import types

from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.served import Message, invalid, refuse_unserved, seconds

LARGEST_MESSAGE = 10_000_000
MOST_MESSAGES = 1000
DEFAULT_ACK_DEADLINE = 10
DEFAULT_RETENTION = 7 * 86_400
DEFAULT_EXPIRATION = 31 * 86_400
DEFAULT_DELIVERY_ATTEMPTS = 5
LONGEST_BACKOFF = 600

# Three to 255 characters, the first a letter; "goog" is Google's.
_ID = r"(?!goog)[A-Za-z][A-Za-z0-9._~%+-]{2,254}"
_TOPIC = re.compile(rf"projects/[^/]+/topics/{_ID}")
_SUBSCRIPTION = re.compile(rf"projects/[^/]+/subscriptions/{_ID}")

TOPIC_FIELDS = frozenset({"name", "labels", "message_storage_policy", "message_retention_duration", "state"})
SUBSCRIPTION_FIELDS = frozenset(
    {
        "name", "topic", "push_config", "ack_deadline_seconds", "message_retention_duration", "labels",
        "expiration_policy", "dead_letter_policy", "retry_policy", "state",
    }
)  # fmt: skip
PUSH_FIELDS = frozenset({"push_endpoint", "oidc_token", "pubsub_wrapper"})
MESSAGE_FIELDS = frozenset({"data", "attributes", "message_id", "publish_time"})


def check_topic(topic: Message) -> None:
    """Refuse a topic that Pub/Sub would refuse, or that asks for what is not served here."""
    refuse_unserved(topic, TOPIC_FIELDS)
    _check_name(topic.name, _TOPIC)


def check_subscription(subscription: Message) -> None:
    """Refuse a subscription that Pub/Sub would refuse, or that asks for what is not served here."""
    refuse_unserved(subscription, SUBSCRIPTION_FIELDS)
    _check_name(subscription.name, _SUBSCRIPTION)
    _check_range("ack_deadline_seconds", subscription.ack_deadline_seconds or DEFAULT_ACK_DEADLINE, 10, 600)
    if subscription.HasField("message_retention_duration"):
        retention = seconds(subscription.message_retention_duration)
        _check_range("message_retention_duration", retention, 600, 31 * 86_400)
    if subscription.HasField("push_config"):
        _check_push(subscription.push_config)
    if subscription.HasField("retry_policy"):
        shortest, longest = backoff_range(subscription.retry_policy)
        _check_range("retry_policy.minimum_backoff", shortest, 0, LONGEST_BACKOFF)
        _check_range("retry_policy.maximum_backoff", longest, shortest, LONGEST_BACKOFF)
    if subscription.HasField("dead_letter_policy"):
        attempts = subscription.dead_letter_policy.max_delivery_attempts or DEFAULT_DELIVERY_ATTEMPTS
        _check_range("dead_letter_policy.max_delivery_attempts", attempts, 5, 100)


def with_defaults(subscription: Message) -> Message:
    """A copy of a checked subscription, with everything said that was left open."""
    full = types.Subscription.pb()()
    full.CopyFrom(subscription)
    full.state = types.Subscription.State.ACTIVE
    full.ack_deadline_seconds = full.ack_deadline_seconds or DEFAULT_ACK_DEADLINE
    if not full.HasField("message_retention_duration"):
        full.message_retention_duration.FromSeconds(DEFAULT_RETENTION)
    if not full.HasField("expiration_policy"):
        full.expiration_policy.ttl.FromSeconds(DEFAULT_EXPIRATION)
    if full.HasField("dead_letter_policy"):
        policy = full.dead_letter_policy
        policy.max_delivery_attempts = policy.max_delivery_attempts or DEFAULT_DELIVERY_ATTEMPTS
    if full.HasField("retry_policy"):
        shortest, longest = backoff_range(full.retry_policy)
        full.retry_policy.minimum_backoff.FromMilliseconds(round(shortest * 1000))
        full.retry_policy.maximum_backoff.FromMilliseconds(round(longest * 1000))
    return full


def backoff_range(retry_policy: Message) -> tuple[float, float]:
    """The shortest and longest back-off of a retry policy in seconds; 10 and 600 where it does not say."""
    shortest = seconds(retry_policy.minimum_backoff) if retry_policy.HasField("minimum_backoff") else 10.0
    longest = seconds(retry_policy.maximum_backoff) if retry_policy.HasField("maximum_backoff") else 600.0
    return shortest, longest


def check_messages(messages: Sequence[Message]) -> None:
    """Refuse messages that cannot be published together."""
    if not 1 <= len(messages) <= MOST_MESSAGES:
        raise invalid(f"a publish request has 1 to {MOST_MESSAGES} messages, this one has {len(messages)}")
    for message in messages:
        refuse_unserved(message, MESSAGE_FIELDS)
        if not message.data and not message.attributes:
            raise invalid("a message has data or at least one attribute, this one has neither")
    size = sum(message.ByteSize() for message in messages)
    if size > LARGEST_MESSAGE:
        raise invalid(f"a publish request has at most {LARGEST_MESSAGE} bytes, this one has {size}")


def not_found(name: str) -> Refusal:
    """The refusal of a name that nothing has."""
    return Refusal(grpc.StatusCode.NOT_FOUND, f"Resource not found (resource={name.rsplit('/', 1)[-1]}).")


def already_exists(name: str) -> Refusal:
    """The refusal of a name that is taken."""
    return Refusal(
        grpc.StatusCode.ALREADY_EXISTS,
        f"Resource already exists in the project (resource={name.rsplit('/', 1)[-1]}).",
    )


def _check_push(push: Message) -> None:
    refuse_unserved(push, PUSH_FIELDS)
    if push.push_endpoint and not re.match(r"https?://[^/]", push.push_endpoint):
        raise invalid(f"push_config.push_endpoint is a URL that begins with http(s)://, not {push.push_endpoint!r}")
    if push.HasField("oidc_token") and not push.oidc_token.service_account_email:
        raise invalid("push_config.oidc_token.service_account_email is missing")


def _check_name(name: str, pattern: re.Pattern[str]) -> None:
    if not pattern.fullmatch(name):
        raise invalid(
            f"Invalid resource name given (name={name}): the id has 3 to 255 letters, digits and -._~%+, "
            "begins with a letter and not with goog"
        )


def _check_range(field: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise invalid(f"{field} is between {lowest:g} and {highest:g}, not {value:g}")
