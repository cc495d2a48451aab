"""The Cloud Logging entries that the platform writes about TPU nodes, as a sink exports them.

Public samples exist of the Compute Engine events and of the fields of the TPU API's entries, none of a whole TPU entry:
the shapes here follow the documented LogEntry and AuditLog messages and Google's audit log pages.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.rpc import status_pb2

from .operations import Operation

Entry = dict[str, Any]

SYSTEM = "system@google.com"
PERMISSIONS = {"CreateNode": "create", "DeleteNode": "delete", "UpdateNode": "update", "StopNode": "stop"}
"""The methods whose calls are always logged, and the last part of the permission they need."""


def accepted(operation: Operation, request: dict[str, Any] | None = None) -> Entry:
    """The first entry of an operation: the call was accepted."""
    payload = _call(operation.method, operation.target, operation.principal, operation.created)
    if request is not None:
        payload["request"] = request
    entry = _activity(operation.method, operation.target, payload, operation.created, "NOTICE")
    return entry | {"operation": {"id": operation.name, "producer": "tpu.googleapis.com", "first": True}}


def ended(operation: Operation, at: float) -> Entry:
    """The last entry of an operation: it worked, or its error says why not."""
    payload = _payload("tpu.googleapis.com", _full(operation.method), operation.target, operation.principal)
    if operation.error is not None:
        payload["status"] = MessageToDict(operation.error)
    severity = "NOTICE" if operation.error is None else "ERROR"
    entry = _activity(operation.method, operation.target, payload, at, severity)
    return entry | {"operation": {"id": operation.name, "producer": "tpu.googleapis.com", "last": True}}


def refused(method: str, node: str, principal: str, at: float, error: status_pb2.Status, *, granted: bool) -> Entry:
    """The only entry of a call that was refused at once; ``granted``: the caller had the permission."""
    payload = _call(method, node, principal, at)
    if not granted:
        del payload["authorizationInfo"][0]["granted"]  # protobuf JSON leaves out what is false
    payload["status"] = MessageToDict(error)
    return _activity(method, node, payload, at, "ERROR")


def node_event(kind: str, node: str, at: float, reason: str | None = None) -> Entry:
    """``tpu.nodes.terminate`` or ``tpu.nodes.restart``; which reasons the platform gives is not public."""
    payload = _payload("tpu.googleapis.com", kind, node, SYSTEM)
    if reason is not None:
        payload["metadata"] = {"terminateReason": reason}
    project = node.split("/")[1]
    resource = {
        "type": "audited_resource",
        "labels": {"method": kind, "project_id": project, "service": "tpu.googleapis.com"},
    }
    return _system_event(kind, project, payload, resource, at)


def instance_event(kind: str, instance: str, instance_id: int, message: str, trigger: str, *, at: float) -> Entry:
    """``compute.instances.*`` of a worker VM (projects/P/zones/Z/instances/I); ``trigger`` joins what has one cause."""
    payload = _payload("compute.googleapis.com", kind, instance, SYSTEM)
    payload |= {"request": {"@type": f"type.googleapis.com/{kind}"}, "status": {"message": message}}
    _, project, _, zone, _, _ = instance.split("/")
    resource = {
        "type": "gce_instance",
        "labels": {"instance_id": str(instance_id), "project_id": project, "zone": zone},
    }
    entry = _system_event(kind, project, payload, resource, at)
    return entry | {"labels": {"compute.googleapis.com/root_trigger_id": trigger}}


def _full(method: str) -> str:
    return f"google.cloud.tpu.v2alpha1.Tpu.{method}"


def _payload(service: str, method: str, resource: str, principal: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "serviceName": service,
        "methodName": method,
        "resourceName": resource,
        "authenticationInfo": {"principalEmail": principal},
    }


def _call(method: str, node: str, principal: str, at: float) -> dict[str, Any]:
    return _payload("tpu.googleapis.com", _full(method), node, principal) | {
        "requestMetadata": {
            "callerIp": "203.0.113.7",
            "callerSuppliedUserAgent": "grpc-python,gzip(gfe)",
            "requestAttributes": {"time": _rfc3339(at, 6), "auth": {}},
            "destinationAttributes": {},
        },
        "authorizationInfo": [
            {
                "resource": node,
                "permission": f"tpu.nodes.{PERMISSIONS[method]}",
                "granted": True,
                "permissionType": "ADMIN_WRITE",
                "resourceAttributes": {},
            }
        ],
        "resourceLocation": {"currentLocations": [node.split("/")[3]]},
    }


def _activity(method: str, node: str, payload: dict[str, Any], at: float, severity: str) -> Entry:
    project = node.split("/")[1]
    labels = {"method": _full(method), "project_id": project, "service": "tpu.googleapis.com"}
    resource = {"type": "audited_resource", "labels": labels}
    return _entry(project, "activity", payload, resource, at, severity=severity)


def _system_event(kind: str, project: str, payload: dict[str, Any], resource: dict[str, Any], at: float) -> Entry:
    unique = secrets.token_hex(15)
    event_id = f"systemevent-{int(at * 1000)}-{unique[:13]}-{unique[13:21]}-{unique[21:29]}"
    operation = {"id": event_id, "producer": kind, "first": True, "last": True}
    return _entry(project, "system_event", payload, resource, at, severity="INFO") | {"operation": operation}


def _entry(
    project: str, log: str, payload: dict[str, Any], resource: dict[str, Any], at: float, *, severity: str
) -> Entry:
    return {
        "insertId": f"-{secrets.token_hex(6)[:11]}",
        "logName": f"projects/{project}/logs/cloudaudit.googleapis.com%2F{log}",
        "protoPayload": payload,
        "receiveTimestamp": _rfc3339(at, 9),
        "resource": resource,
        "severity": severity,
        "timestamp": _rfc3339(at, 6),
    }


def _rfc3339(at: float, digits: int) -> str:
    seconds, nanoseconds = divmod(round(at * 1_000_000_000), 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{nanoseconds:09d}"[: len(whole) + 1 + digits] + "Z"
