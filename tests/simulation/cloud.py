"""What the TPU API answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from tests.fakes.entries import SERVICE_ACCOUNT
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Hub
from tests.simulation.invariants import Invariants
from tests.simulation.platform import Node, Platform
from tests.simulation.vms import Vms

from tpu_recovery.errors import AlreadyExists, NotFound, Refused, Unreadable
from tpu_recovery.model.names import LABEL_JOB
from tpu_recovery.model.observed import NodeReading, OperationReading, OperationState, Presence
from tpu_recovery.model.validate import HANDOFF_KEY
from tpu_recovery.recovery.ports import Attributes, NodeRequest

REQUEST_MEMORY = timedelta(hours=1)
OPERATION_MEMORY = timedelta(hours=12)


class Cloud:
    """What the Capacity port does, without the calls in between: `tests.simulation.wires` has those."""

    def __init__(self, hub: Hub, faults: Faults, platform: Platform, vms: Vms, invariants: Invariants) -> None:
        self.attributes_off: set[str] = set()
        """Jobs whose VMs may not use guest attributes."""
        self._hub, self._faults, self._platform, self._vms = hub, faults, platform, vms
        self._invariants = invariants
        self._requests: dict[tuple[str, str], tuple[datetime, str]] = {}

    def describe(self, name: str, stale: timedelta) -> NodeReading:
        """A reading, as old as `stale`."""
        node, then = self._platform.nodes.get(name), self._hub.now - stale
        if node is None or node.born > then or (node.hidden_until is not None and then < node.hidden_until):
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
        operation = self._platform.operations.get(name)
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
        readings = (self.describe(name, stale) for name in sorted(self._platform.nodes) if name.startswith(prefix))
        return [reading for reading in readings if reading.presence is Presence.PRESENT]

    def create(self, request: NodeRequest) -> str:
        """See Capacity.create."""
        name = f"{request.parent}/nodes/{request.node_id}"
        labels, metadata = request.node["labels"], dict(request.node["metadata"])
        self._invariants.asks(labels[LABEL_JOB], name, request.request_id, self._hub.running)
        asked = self._requests.get((name, request.request_id))
        if asked is not None and not self._forgotten(asked[0]):
            return asked[1]
        if name in self._platform.nodes:
            raise AlreadyExists(name)
        resume = json.loads(metadata[HANDOFF_KEY])["resume"]
        self._invariants.creates(labels[LABEL_JOB], name, resume, self._vms.bucket(labels[LABEL_JOB]).ever_complete)
        operation = self._platform.begin(name, labels, metadata)
        self._requests[name, request.request_id] = (self._hub.now, operation.name)
        return operation.name

    def _forgotten(self, asked: datetime) -> bool:
        return self._hub.now - asked > REQUEST_MEMORY and self._faults.strikes(Fault.REQUEST_FORGOTTEN)

    def delete(self, name: str) -> None:
        """See Capacity.delete."""
        node = self._existing(name)
        self._invariants.deletes(node.job, name)
        self._platform.delete(node, SERVICE_ACCOUNT)

    def write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """See Capacity.write_metadata."""
        node = self._existing(name)
        self._invariants.updates(node.job, name)
        if node.state != "READY":
            raise Refused("INVALID_ARGUMENT", f"update is not supported while in state {node.state}")
        node.metadata = {**node.metadata, **values}
        self._vms.metadata_changed(node)

    def attributes(self, name: str) -> Attributes:
        """See Capacity.attributes."""
        node = self._platform.nodes.get(name)
        if node is None or node.job in self.attributes_off:
            raise Unreadable(f"no guest attributes of {name}")
        return Attributes((node.hostname,) if node.state == "READY" else (), tuple(node.reports.values()))

    def rewrite_metadata_late(self, job: str) -> None:
        """`gcloud ssh` reads the metadata map, and writes the whole map back a moment later."""
        node = self._platform.of(job, "READY")
        if node is not None:
            self._hub.after(self._hub.between(1, 8), f"ssh to {node.name}", self._restorer(node, dict(node.metadata)))

    def _restorer(self, node: Node, metadata: dict[str, str]) -> Callable[[], None]:
        def restore() -> None:
            if self._platform.nodes.get(node.name) is node and node.state == "READY":
                node.metadata = {**metadata, "ssh-keys": "somebody"}
                self._vms.metadata_changed(node)

        return restore

    def _existing(self, name: str) -> Node:
        node = self._platform.nodes.get(name)
        if node is None:
            raise NotFound(name)
        return node
