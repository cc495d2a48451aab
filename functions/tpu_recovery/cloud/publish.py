"""Publishing one message to Pub/Sub, and knowing within the time of one call whether the topic has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.api_core import exceptions

from tpu_recovery.cloud.clients import AGAIN, CALL_SECONDS
from tpu_recovery.errors import Unreadable

if TYPE_CHECKING:
    import google.cloud.pubsub_v1


def publish(client: google.cloud.pubsub_v1.PublisherClient, topic: str, data: bytes, **attributes: str) -> None:
    """Publish a message and wait until the topic has it. Raises Unreadable."""
    published = client.publish(topic, data, retry=AGAIN, timeout=CALL_SECONDS, **attributes)
    try:
        published.result(timeout=CALL_SECONDS)
    except (exceptions.GoogleAPIError, TimeoutError) as error:
        problem = str(error) or f"no answer within {CALL_SECONDS:.0f} s"
        raise Unreadable(f"{topic} does not take the message: {problem}") from error
