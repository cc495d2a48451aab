"""Nodes and what becomes of them: created, taken, forgotten, stopped, deleted; and what is logged about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.entries import PERSON, SERVICE_ACCOUNT, api_call, system_event
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Hub
from tests.simulation.vms import Disk, Vms

from tpu_recovery.model.names import LABEL_JOB

STOPPED_BY_PERSON = frozenset({"STOPPING", "STOPPED", "STARTING"})


@dataclass
class Node:
    """One node, and what its worker wrote into guest attributes."""

    name: str
    number: int
    born: datetime
    labels: Mapping[str, str]
    metadata: dict[str, str]
    ours: bool
    """Whether the service has created it: what its labels say can be anybody's."""
    state: str = "CREATING"
    reports: dict[str, str] = field(default_factory=dict)
    disk: Disk = field(default_factory=Disk)
    hidden_until: datetime | None = None
    """GetNode does not find it before this moment, although its create was accepted."""
    before: tuple[datetime, str] | None = None
    """When the state last changed, and what it was until then: what a stale answer says."""

    @property
    def job(self) -> str:
        """The job that it was made for; empty for a node of somebody else."""
        return self.labels.get(LABEL_JOB, "") if self.ours else ""

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


class Platform:
    """All nodes of the project."""

    def __init__(self, hub: Hub, faults: Faults, vms: Vms) -> None:
        self.emit: Callable[[dict[str, Any]], None] = lambda _entry: None
        """Where entries go."""
        self.nodes: dict[str, Node] = {}
        self.operations: dict[str, Operation] = {}
        self.claimed: set[str] = set()
        """Nodes about which an entry says that a person deleted them, and that this succeeded: rightly or not."""
        self._hub, self._faults, self._vms = hub, faults, vms
        self._count = 0

    def of(self, job: str, state: str) -> Node | None:
        """The newest node of a job that is in this state."""
        found = [node for node in self.nodes.values() if node.job == job and node.state == state]
        return found[-1] if found else None

    def of_operation(self, name: str) -> Operation | None:
        """The creation of a node that was asked for last."""
        return next((one for one in reversed(self.operations.values()) if one.target == name), None)

    # Creating

    def add(self, name: str, labels: Mapping[str, str], metadata: dict[str, str], *, ours: bool) -> Node:
        """A node of this name, in state CREATING."""
        self._count += 1
        node = self.nodes[name] = Node(name, self._count, self._hub.now, dict(labels), metadata, ours)
        return node

    def add_foreign(self, name: str, labels: Mapping[str, str]) -> None:
        """A node that somebody else has made."""
        self.add(name, labels, {}, ours=False).state = "READY"

    def begin(self, name: str, labels: Mapping[str, str], metadata: dict[str, str]) -> Operation:
        """The creation of a node of ours begins."""
        node = self.add(name, labels, metadata, ours=True)
        operation = Operation(f"{name.split('/nodes/', maxsplit=1)[0]}/operations/operation-{self._count}", name)
        self.operations[operation.name] = operation
        if self._faults.strikes(Fault.NODE_HIDDEN):
            node.hidden_until = self._hub.now + timedelta(seconds=self._hub.between(10, 300))
        self._log_create(operation)
        late, out = (self._faults.strikes(fault) for fault in (Fault.FAILS_LATE, Fault.NO_CAPACITY))
        seconds = self._hub.between(1200, 2400) if late else self._hub.between(45, 200)
        self._hub.after(seconds, f"create of {name} ends", lambda: self._created(operation, node, late or out))
        return operation

    def _created(self, operation: Operation, node: Node, failed: bool) -> None:
        operation.ended, error = self._hub.now, None
        node.hidden_until = None
        if self.nodes.get(node.name) is not node or node.state != "CREATING":
            operation.code, operation.message = "CANCELLED", "the node was deleted meanwhile"
            error = (1, operation.message)
        elif failed:
            operation.code, operation.message = "RESOURCE_EXHAUSTED", "There is no more capacity in the zone"
            error = (8, operation.message)
            self._remove(node)
        else:
            self._becomes_ready(node)
        self._log_create(operation, last=True, error=error)

    def _log_create(self, operation: Operation, *, last: bool = False, error: tuple[int, str] | None = None) -> None:
        entry = api_call(
            "CreateNode",
            operation.target,
            self._hub.now,
            principal=SERVICE_ACCOUNT,
            operation=operation.name,
            last=last,
            error=error,
        )
        self.emit(entry)

    def _becomes_ready(self, node: Node) -> None:
        self._set(node, "READY")
        self._vms.boot(node)
        wait = self._faults.wait(Fault.PREEMPTED)
        if wait is not None:
            self._hub.after(wait, f"{node.name} is to be taken", lambda: self._notice(node))

    def _remove(self, node: Node) -> None:
        del self.nodes[node.name]
        node.state = "GONE"

    def _set(self, node: Node, state: str) -> None:
        node.before = (self._hub.now, node.state)
        node.state = state

    def _is(self, node: Node, *states: str) -> bool:
        return self.nodes.get(node.name) is node and node.state in states

    # Losing

    def _notice(self, node: Node) -> None:
        if not self._is(node, "READY") or not self._faults.happens(Fault.PREEMPTED):
            return
        for worker in range(16 if self._faults.strikes(Fault.FANNED_OUT) else 1):
            instance = node.name.replace("/locations/", "/zones/").replace(
                f"/nodes/{node.name.rsplit('/', 1)[1]}", f"/instances/{node.hostname[:-1]}{worker}"
            )
            self.emit(system_event("compute.instances.preempted", instance, self._hub.now, f"{node.number}-{worker}"))
        self._vms.notice(node)
        self._hub.after(30, f"{node.name} is taken", lambda: self._take(node))

    def _take(self, node: Node) -> None:
        if not self._is(node, "READY"):
            return
        self._vms.die(node)
        forgotten, stuck = (self._faults.strikes(fault) for fault in (Fault.FORGOTTEN, Fault.STUCK_STATE))
        if not forgotten or self._hub.happens(0.5):
            self.emit(system_event("tpu.nodes.terminate", node.name, self._hub.now, str(node.number)))
        if forgotten:
            self._remove(node)
        elif stuck:
            self._set(node, self._hub.chance.choice(("REPAIRING", "UNKNOWN", "99", "HIDDEN")))
            self._hub.after(self._hub.between(60, 1200), f"{node.name} shows", lambda: self._show_taken(node))
        else:
            self._set(node, self._hub.chance.choice(("PREEMPTED", "PREEMPTED", "TERMINATED")))

    def _show_taken(self, node: Node) -> None:
        if self._is(node, "REPAIRING", "UNKNOWN", "99", "HIDDEN"):
            self._set(node, "PREEMPTED")

    # Calls of others and of the service

    def delete(self, node: Node, principal: str) -> None:
        """DeleteNode, by the service or a person."""
        operation = f"delete-{node.number}-{self._hub.steps}"
        self._log("DeleteNode", node, principal, operation)
        if node.state != "DELETING":
            self._set(node, "DELETING")
            seconds = self._hub.between(10, 240)
            self._hub.after(seconds, f"{node.name} is gone", lambda: self._deleted(node, principal, operation))

    def _deleted(self, node: Node, principal: str, operation: str) -> None:
        self._vms.die(node)
        if self.nodes.get(node.name) is node:
            self._remove(node)
        self._log("DeleteNode", node, principal, operation, last=True)

    def stop(self, node: Node) -> None:
        """A person stops a READY node."""
        operation = f"stop-{node.number}-{self._hub.steps}"
        self._log("StopNode", node, PERSON, operation)
        self._set(node, "STOPPING")
        self._vms.notice(node)
        self._hub.after(self._hub.between(30, 90), f"{node.name} has stopped", lambda: self._stopped(node, operation))

    def _stopped(self, node: Node, operation: str) -> None:
        if self._is(node, "STOPPING"):
            self._vms.die(node)
            self._set(node, "STOPPED")
            self._log("StopNode", node, PERSON, operation, last=True)

    def start(self, node: Node) -> None:
        """A person starts a STOPPED node."""
        operation = f"start-{node.number}-{self._hub.steps}"
        self._log("StartNode", node, PERSON, operation)
        self._set(node, "STARTING")
        self._hub.after(self._hub.between(40, 120), f"{node.name} has started", lambda: self._started(node, operation))

    def _started(self, node: Node, operation: str) -> None:
        if self._is(node, "STARTING"):
            self._becomes_ready(node)
            self._log("StartNode", node, PERSON, operation, last=True)

    def _log(self, method: str, node: Node, principal: str, operation: str, *, last: bool = False) -> None:
        self.emit(api_call(method, node.name, self._hub.now, principal=principal, operation=operation, last=last))
