"""What the platform says when it refuses, in its own words where they are known.

The texts of quota, stockout, name taken, accelerator not offered, update while preempted, unknown location, internal
error and missing guest attribute are quoted in public bug reports; most end with an error id in brackets. The others
follow the usual wording of Google APIs.
"""

from __future__ import annotations

import secrets
from typing import Any

from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from tpu_recovery.local.rpc import Refusal


class Refused(Refusal):
    """The platform's refusal: the status of a call or of an operation, with details where the platform sends some."""

    def __init__(self, code: StatusCode, message: str, *details: Any) -> None:
        super().__init__(code, message)
        self.details = details

    def status(self) -> status_pb2.Status:
        """The refusal as ``google.rpc.Status``."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in self.details:
            status.details.add().Pack(detail)
        return status


def _error_id() -> str:
    return f"[EID: 0x{secrets.token_hex(8)}]"


def no_capacity(zone: str) -> Refused:
    """A stockout: the operation's error."""
    return Refused(
        StatusCode.RESOURCE_EXHAUSTED,
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
        f"offered (see https://cloud.google.com/tpu/docs/regions) {_error_id()}",
    )


def quota_exceeded(zone: str, project_number: str) -> Refused:
    """No quota left: the call's error, with the same code as a stockout."""
    limit = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
    failure = error_details_pb2.QuotaFailure()
    failure.violations.add(
        subject=f"project:{project_number}", description=f"Quota '{limit}' exhausted. Limit 4 in zone {zone}"
    )
    message = f"Quota limit '{limit}' has been exceeded. Limit: 4 in zone {zone}."
    return Refused(StatusCode.RESOURCE_EXHAUSTED, message, failure)


def already_exists(name: str) -> Refused:
    """The node's name is taken, in whatever state the node is."""
    resource = error_details_pb2.ResourceInfo(resource_name=name)
    return Refused(StatusCode.ALREADY_EXISTS, f"Resource '{name}' already exists", resource)


def not_found(name: str) -> Refused:
    """There is no such node or operation."""
    resource = error_details_pb2.ResourceInfo(resource_name=name)
    return Refused(StatusCode.NOT_FOUND, f"Resource '{name}' was not found", resource)


def not_offered(accelerator: str, zone: str) -> Refused:
    """The zone does not have this accelerator."""
    return Refused(
        StatusCode.INVALID_ARGUMENT,
        "Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "
        f'"{accelerator}", could not be found in the zonal accelerator configurations for "{zone}".; '
        f"the accelerator {accelerator} was not found in zone {zone} {_error_id()}",
    )


def unknown_location(zone: str) -> Refused:
    """There is no such zone, or the project may not use it."""
    return Refused(StatusCode.PERMISSION_DENIED, f"Location {zone} is not found or access is unauthorized.")


def permission_denied(permission: str, resource: str) -> Refused:
    """The caller lacks a permission."""
    message = f"Permission '{permission}' denied on resource '//tpu.googleapis.com/{resource}' (or it may not exist)."
    return Refused(StatusCode.PERMISSION_DENIED, message)


def unavailable() -> Refused:
    """The API could not be reached; the same call may work in a moment."""
    return Refused(StatusCode.UNAVAILABLE, "The service is currently unavailable.")


def internal_error() -> Refused:
    """What is often a stockout in disguise: the operation's error."""
    return Refused(StatusCode.INTERNAL, "an internal error has occurred")


def not_supported_in_state(action: str, state: str) -> Refused:
    """The node's state does not allow this; INVALID_ARGUMENT, although it may pass."""
    message = f"Cloud TPU received a bad request. {action} is not supported while in state {state} {_error_id()}"
    return Refused(StatusCode.INVALID_ARGUMENT, message)


def update_in_flight(name: str) -> Refused:
    """Another UpdateNode of this node has not finished.

    Over REST this is a 409, which gRPC has two codes for. ABORTED is the one that means "again in a moment".
    """
    return Refused(StatusCode.ABORTED, f"there is already an UpdateNode call in flight for '{name}' {_error_id()}")


def cancelled_by_delete(name: str) -> Refused:
    """The node was deleted before the operation on it had finished: the operation's error."""
    return Refused(StatusCode.CANCELLED, f"Resource '{name}' was deleted before the operation finished")


def no_guest_attribute(query_path: str) -> Refused:
    """Nothing is set under this path, or not yet."""
    message = f'Cloud TPU received an invalid argument. The "GuestAttributes" value "{query_path}" was not found.'
    return Refused(StatusCode.INVALID_ARGUMENT, message)


def invalid(explanation: str) -> Refused:
    """The request is malformed."""
    message = f"Cloud TPU received an invalid argument. {explanation} {_error_id()}"
    return Refused(StatusCode.INVALID_ARGUMENT, message)
