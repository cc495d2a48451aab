"""Log entries as the sink exports them, and the push requests that bring them."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

SERVICE_ACCOUNT = "recover@p.iam.gserviceaccount.com"
PERSON = "ada@example.com"


def stamp(moment: datetime) -> str:
    """RFC 3339 as Cloud Logging writes it."""
    return moment.isoformat().replace("+00:00", "Z")


def system_event(method: str, resource: str, at: datetime, insert_id: str = "s1") -> dict[str, Any]:
    """What the platform does by itself: `tpu.nodes.terminate`, `compute.instances.preempted`, …"""
    return {
        "logName": "projects/p/logs/cloudaudit.googleapis.com%2Fsystem_event",
        "timestamp": stamp(at),
        "insertId": f"{insert_id}-{method}",
        "severity": "INFO",
        "protoPayload": {
            "methodName": method,
            "resourceName": resource,
            "authenticationInfo": {"principalEmail": "system@google.com"},
        },
    }


def api_call(
    method: str,
    resource: str,
    at: datetime,
    *,
    principal: str = PERSON,
    operation: str = "o1",
    last: bool = False,
    error: tuple[int, str] | None = None,
) -> dict[str, Any]:
    """One entry of a call like `DeleteNode`: its first, or with `last` the one that ends its operation."""
    place = "last" if last else "first"
    payload: dict[str, Any] = {
        "methodName": f"google.cloud.tpu.v2alpha1.Tpu.{method}",
        "resourceName": resource,
        "authenticationInfo": {"principalEmail": principal},
    }
    if error is not None:
        payload["status"] = {"code": error[0], "message": error[1]}
    return {
        "logName": "projects/p/logs/cloudaudit.googleapis.com%2Factivity",
        "timestamp": stamp(at),
        "insertId": f"{operation}-{place}",
        "severity": "ERROR" if error else "NOTICE",
        "operation": {"id": operation, place: True},
        "protoPayload": payload,
    }


def push(document: object) -> bytes:
    """A push request around a message that holds this document as JSON, or these bytes as they are."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    message = {"messageId": "1", "data": base64.b64encode(data).decode(), "attributes": {}}
    return json.dumps({"message": message, "subscription": "projects/p/subscriptions/s"}).encode()
