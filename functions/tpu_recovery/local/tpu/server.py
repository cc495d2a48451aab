"""The Cloud TPU API over gRPC, and what a test or demo can let happen to the nodes behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from google.cloud.tpu_v2alpha1.types import ListQueuedResourcesResponse
from google.longrunning import operations_pb2

from tpu_recovery.local import rpc

from . import audit, happenings, reads, rules
from .faults import Fault
from .machines import Machines, NoMachines
from .nodes import Nodes
from .operations import Operation
from .refusals import Refused
from .settings import TpuSettings

SERVICE = "google.cloud.tpu.v2alpha1.Tpu"
OPERATIONS = "google.longrunning.Operations"

_TRANSPORT = "google.cloud.tpu_v2alpha1.services.tpu.transports.grpc"
_DETAILS = "grpc-status-details-bin"  # where gRPC carries a google.rpc.Status with its details
_LONGEST_SLEEP = 0.05  # seconds: a clock that was set, not waited for, is noticed as soon as this

PERMISSIONS = {
    "GetNode": "tpu.nodes.get",
    "ListNodes": "tpu.nodes.list",
    "CreateNode": "tpu.nodes.create",
    "DeleteNode": "tpu.nodes.delete",
    "UpdateNode": "tpu.nodes.update",
    "GetGuestAttributes": "tpu.nodes.getGuestAttributes",
    "ListQueuedResources": "tpu.queuedresources.list",
    "GetOperation": "tpu.operations.get",
}
"""The served methods and the permission that each needs."""

Result = TypeVar("Result")
Answer = Callable[[Nodes, Any, str], Any]
"""Takes the nodes, the request (protobuf) and the caller's principal; gives an Operation or the response."""


def ignore(_entry: audit.Entry) -> None:
    """Where entries go when nobody listens."""


