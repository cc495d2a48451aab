"""The Capacity port on the Cloud TPU API, v2alpha1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions
from google.rpc import code_pb2

from tpu_recovery.cloud.clients import CALL_SECONDS
from tpu_recovery.errors import AlreadyExists, NotFound, Refused, Unreadable
from tpu_recovery.model.observed import NodeReading, OperationReading, OperationState, Presence
from tpu_recovery.recovery.ports import Attributes, NodeRequest

if TYPE_CHECKING:
    from google.cloud import tpu_v2alpha1

NAMESPACE = "tpu-recovery"
"""Namespace of the guest attributes that our runner writes."""

_AMBIGUOUS = (
    exceptions.ServiceUnavailable,
    exceptions.GatewayTimeout,
    exceptions.InternalServerError,
    exceptions.Unknown,
    exceptions.DataLoss,
    exceptions.Aborted,
    exceptions.Cancelled,
)
"""Errors of a call that leave open whether it took effect: to be repeated, never to be drawn conclusions from."""

_NO_SUCH_ZONE = (
    exceptions.NotFound,
    exceptions.PermissionDenied,
    exceptions.InvalidArgument,
    exceptions.FailedPrecondition,
)
"""Errors of a list that the same list would be answered with again."""


class TpuCapacity:
    """TPU nodes by full name."""

    def __init__(self, client: tpu_v2alpha1.TpuClient) -> None:
        self._client = client

    def describe(self, name: str) -> NodeReading:
        """See Capacity.describe."""
        try:
            return _reading(self._client.get_node(name=name, timeout=CALL_SECONDS))
        except exceptions.NotFound:
            return NodeReading(name=name, presence=Presence.ABSENT)
        except exceptions.GoogleAPICallError as error:
            return NodeReading(name=name, presence=Presence.UNREADABLE, problem=_words(error))

    def describe_operation(self, name: str) -> OperationReading:
        """See Capacity.describe_operation."""
        try:
            operation = self._client.get_operation({"name": name}, timeout=CALL_SECONDS)
        except exceptions.NotFound:
            return OperationReading(state=OperationState.FORGOTTEN)
        except exceptions.GoogleAPICallError as error:
            return OperationReading(state=OperationState.UNREADABLE, message=_words(error))
        if not operation.done:
            return OperationReading(state=OperationState.RUNNING)
        if operation.HasField("error"):
            code = _code_name(operation.error.code)
            return OperationReading(state=OperationState.FAILED, code=code, message=operation.error.message)
        return OperationReading(state=OperationState.SUCCEEDED)

    def list_nodes(self, project: str, zone: str) -> Sequence[NodeReading]:
        """See Capacity.list_nodes."""
        parent = f"projects/{project}/locations/{zone}"
        try:
            pages = self._client.list_nodes(request={"parent": parent, "page_size": 500}, timeout=CALL_SECONDS)
            return [_reading(node) for node in pages]
        except exceptions.GoogleAPICallError as error:
            raise _listing_failure(error) from error

    def create(self, request: NodeRequest) -> str:
        """See Capacity.create."""
        from google.cloud import tpu_v2alpha1

        message = tpu_v2alpha1.CreateNodeRequest(
            parent=request.parent,
            node_id=request.node_id,
            request_id=request.request_id,
            node=_api_names(request.node),
        )
        try:
            operation = self._client.create_node(request=message, timeout=CALL_SECONDS)
        except exceptions.AlreadyExists as error:
            raise AlreadyExists(_words(error)) from error
        except exceptions.NotFound as error:
            raise _refused(error) from error  # what the node is to be made of is missing: a network, the project
        except exceptions.GoogleAPICallError as error:
            raise _failure(error) from error
        name: str = operation.operation.name
        return name

    def delete(self, name: str) -> None:
        """See Capacity.delete."""
        try:
            self._client.delete_node(name=name, timeout=CALL_SECONDS)
        except exceptions.GoogleAPICallError as error:
            raise _failure(error) from error

    def write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """See Capacity.write_metadata.

        The API replaces the whole map, so a fresh one is read first; another update in flight is Unreadable: later
        again (facts page, section 11).
        """
        from google.cloud import tpu_v2alpha1
        from google.protobuf import field_mask_pb2

        try:
            node = self._client.get_node(name=name, timeout=CALL_SECONDS)
            update = tpu_v2alpha1.Node(name=name, metadata={**node.metadata, **values})
            mask = field_mask_pb2.FieldMask(paths=["metadata"])
            self._client.update_node(node=update, update_mask=mask, timeout=CALL_SECONDS)
        except exceptions.Conflict as error:
            raise Unreadable(f"another update is in flight: {_words(error)}") from error
        except exceptions.GoogleAPICallError as error:
            raise _failure(error) from error

    def attributes(self, name: str) -> Attributes:
        """See Capacity.attributes. One call reads all namespaces of all workers."""
        try:
            response = self._client.get_guest_attributes(request={"name": name}, timeout=CALL_SECONDS)
        except exceptions.InvalidArgument:
            return Attributes((), ())  # the API's way to say that nothing was written yet (facts page, section 7)
        except exceptions.GoogleAPICallError as error:
            raise Unreadable(_words(error)) from error
        items = [item for worker in response.guest_attributes for item in worker.query_value.items]
        hostnames = (item.value for item in items if item.key == "hostname")
        return Attributes(
            hostnames=tuple(sorted({value.split(".")[0] for value in hostnames if value})),
            reports=tuple(item.value for item in items if item.namespace == NAMESPACE),
        )


def _reading(node: Any) -> NodeReading:
    from google.cloud import tpu_v2alpha1

    return NodeReading(
        name=node.name,
        presence=Presence.PRESENT,
        state=_enum_name(tpu_v2alpha1.Node.State, node, "state"),
        health=_enum_name(tpu_v2alpha1.Node.Health, node, "health"),
        id=str(node.id or ""),
        create_time=_moment(node),
        labels=dict(node.labels),
        workers=sum(1 for endpoint in node.network_endpoints if endpoint.ip_address),
    )


def _enum_name(enum: Any, node: Any, field: str) -> str:
    """The API's name of a value, or its number when this client is too old to know the name."""
    number = int(getattr(type(node).pb(node), field))
    return next((member.name for member in enum if member.value == number), str(number))


