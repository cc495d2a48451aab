"""TPU nodes that live as on the platform: created, READY, taken, deleted, forgotten; operations and audit entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.clock import Clock
from tests.fakes.entries import SERVICE_ACCOUNT, api_call, system_event
from tests.fakes.wire import Wire

from tpu_recovery.errors import AlreadyExists, NotFound, Refused, Unreadable
from tpu_recovery.model.observed import NodeReading, OperationReading, OperationState, Presence
from tpu_recovery.recovery.ports import Attributes, NodeRequest

REQUEST_MEMORY = timedelta(hours=1)
"""How long the same request id gives the same operation."""

OPERATION_MEMORY = timedelta(days=1)


@dataclass
class Node:
    """One node and what its worker wrote into guest attributes."""

    name: str
    id: str
    create_time: datetime
    labels: dict[str, str]
    metadata: dict[str, str]
    state: str = "CREATING"
    hostnames: tuple[str, ...] = ()
    reports: dict[str, str] = field(default_factory=dict)


@dataclass
class Operation:
    """Work on a node that ends at a moment, by doing `finish`."""

    name: str
    method: str
    target: str
    principal: str
    ends: datetime
    finish: Callable[[Operation], None]
    state: OperationState = OperationState.RUNNING
    code: str = ""
    message: str = ""


@dataclass
class FakeCapacity:
    """A Capacity. `settle` brings it up to now; `emit` gets every audit entry when it is written."""

    wire: Wire
    clock: Clock
    emit: Callable[[dict[str, Any]], None] = lambda _entry: None
    create_seconds: float = 120
    delete_seconds: float = 30
    nodes: dict[str, Node] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    """Name of every node that ever began to exist by a call of the service."""
    deleted: list[str] = field(default_factory=list)
    """Name in every delete call of the service that was accepted."""
    stockouts: set[str] = field(default_factory=set)
    """Zones without capacity: creates are accepted there, and their operations fail."""
    refusals: dict[str, Refused] = field(default_factory=dict)
    """Zones in which create calls are refused at once."""
    unlistable: set[str] = field(default_factory=set)
    without_attributes: bool = False
    """Guest attributes are switched off by the organisation."""
    _requests: dict[tuple[str, str], tuple[datetime, str]] = field(default_factory=dict)
    _count: int = 0

    # The port

    def describe(self, name: str) -> NodeReading:
        """See Capacity.describe."""
        try:
            return self.wire.carry("capacity", "describe", name, lambda: self._reading(name))
        except Unreadable as problem:
            return NodeReading(name=name, presence=Presence.UNREADABLE, problem=str(problem))

    def describe_operation(self, name: str) -> OperationReading:
        """See Capacity.describe_operation."""
        try:
            return self.wire.carry("capacity", "describe_operation", name, lambda: self._operation_reading(name))
        except Unreadable as problem:
            return OperationReading(state=OperationState.UNREADABLE, message=str(problem))

    def list_nodes(self, project: str, zone: str) -> Sequence[NodeReading]:
        """See Capacity.list_nodes."""
        return self.wire.carry("capacity", "list_nodes", zone, lambda: self._list(project, zone))

    def create(self, request: NodeRequest) -> str:
        """See Capacity.create."""
        name = f"{request.parent}/nodes/{request.node_id}"
        return self.wire.carry("capacity", "create", name, lambda: self._create(name, request))

    def delete(self, name: str) -> None:
        """See Capacity.delete."""
        self.wire.carry("capacity", "delete", name, lambda: self._delete(name, SERVICE_ACCOUNT))

    def write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """See Capacity.write_metadata."""
        self.wire.carry("capacity", "write_metadata", name, lambda: self._write_metadata(name, values))

    def attributes(self, name: str) -> Attributes:
        """See Capacity.attributes."""
        return self.wire.carry("capacity", "attributes", name, lambda: self._attributes(name))

    # What befalls nodes

    def settle(self) -> None:
        """End the operations whose time has come."""
        for operation in sorted(self.operations.values(), key=lambda one: (one.ends, one.name)):
            if operation.state is OperationState.RUNNING and operation.ends <= self.clock():
                operation.state = OperationState.SUCCEEDED
                operation.finish(operation)
                error = (8, operation.message) if operation.code else None
                self._log(operation, last=True, error=error)

    def next_moment(self) -> datetime | None:
        """When the next operation ends."""
        running = (one.ends for one in self.operations.values() if one.state is OperationState.RUNNING)
        return min(running, default=None)

    def preempt(self, name: str) -> None:
        """The cloud takes a Spot node: it is PREEMPTED, keeps its name, and entries say so."""
        node = self.nodes[name]
        node.state, node.reports = "PREEMPTED", {}
        for instance in instances(node):
            self.emit(system_event("compute.instances.preempted", instance, self.clock()))
        self.emit(system_event("tpu.nodes.terminate", name, self.clock()))

    def forget(self, name: str) -> None:
        """The node vanishes, and nothing says so."""
        del self.nodes[name]

    def delete_by(self, principal: str, name: str) -> None:
        """Somebody else deletes a node."""
        self._delete(name, principal)

    def add(self, name: str, labels: Mapping[str, str] | None = None, state: str = "READY") -> Node:
        """A node that the service has not created in this test."""
        self._count += 1
        node = Node(name, str(self._count), self.clock(), dict(labels or {}), {}, state)
        self.nodes[name] = node
        return node

    # Inside

    def _reading(self, name: str) -> NodeReading:
        node = self.nodes.get(name)
        if node is None:
            return NodeReading(name=name, presence=Presence.ABSENT)
        return NodeReading(
            name=name,
            presence=Presence.PRESENT,
            state=node.state,
            health="HEALTHY",
            id=node.id,
            create_time=node.create_time,
            labels=dict(node.labels),
            workers=len(node.hostnames),
        )

    def _operation_reading(self, name: str) -> OperationReading:
        operation = self.operations.get(name)
        if operation is None or self.clock() > operation.ends + OPERATION_MEMORY:
            return OperationReading(state=OperationState.FORGOTTEN)
        return OperationReading(state=operation.state, code=operation.code, message=operation.message)

    def _list(self, project: str, zone: str) -> list[NodeReading]:
        if zone in self.unlistable:
            raise Unreadable(f"UNAVAILABLE: {zone}")
        prefix = f"projects/{project}/locations/{zone}/nodes/"
        return [self._reading(name) for name in sorted(self.nodes) if name.startswith(prefix)]

    def _create(self, name: str, request: NodeRequest) -> str:
        made, operation = self._requests.get((name, request.request_id), (None, ""))
        if made is not None and self.clock() - made <= REQUEST_MEMORY:
            return operation
        zone = zone_of(name)
        if zone in self.refusals:
            raise self.refusals[zone]
        if name in self.nodes:
            raise AlreadyExists(name)
        node = self.add(name, request.node["labels"], "CREATING")
        node.metadata = dict(request.node["metadata"])
        self.created.append(name)
        operation = self._start("CreateNode", name, SERVICE_ACCOUNT, self.create_seconds, self._created).name
        self._requests[name, request.request_id] = (self.clock(), operation)
        return operation

    def _created(self, operation: Operation) -> None:
        node = self.nodes.get(operation.target)
        if node is None or node.state != "CREATING":
            operation.state, operation.code, operation.message = OperationState.FAILED, "CANCELLED", "deleted meanwhile"
        elif zone_of(node.name) in self.stockouts:
            del self.nodes[node.name]
            operation.state, operation.code = OperationState.FAILED, "RESOURCE_EXHAUSTED"
            operation.message = "There is no more capacity in the zone"
        else:
            node.state, node.hostnames = "READY", (f"t1v-n-{int(node.id):08x}-w-0",)

    def _delete(self, name: str, principal: str) -> None:
        if name not in self.nodes:
            raise NotFound(name)
        self.nodes[name].state = "DELETING"
        if principal == SERVICE_ACCOUNT:
            self.deleted.append(name)
        self._start("DeleteNode", name, principal, self.delete_seconds, self._deleted)

    def _deleted(self, operation: Operation) -> None:
        self.nodes.pop(operation.target, None)

    def _write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        if name not in self.nodes:
            raise NotFound(name)
        node = self.nodes[name]
        if node.state != "READY":
            raise Refused("FAILED_PRECONDITION", f"{name} is {node.state}")
        node.metadata.update(values)

    def _attributes(self, name: str) -> Attributes:
        node = self.nodes.get(name)
        if self.without_attributes or node is None:
            raise Unreadable(f"no guest attributes of {name}")
        return Attributes(hostnames=node.hostnames, reports=tuple(node.reports.values()))

    def _start(
        self, method: str, target: str, principal: str, seconds: float, finish: Callable[[Operation], None]
    ) -> Operation:
        self._count += 1
        name = f"{target.split('/nodes/', maxsplit=1)[0]}/operations/operation-{self._count}"
        ends = self.clock() + timedelta(seconds=seconds)
        operation = self.operations[name] = Operation(name, method, target, principal, ends, finish)
        self._log(operation, last=False)
        return operation

    def _log(self, operation: Operation, *, last: bool, error: tuple[int, str] | None = None) -> None:
        entry = api_call(
            operation.method,
            operation.target,
            self.clock(),
            principal=operation.principal,
            operation=operation.name,
            last=last,
            error=error,
        )
        self.emit(entry)


def zone_of(name: str) -> str:
    """The zone in a node's full name."""
    return name.split("/")[3]


def instances(node: Node) -> list[str]:
    """Full names of the node's worker VMs, as Compute Engine's entries have them."""
    prefix = f"projects/{node.name.split('/')[1]}/zones/{zone_of(node.name)}/instances"
    return [f"{prefix}/{name}" for name in node.hostnames]