class TpuServer:
    """The Cloud TPU API of the local stack. Thread-safe; between :meth:`start` and :meth:`stop` time passes by itself.

    ``emit`` gets every audit entry the platform would write, from the thread that made it happen, with no lock held.
    ``calls`` lists (method, name of the node, operation or parent) of every call of the API, in order.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        emit: Callable[[audit.Entry], None] = ignore,
        machines: Machines | None = None,
        settings: TpuSettings | None = None,
    ) -> None:
        self.settings = settings or TpuSettings()
        self.calls: list[tuple[str, str]] = []
        self._nodes = Nodes(self.settings, clock, emit, machines or NoMachines())
        self._telling = threading.RLock()
        self._wake = threading.Event()
        self._stopping = False
        self._scheduler: threading.Thread | None = None
        self._grpc: grpc.Server | None = None

    def start(self, port: int = 0) -> int:
        """Serve on loopback; returns the port."""
        self._stopping = False
        self._grpc, bound = rpc.serve(self._services(), port=port)
        self._scheduler = threading.Thread(target=self._let_time_pass, name="tpu-scheduler", daemon=True)
        self._scheduler.start()
        return bound

    def stop(self) -> None:
        """Stop serving and stop the time; the machines belong to who made them."""
        self._stopping = True
        self._wake.set()
        if self._grpc is not None:
            self._grpc.stop(grace=None).wait()
        if self._scheduler is not None:
            self._scheduler.join()

    def tick(self) -> None:
        """Do what is due by the clock: operations end, preempted nodes go."""
        self._do(lambda _nodes: None)

    # What goes wrong, for the next `times` occasions.

    def stockout(self, zone: str, times: int = 1) -> None:
        """Creations in the zone are accepted, then their operation fails: no capacity."""
        self._fault(Fault.STOCKOUT, zone, times)

    def fail_internal(self, zone: str, times: int = 1) -> None:
        """Creations in the zone are accepted, then their operation fails: internal error."""
        self._fault(Fault.INTERNAL, zone, times)

    def quota(self, zone: str, times: int = 1) -> None:
        """CreateNode in the zone is refused: quota exceeded."""
        self._fault(Fault.QUOTA, zone, times)

    def deny(self, method: str, times: int = 1) -> None:
        """The method (``GetNode``) is refused: permission denied."""
        self._fault(Fault.DENIED, _served(method), times)

    def unavailable(self, method: str, times: int = 1) -> None:
        """The method (``GetNode``) is refused: service unavailable."""
        self._fault(Fault.UNAVAILABLE, _served(method), times)

    # What befalls a node. `name` is its full name.

    def preempt(self, name: str, reason: str | None = None) -> None:
        """See :func:`happenings.preempt`; ``reason`` goes into the entry as it is."""
        self._do(lambda nodes: happenings.preempt(nodes, name, reason))

    def terminate(self, name: str, reason: str | None = None) -> None:
        """See :func:`happenings.terminate`."""
        self._do(lambda nodes: happenings.terminate(nodes, name, reason))

    def forget(self, name: str) -> None:
        """See :func:`happenings.forget`."""
        self._do(lambda nodes: happenings.forget(nodes, name))

    def set_state(
        self, name: str, state: int | None = None, health: int | None = None, health_description: str | None = None
    ) -> None:
        """See :func:`happenings.set_state`; None leaves a field as it is."""
        self._do(lambda nodes: happenings.set_state(nodes, name, state, health, health_description))

    def delete_as(self, name: str, principal: str) -> None:
        """See :func:`happenings.delete_as`."""
        self._do(lambda nodes: happenings.delete_as(nodes, name, principal))

    def stop_as(self, name: str, principal: str) -> None:
        """See :func:`happenings.stop_as`."""
        self._do(lambda nodes: happenings.stop_as(nodes, name, principal))

    def host_error(self, name: str, worker: int = 0) -> None:
        """See :func:`happenings.host_error`."""
        self._do(lambda nodes: happenings.host_error(nodes, name, worker))

    def restart(self, name: str) -> None:
        """See :func:`happenings.restart`."""
        self._do(lambda nodes: happenings.restart(nodes, name))

    def set_guest_attribute(self, name: str, worker: int, namespace: str, key: str, value: str) -> None:
        """Write a guest attribute as a program on the worker would."""
        entry = {(namespace, key): value}
        self._do(lambda nodes: nodes.record(name).guest_attributes[worker].update(entry))

    def node_names(self) -> list[str]:
        """Full names of all nodes there are."""
        return self._do(lambda nodes: sorted(nodes.records))

    def hostnames(self, name: str) -> tuple[str, ...]:
        """Hostnames of the node's workers, in their order."""
        return self._do(lambda nodes: nodes.record(name).hostnames)

    def _fault(self, fault: Fault, subject: str, times: int) -> None:
        self._do(lambda nodes: nodes.faults.set(fault, subject, times))

    def _do(self, action: Callable[[Nodes], Result]) -> Result:
        """Do what is due and this; returns when the outside has been told, by whichever thread."""
        result = self._perform(action)
        with self._telling:
            return result

    def _perform(self, action: Callable[[Nodes], Result]) -> Result:
        """Do what is due and this; tell the outside afterwards, without the lock, unless another thread is at it."""
        nodes = self._nodes
        try:
            with nodes.lock:
                nodes.agenda.run_due(nodes.clock())
                result = action(nodes)
                nodes.agenda.run_due(nodes.clock())  # what takes no time is done at once
                return result
        finally:
            self._tell()
            self._wake.set()

    def _tell(self) -> None:
        """Empty the outbox in order, one thread at a time.

        Who comes second leaves it to the first and does not wait: the second may be the handler of a call that was
        made by whom the first is telling.
        """
        outbox = self._nodes.outbox
        while outbox and self._telling.acquire(blocking=False):
            try:
                while outbox:
                    outbox.popleft()()
            finally:
                self._telling.release()

    def _let_time_pass(self) -> None:
        while not self._stopping:
            self._wake.clear()
            due = self._nodes.agenda.next_due
            if due is not None and due <= self._nodes.clock():
                self.tick()
            else:
                self._wake.wait(None if due is None else min(due - self._nodes.clock(), _LONGEST_SLEEP))

    def _services(self) -> dict[str, dict[str, grpc.RpcMethodHandler]]:
        calls = rpc.calls_of(_TRANSPORT, "TpuGrpcTransport", SERVICE)
        tpu = {
            name: self._handler(name, _ANSWERS[name], _protobuf_parser(call))
            if name in _ANSWERS
            else rpc.unary(rpc.unimplemented(name), call.parse)
            for name, call in calls.items()
        }
        parse = operations_pb2.GetOperationRequest.FromString
        operations = {"GetOperation": self._handler("GetOperation", _ANSWERS["GetOperation"], parse)}
        return {SERVICE: tpu, OPERATIONS: operations}

    def _handler(self, method: str, answer: Answer, parse: Callable[[bytes], Any]) -> grpc.RpcMethodHandler:
        def respond(request: Any, context: grpc.ServicerContext) -> Any:
            subject = _subject(request)
            self.calls.append((method, subject))
            try:
                result = self._perform(lambda nodes: self._answer(nodes, method, subject, request, answer))
            except Refused as refusal:
                context.set_trailing_metadata(((_DETAILS, refusal.status().SerializeToString()),))
                context.abort(refusal.code, refusal.message)
            return result.message() if isinstance(result, Operation) else result

        return grpc.unary_unary_rpc_method_handler(respond, parse, rpc.serialize)

    def _answer(self, nodes: Nodes, method: str, subject: str, request: Any, answer: Answer) -> Any:
        caller = self.settings.caller.format(project=[*subject.split("/"), ""][1])
        try:
            nodes.faults.check_call(method, PERMISSIONS[method], subject)
            return answer(nodes, request, caller)
        except Refused as refusal:
            is_logged = method in audit.PERMISSIONS and rules.is_node_name(subject)
            if is_logged and refusal.code is not grpc.StatusCode.UNAVAILABLE:
                granted = refusal.code is not grpc.StatusCode.PERMISSION_DENIED
                nodes.log(audit.refused(method, subject, caller, nodes.clock(), refusal.status(), granted=granted))
            raise


