"""The HTTP request of a Pub/Sub push -> the message inside it.

Two forms arrive in practice and both are read (facts page, section 1.5): the wrapped push body
``{"message": {...}, "subscription": ...}``, and a CloudEvent, either structured (``data.message``) or binary (``ce-*``
headers around the wrapped body).
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

import msgspec

from tpu_recovery.errors import Invalid

LARGEST_MESSAGE = 900_000
"""Bytes of a message that the inbox can keep whole: a Firestore document has at most 1 MiB."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One Pub/Sub message."""

    id: str
    data: bytes
    attributes: dict[str, str]
    published: datetime | None = None


def read_envelope(body: bytes) -> Message:
    """The message in a push request.

    Raises Invalid when there is none, or when it cannot be decoded; such a request will never be better when repeated.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid("push request", _size(body), f"it must be JSON: {error}") from error
    message = _message_of(document)
    if message is None:
        raise Invalid("push request", _size(body), "it must hold an object called message")
    return Message(
        id=_text(message, "messageId", "message_id"),
        data=_data(message.get("data") or ""),
        attributes=_attributes(message.get("attributes")),
        published=_time(_text(message, "publishTime", "publish_time")),
    )


def _message_of(document: Any) -> dict[str, Any] | None:
    holder = document
    if isinstance(holder, dict) and isinstance(holder.get("data"), dict):
        holder = holder["data"]
    message = holder.get("message") if isinstance(holder, dict) else None
    return message if isinstance(message, dict) else None


def _data(text: object) -> bytes:
    if not isinstance(text, str):
        raise Invalid("message.data", type(text).__name__, "it must be base64 text")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("message.data", f"{len(text)} characters", f"it must be base64 text: {error}") from error


def _attributes(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _text(message: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := message.get(name), str)), "")


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None  # the time of publishing is for people to read; nothing depends on it


def _size(body: bytes) -> str:
    """Shown instead of the text: it may be a report, which holds a token, and messages of errors reach the log."""
    return f"{len(body)} bytes"
