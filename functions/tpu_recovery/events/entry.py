"""A LogEntry as the log sink exports it (JSON) -> an Event.

Everything but the resource and the method is optional: labels may be missing or empty, `status` may lack a code,
`operation` may lack its booleans, the principal may be missing, the project may be a number (facts page, sections 1.1
and 2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.events.methods import meaning_of
from tpu_recovery.model.messages import Author, Event, in_utc
from tpu_recovery.model.names import ResourceName
from tpu_recovery.model.texts import LONGEST_RESOURCE_NAME

_SYSTEM_EVENT_LOG = "cloudaudit.googleapis.com%2Fsystem_event"
_FAILED = frozenset({"ERROR", "CRITICAL", "ALERT", "EMERGENCY"})


def parse_entry(data: bytes, *, service_account: str) -> Event:
    """The event in a log entry; ``service_account`` is the e-mail of the account that this service runs as.

    Raises Invalid when the entry cannot be read, or is about nothing that a job could own.
    """
    try:
        entry = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid("log entry", data[:200].decode("utf-8", "replace"), f"it must be JSON: {error}") from error
    if not isinstance(entry, dict):
        raise Invalid("log entry", type(entry).__name__, "it must be a JSON object")
    payload = _object(entry, "protoPayload")
    method = _text(payload, "methodName")
    if not method:
        raise Invalid("protoPayload.methodName", method, "an audit entry names its method")
    operation = _object(entry, "operation")
    status = _object(payload, "status")
    failed = _text(entry, "severity").upper() in _FAILED or bool(status.get("code"))
    log_name = _text(entry, "logName")
    principal = _text(_object(payload, "authenticationInfo"), "principalEmail")
    return Event(
        key=key_of_entry(entry),
        resource=_resource(entry, payload),
        method=method,
        meaning=meaning_of(method, ended=operation.get("last") is True, failed=failed),
        author=_author(log_name, principal, service_account),
        principal=principal,
        at=_timestamp(entry),
        operation=_text(operation, "id"),
        message=_text(status, "message"),
        terminate_reason=_text(_object(payload, "metadata"), "terminateReason"),
    )


def key_of_entry(entry: Mapping[str, Any]) -> str:
    """What makes an entry itself, however often it is delivered: log, time and insert id, as the strings they are."""
    return digest("entry", *(_text(entry, name) for name in ("logName", "timestamp", "insertId")))


def digest(*parts: str) -> str:
    """A document id or task id made of the given parts; well spread, so that no range of keys runs hot."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:32]


def _resource(entry: dict[str, Any], payload: dict[str, Any]) -> ResourceName:
    name = _text(payload, "resourceName")
    resource = ResourceName.parse(name)
    if resource is None or len(name.encode()) > LONGEST_RESOURCE_NAME:
        expected = (
            "it must end in locations/ZONE/nodes/ID, locations/ZONE/queuedResources/ID or zones/ZONE/instances/ID, "
            f"and have at most {LONGEST_RESOURCE_NAME} bytes"
        )
        raise Invalid("protoPayload.resourceName", name, expected)
    if not resource.project.isdigit():
        return resource
    project = _text(_object(_object(entry, "resource"), "labels"), "project_id")
    if not project:
        parts = _text(entry, "logName").split("/")
        project = parts[1] if len(parts) > 1 and parts[0] == "projects" else ""
    return resource._replace(project=project) if project else resource


def _author(log_name: str, principal: str, service_account: str) -> Author:
    if log_name.endswith(_SYSTEM_EVENT_LOG):
        return Author.PLATFORM
    if not principal:
        return Author.UNKNOWN
    return Author.SERVICE if principal == service_account else Author.PERSON


def _timestamp(entry: dict[str, Any]) -> datetime:
    for name in ("timestamp", "receiveTimestamp"):
        text = _text(entry, name)
        if text:
            try:
                moment = datetime.fromisoformat(text)
                return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
            except ValueError as error:
                expected = f"write it as RFC 3339, like 2026-03-02T10:15:30.123456Z ({error})"
                raise Invalid(name, text, expected) from error
    raise Invalid("timestamp", None, "an entry says when it happened")


def _object(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