def _moment(node: Any) -> datetime | None:
    stamp = type(node).pb(node).create_time
    return stamp.ToDatetime(tzinfo=UTC) if stamp.ByteSize() else None


def _api_names(node: Mapping[str, Any]) -> dict[str, Any]:
    """Our names are the API's, but for one that Python reserves (`type` is `type_` in the client)."""
    fields = dict(node)
    if "accelerator_config" in fields:
        config = dict(fields["accelerator_config"])
        config["type_"] = config.pop("type")
        fields["accelerator_config"] = config
    return fields


def _failure(error: exceptions.GoogleAPICallError) -> NotFound | Refused | Unreadable:
    if isinstance(error, exceptions.NotFound):
        return NotFound(_words(error))
    if isinstance(error, _AMBIGUOUS):
        return Unreadable(_words(error))
    return _refused(error)


def _listing_failure(error: exceptions.GoogleAPICallError) -> Refused | Unreadable:
    """A list is answered at another time as it is now, unless the zone or the permission is missing."""
    if isinstance(error, _NO_SUCH_ZONE):
        return _refused(error)
    return Unreadable(_words(error))


def _refused(error: exceptions.GoogleAPICallError) -> Refused:
    return Refused(_code(error), error.message)


def _words(error: exceptions.GoogleAPICallError) -> str:
    return f"{_code(error)}: {error.message}"


def _code(error: exceptions.GoogleAPICallError) -> str:
    return error.grpc_status_code.name if error.grpc_status_code else str(error.code)


def _code_name(number: int) -> str:
    names: dict[int, str] = {value: name for name, value in code_pb2.Code.items()}
    return names.get(number, str(number))