def _list_queued_resources(nodes: Nodes, request: Any) -> Any:
    reads.check_parent(nodes, request.parent)
    return ListQueuedResourcesResponse.pb()()  # there are none: nothing here creates one


_ANSWERS: dict[str, Answer] = {
    "GetNode": lambda nodes, request, _caller: reads.get_node(nodes, request),
    "ListNodes": lambda nodes, request, _caller: reads.list_nodes(nodes, request),
    "CreateNode": lambda nodes, request, caller: nodes.create(request, caller),
    "DeleteNode": lambda nodes, request, caller: nodes.delete(request, caller),
    "UpdateNode": lambda nodes, request, caller: nodes.update(request, caller),
    "GetGuestAttributes": lambda nodes, request, _caller: reads.get_guest_attributes(nodes, request),
    "ListQueuedResources": lambda nodes, request, _caller: _list_queued_resources(nodes, request),
    "GetOperation": lambda nodes, request, _caller: reads.get_operation(nodes, request),
}


def _subject(request: Any) -> str:
    """Full name of the node, operation or parent that a request (protobuf) is about."""
    fields = request.DESCRIPTOR.fields_by_name
    if "node_id" in fields:
        return f"{request.parent}/nodes/{request.node_id}"
    if "node" in fields:
        return str(request.node.name)
    return str(request.name if "name" in fields else request.parent)


def _protobuf_parser(call: rpc.Call) -> Callable[[bytes], Any]:
    def parse(data: bytes) -> Any:
        message = call.parse(data)
        return type(message).pb(message)

    return parse


def _served(method: str) -> str:
    if method not in PERMISSIONS:
        raise ValueError(f"method {method!r} is not served; expected one of {', '.join(PERMISSIONS)}")
    return method
