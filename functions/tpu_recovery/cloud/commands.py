"""Commands of people, sent through the topic `commands`, which wakes the job that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tpu_recovery.cloud.publish import publish
from tpu_recovery.model.messages import Command

if TYPE_CHECKING:
    import google.cloud.pubsub_v1


def send(client: google.cloud.pubsub_v1.PublisherClient, topic: str, command: Command) -> None:
    """Publish a command and wait until the topic has it. Raises Unreadable."""
    publish(client, topic, msgspec.json.encode(command), job=command.job)
