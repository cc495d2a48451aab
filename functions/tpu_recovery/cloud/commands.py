"""Commands of people, sent through the topic `commands`, which wakes the job that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from google.api_core import exceptions

from tpu_recovery.cloud.clients import CALL_SECONDS
from tpu_recovery.errors import Unreadable
from tpu_recovery.model.messages import Command

if TYPE_CHECKING:
    import google.cloud.pubsub_v1


def send(client: google.cloud.pubsub_v1.PublisherClient, topic: str, command: Command) -> None:
    """Publish a command and wait until the topic has it. Raises Unreadable."""
    try:
        client.publish(topic, msgspec.json.encode(command), job=command.job).result(timeout=CALL_SECONDS)
    except (exceptions.GoogleAPICallError, TimeoutError) as error:
        raise Unreadable(f"the command could not be sent to {topic}: {error}") from error
