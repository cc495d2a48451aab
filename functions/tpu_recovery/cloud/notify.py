"""The Notifier port on Pub/Sub: one topic that people subscribe their own channel to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from tpu_recovery.cloud.publish import publish
from tpu_recovery.model.decision import Notify

if TYPE_CHECKING:
    import google.cloud.pubsub_v1


class TopicNotifier:
    """Publishes notices as JSON. The client is made at the first notice: most invocations send none."""

    def __init__(self, client: Callable[[], google.cloud.pubsub_v1.PublisherClient], topic: str) -> None:
        self._client = client
        self._topic = topic

    def tell(self, job: str, notice: Notify) -> None:
        """See Notifier.tell."""
        body = msgspec.json.encode({"job": job, "severity": notice.severity, "text": notice.text})
        publish(self._client(), self._topic, body, job=job, severity=notice.severity)
