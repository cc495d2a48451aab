"""The platform: nodes that are created, become READY, are taken, forgotten, deleted; and what it writes about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.entries import PERSON, SERVICE_ACCOUNT, api_call, system_event
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Hub
from tests.simulation.invariants import Invariants
from tests.simulation.vms import Vms

from tpu_recovery.errors import AlreadyExists, NotFound, Refused, Unreadable
from tpu_recovery.model.names import LABEL_JOB
from tpu_recovery.model.observed import NodeReading, OperationReading, OperationState, Presence
from tpu_recovery.recovery.ports import Attributes, NodeRequest

REQUEST_MEMORY = timedelta(hours=1)
OPERATION_MEMORY = timedelta(hours=12)
DEAD = frozenset({"PREEMPTED", "TERMINATED"})


@dataclass
class Node:
    """One node, and what its worker wrote into guest attributes."""

    name: str
    number: int
    born: datetime
    labels: Mapping[str, str]
    metadata: dict[str, str]
    state: str = "CREATING"
    reports: dict[str, str] = field(default_factory=dict)
    before: tuple[datetime, str] | None = None
    """When the state last changed, and what it was until then: what a stale answer says."""

    @property
    def job(self) -> str:
        """The job that it was made for; empty for a node of somebody else."""
        return self.labels.get(LABEL_JOB, "")

    @property
    def hostname(self) -> str:
        """Of its one worker VM."""
        return f"t1v-n-{self.number:08x}-w-0"


@dataclass
class Operation:
    """The creation of a node."""

    name: str
    target: str
    ended: datetime | None = None
    code: str = ""
    message: str = ""


class SimulatedCloud:
    """What the Capacity port does, and what happens to nodes by themselves."""

    def __init__(
        self, hub: Hub, faults: Faults, vms: Vms, invariants: Invariants, emit: Callable[[dict[str, Any]], None]
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.operations: dict[str, Operation] = {}
        self.attributes_off: set[str] = set()
        self._hub, self._faults, self._vms, self._invariants, self._emit = hub, faults, vms, invariants, emit
        self._requests: dict[tuple[str, str], tuple[datetime, str]] = {}
        self._count = 0

    # The port

    def describe(self, name: str, stale: timedelta) -> NodeReading:
        """A reading, as old as `stale`."""
        node, then = self.nodes.get(name), self._hub.now - stale
        if node is None or node.born > then:
            return NodeReading(name=name, presence=Presence.ABSENT)
        state = node.before[1] if node.before and node.before[0] > then else node.state
        return NodeReading(
            name=name,
            presence=Presence.PRESENT,
            state=state,
            health="HEALTHY",
            id=str(node.number),
            create_time=node.born,
            labels=dict(node.labels),
            workers=1 if state != "CREATING" else 0,
        )

    def describe_operation(self, name: str) -> OperationReading:
        """See Capacity.describe_operation."""
        operation = self.operations.get(name)
        if operation is None:
            return OperationReading(state=OperationState.FORGOTTEN)
        if operation.ended is None:
            return OperationReading(state=OperationState.RUNNING)
        if self._hub.now > operation.ended + OPERATION_MEMORY:
            return OperationReading(state=OperationState.FORGOTTEN)
        state = OperationState.FAILED if operation.code else OperationState.SUCCEEDED
        return OperationReading(state=state, code=operation.code, message=operation.message)

    def list_nodes(self, project: str, zone: str, stale: timedelta) -> Sequence[NodeReading]:
        """See Capacity.list_nodes."""
        prefix = f"projects/{project}/locations/{zone}/nodes/"
        readings = (self.describe(name, stale) for name in sorted(self.nodes) if name.startswith(prefix))
        return [reading for reading in readings if reading.presence is Presence.PRESENT]

    def create(self, request: NodeRequest) -> str:
        """See Capacity.create."""
        name = f"{request.parent}/nodes/{request.node_id}"
        asked = self._requests.get((name, request.request_id))
        if asked is not None and self._hub.now - asked[0] <= REQUEST_MEMORY:
            return asked[1]
        if name in self.nodes:
            raise AlreadyExists(name)
        node = self._add(name, request.node["labels"], dict(request.node["metadata"]))
        self._invariants.created(node.job, name, request.request_id)
        operation = Operation(f"{request.parent}/operations/operation-{self._count}", name)
        self.operations[operation.name] = operation
        self._requests[name, request.request_id] = (self._hub.now, operation.name)
        self._emit(api_call("CreateNode", name, self._hub.now, principal=SERVICE_ACCOUNT, operation=operation.name))
        self._schedule_end(operation, node)
        return operation.name

    def delete(self, name: str) -> None:
        """See Capacity.delete."""
        node = self.nodes.get(name)
        if node is None:
            raise NotFound(name)
        self._invariants.deleted(node.job, name, training=name in self._vms.training)
        self._delete(node, SERVICE_ACCOUNT)

    def write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """See Capacity.write_metadata."""
        node = self.nodes.get(name)
        if node is None:
            raise NotFound(name)
        if node.state != "READY":
            raise Refused("INVALID_ARGUMENT", f"update is not supported while in state {node.state}")
        node.metadata = {**node.metadata, **values}
        self._vms.metadata_changed(node)

    def attributes(self, name: str) -> Attributes:
        """See Capacity.attributes."""
        node = self.nodes.get(name)
        if node is None or node.job in self.attributes_off:
            raise Unreadable(f"no guest attributes of {name}")
        return Attributes((node.hostname,) if node.state == "READY" else (), tuple(node.reports.values()))

    # What happens to nodes

    def add_foreign(self, name: str) -> None:
        """A node of somebody else."""
        self._add(name, {}, {}).state = "READY"

    def delete_by_person(self, job: str) -> str:
        """A person deletes the newest node of a job; gives its name, empty when there is none."""
        nodes = [node for node in self.nodes.values() if node.job == job and node.state == "READY"]
        if not nodes:
            return ""
        self._delete(nodes[-1], PERSON)
        return nodes[-1].name

    def rewrite_metadata_late(self, job: str) -> None:
        """`gcloud ssh` reads the metadata map, and writes the whole map back a moment later."""
        for node in [node for node in self.nodes.values() if node.job == job and node.state == "READY"]:
            self._hub.after(self._hub.between(1, 8), f"ssh to {node.name}", self._restorer(node, dict(node.metadata)))

    def _restorer(self, node: Node, metadata: dict[str, str]) -> Callable[[], None]:
        def restore() -> None:
            if self.nodes.get(node.name) is node and node.state == "READY":
                node.metadata = {**metadata, "ssh-keys": "somebody"}
                self._vms.metadata_changed(node)

        return restore

    def _add(self, name: str, labels: Mapping[str, str], metadata: dict[str, str]) -> Node:
        self._count += 1
        node = self.nodes[name] = Node(name, self._count, self._hub.now, dict(labels), metadata)
        return node

    def _remove(self, node: Node) -> None:
        del self.nodes[node.name]
        node.state = "GONE"

    def _set(self, node: Node, state: str) -> None:
        node.before = (self._hub.now, node.state)
        node.state = state

    def _schedule_end(self, operation: Operation, node: Node) -> None:
        hub, rate = self._hub, self._faults.rate
        late, out = hub.happens(rate(Fault.FAILS_LATE)), hub.happens(rate(Fault.NO_CAPACITY))
        seconds = hub.between(1200, 2400) if late else hub.between(45, 200)
        failed = late or out
        hub.after(seconds, f"create of {node.name} ends", lambda: self._created(operation, node, failed))

    def _created(self, operation: Operation, node: Node, failed: bool) -> None:
        operation.ended, error = self._hub.now, None
        if self.nodes.get(node.name) is not node or node.state != "CREATING":
            operation.code, operation.message = "CANCELLED", "the node was deleted meanwhile"
            error = (1, operation.message)
        elif failed:
            operation.code, operation.message = "RESOURCE_EXHAUSTED", "There is no more capacity in the zone"
            error = (8, operation.message)
            self._remove(node)
        else:
            self._set(node, "READY")
            self._vms.boot(node)
            self._schedule_loss(node)
        entry = api_call(
            "CreateNode",
            node.name,
            self._hub.now,
            principal=SERVICE_ACCOUNT,
            operation=operation.name,
            last=True,
            error=error,
        )
        self._emit(entry)

    def _schedule_loss(self, node: Node) -> None:
        mean = self._faults.rate(Fault.PREEMPTED)
        if mean:
            self._hub.after(self._hub.waiting_time(mean), f"{node.name} is to be taken", lambda: self._notice(node))

    def _notice(self, node: Node) -> None:
        if self.nodes.get(node.name) is not node or node.state != "READY" or not self._faults.rate(Fault.PREEMPTED):
            return
        workers = 16 if self._hub.happens(self._faults.rate(Fault.FANNED_OUT)) else 1
        for worker in range(workers):
            instance = node.name.replace("/locations/", "/zones/").replace(
                f"/nodes/{node.name.rsplit('/', 1)[1]}", f"/instances/{node.hostname[:-1]}{worker}"
            )
            self._emit(system_event("compute.instances.preempted", instance, self._hub.now, f"{node.number}-{worker}"))
        self._vms.notice(node)
        self._hub.after(30, f"{node.name} is taken", lambda: self._take(node))

    def _take(self, node: Node) -> None:
        if self.nodes.get(node.name) is not node:
            return
        self._vms.die(node)
        forgotten = self._hub.happens(self._faults.rate(Fault.FORGOTTEN))
        stuck = self._hub.happens(self._faults.rate(Fault.STUCK_STATE))
        if node.state == "DELETING":
            return
        if not forgotten or self._hub.happens(0.5):
            self._emit(system_event("tpu.nodes.terminate", node.name, self._hub.now, str(node.number)))
        if forgotten:
            self._remove(node)
        elif stuck:
            self._set(node, self._hub.chance.choice(("REPAIRING", "UNKNOWN", "99", "HIDDEN")))
            self._hub.after(self._hub.between(60, 1200), f"{node.name} shows", lambda: self._show_taken(node))
        else:
            self._set(node, self._hub.chance.choice(("PREEMPTED", "PREEMPTED", "TERMINATED")))

    def _show_taken(self, node: Node) -> None:
        if self.nodes.get(node.name) is node and node.state != "DELETING":
            self._set(node, "PREEMPTED")

    def _delete(self, node: Node, principal: str) -> None:
        operation = f"delete-{node.number}-{self._hub.steps}"
        self._emit(api_call("DeleteNode", node.name, self._hub.now, principal=principal, operation=operation))
        if node.state != "DELETING":
            self._set(node, "DELETING")
            seconds = self._hub.between(10, 90)
            self._hub.after(seconds, f"{node.name} is gone", lambda: self._deleted(node, principal, operation))

    def _deleted(self, node: Node, principal: str, operation: str) -> None:
        self._vms.die(node)
        if self.nodes.get(node.name) is node:
            self._remove(node)
        entry = api_call("DeleteNode", node.name, self._hub.now, principal=principal, operation=operation, last=True)
        self._emit(entry)
