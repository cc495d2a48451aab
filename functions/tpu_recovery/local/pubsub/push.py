"""The HTTP request with which Pub/Sub hands a message to a push endpoint."""

from __future__ import annotations

import base64
import json

from tpu_recovery.local.deliver import bearer
from tpu_recovery.local.served import Message

ACKNOWLEDGING = frozenset({102, 200, 201, 202, 204})
"""Any other status, and no answer before the ack deadline, is a nack."""


def push_body(message: Message, subscription: str, delivery_attempt: int | None) -> bytes:
    """The wrapped message as JSON; ``delivery_attempt`` is None without a dead letter policy.

    Like the real one it says the id and the time twice, and leaves out ``attributes`` when there are none.
    """
    published = message.publish_time.ToJsonString()
    content: dict[str, object] = {"attributes": dict(message.attributes)} if message.attributes else {}
    content |= {
        "data": base64.b64encode(message.data).decode(),
        "messageId": message.message_id,
        "message_id": message.message_id,
        "publishTime": published,
        "publish_time": published,
    }
    body: dict[str, object] = {"message": content, "subscription": subscription}
    if delivery_attempt is not None:
        body["deliveryAttempt"] = delivery_attempt
    return json.dumps(body).encode()


def push_headers(push_config: Message) -> dict[str, str]:
    """The headers of a push: with an identity when the subscription has one. The audience is the URL by default."""
    headers = {"Content-Type": "application/json", "User-Agent": "APIs-Google", "From": "noreply@google.com"}
    if push_config.HasField("oidc_token"):
        token = push_config.oidc_token
        headers["Authorization"] = bearer(token.service_account_email, token.audience or push_config.push_endpoint)
    return headers
