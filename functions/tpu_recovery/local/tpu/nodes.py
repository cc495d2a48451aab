"""The life of the nodes: what the calls of the Cloud TPU API do to them."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from google.cloud.tpu_v2alpha1.types import Node
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict

from . import audit, operations, refusals, rules
from .accelerators import workers_of
from .agenda import Agenda
from .faults import Fault, Faults
from .machines import Machines, NodeMachines
from .operations import Operation
from .refusals import Refused
from .settings import TpuSettings

State = Node.State
NodeMessage = Node.pb()


@dataclass(eq=False)
class Record:
    """A node and what belongs to it. ``message`` is a protobuf Node: its enum fields hold any number."""

    message: Any
    hostnames: tuple[str, ...]
    instance_ids: tuple[int, ...]
    guest_attributes: list[dict[tuple[str, str], str]]
    has_vms: bool = False
    updating: bool = False

    @property
    def name(self) -> str:
        """The node's full name."""
        return str(self.message.name)

    @property
    def state_name(self) -> str:
        """The node's state in words; the number where this client has no word for it."""
        number = self.message.state
        return State(number).name if number in list(State) else str(number)


@dataclass
class Nodes:
    """All nodes and operations.

    Every method is called with ``lock`` held. What it has to tell the outside (audit entries, orders to the VMs) is
    put on ``outbox``, to be done in order after the lock is released: whoever hears of it may call back.
    """

    settings: TpuSettings
    clock: Callable[[], float]
    emit: Callable[[audit.Entry], None]
    machines: Machines
    lock: threading.RLock = field(default_factory=threading.RLock)
    records: dict[str, Record] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    agenda: Agenda = field(default_factory=Agenda)
    faults: Faults = field(default_factory=Faults)
    outbox: deque[Callable[[], None]] = field(default_factory=deque)
    _requests: dict[tuple[str, str, str], Operation] = field(default_factory=dict)

    def record(self, name: str) -> Record:
        """The node of this name; raises Refused with NOT_FOUND."""
        rules.check_zone(rules.split_node(name)[1], self.settings.offers)
        if name not in self.records:
            raise refusals.not_found(name)
        return self.records[name]

    def _remember(self, operation: Operation, request_id: str) -> Operation:
        if request_id:
            self._requests[operation.method, operation.target, request_id] = operation
        return operation

    def _remembered(self, method: str, name: str, request_id: str) -> Operation | None:
        """The operation that this very request has started already."""
        rules.check_request_id(request_id)
        operation = self._requests.get((method, name, request_id))
        if operation is None or self.clock() - operation.created > self.settings.request_id_memory:
            return None
        return operation

    def create(self, request: Any, principal: str) -> Operation:
        """CreateNode: the node exists from now on and is READY later, unless there is no capacity."""
        _, zone = rules.split_parent(request.parent)
        name = f"{request.parent}/nodes/{request.node_id}"
        known = self._remembered("CreateNode", name, request.request_id)
        if known is not None:
            return known
        rules.check_new_node(request.node_id, request.node, zone, self.settings.offers)
        if name in self.records:
            raise refusals.already_exists(name)
        if self.faults.take(Fault.QUOTA, zone):
            raise refusals.quota_exceeded(zone, self.settings.project_number)
        record = self._new_record(name, request.node)
        self.records[name] = record
        operation = self.start(
            "CreateNode",
            record,
            principal,
            self.settings.create_seconds,
            lambda: self._created(record, zone),
            request=_logged_request(request),
        )
        return self._remember(operation, request.request_id)

    def _new_record(self, name: str, node: Any) -> Record:
        message = NodeMessage()
        message.CopyFrom(node)
        message.name = name
        message.accelerator_type = rules.accelerator_type_of(node)
        message.state = State.CREATING
        message.health = Node.Health.HEALTHY
        message.api_version = Node.ApiVersion.V2_ALPHA1
        message.id = secrets.randbits(62) + 1
        message.create_time.FromDatetime(datetime.fromtimestamp(self.clock(), UTC))
        workers = range(workers_of(message.accelerator_type))
        fresh = secrets.token_hex(4)
        return Record(
            message,
            hostnames=tuple(f"t1v-n-{fresh}-w-{worker}" for worker in workers),
            instance_ids=tuple(secrets.randbits(62) + 1 for _ in workers),
            guest_attributes=[{} for _ in workers],
        )

    def _created(self, record: Record, zone: str) -> Any:
        self._require_alive(record)
        if record.message.state != State.CREATING:  # preempted while it was being created, for example
            raise refusals.not_supported_in_state("update", record.state_name)
        try:
            self.faults.check_capacity(zone)
        except Refused:
            self.remove(record)
            raise
        record.message.state = State.READY
        external = record.message.network_config.enable_external_ips
        for worker in range(len(record.hostnames)):
            endpoint = record.message.network_endpoints.add(ip_address=f"10.128.0.{worker + 2}", port=8470)
            if external:
                endpoint.access_config.external_ip = f"192.0.2.{worker + 1}"
        self.boot(record)
        return copy_of(record)

    def delete(self, request: Any, principal: str) -> Operation:
        """DeleteNode: from any state, even twice."""
        known = self._remembered("DeleteNode", request.name, request.request_id)
        if known is not None:
            return known
        record = self.record(request.name)
        record.message.state = State.DELETING
        self.shut_down(record)
        operation = self.start(
            "DeleteNode", record, principal, self.settings.delete_seconds, lambda: self._deleted(record)
        )
        return self._remember(operation, request.request_id)

    def _deleted(self, record: Record) -> Any:
        self.remove(record)
        return Empty()

    def update(self, request: Any, principal: str) -> Operation:
        """UpdateNode: replace the fields of the mask, the whole metadata map for example."""
        record = self.record(request.node.name)
        rules.check_mask(request.update_mask.paths)
        rules.check_changeable_fields(request.node)
        if record.message.state != State.READY:  # known of PREEMPTED, taken to hold for the others
            raise refusals.not_supported_in_state("update", record.state_name)
        if record.updating:
            raise refusals.update_in_flight(record.name)
        record.updating = True
        return self.start(
            "UpdateNode", record, principal, self.settings.update_seconds, lambda: self._updated(record, request)
        )

    def _updated(self, record: Record, request: Any) -> Any:
        record.updating = False
        self._require_alive(record)
        if record.message.state != State.READY:
            raise refusals.not_supported_in_state("update", record.state_name)
        # Replacing messages and lists, not merging them: a map becomes what the request holds, empty if it holds none.
        request.update_mask.MergeMessage(request.node, record.message, True, True)
        metadata = dict(record.message.metadata)
        self.outbox.append(lambda: self.machines.update(record.name, metadata))
        return copy_of(record)

    def start(
        self,
        method: str,
        record: Record,
        principal: str,
        seconds: float,
        finish: Callable[[], Any],
        *,
        request: dict[str, Any] | None = None,
    ) -> Operation:
        """Accept work on a node: ``finish`` does it when the time has come, and gives the response or is refused."""
        now = self.clock()
        parent = record.name.rsplit("/nodes/", 1)[0]
        operation = Operation(operations.new_name(parent, now), method, record.name, principal, now)
        self.operations[operation.name] = operation
        self.agenda.add(now + seconds, lambda: self._end(operation, finish))
        self.log(audit.accepted(operation, request))
        return operation

    def _end(self, operation: Operation, finish: Callable[[], Any]) -> None:
        try:
            operation.response = finish()
        except Refused as refusal:
            operation.error = refusal.status()
        operation.ended = self.clock()
        self.log(audit.ended(operation, operation.ended))

    def _require_alive(self, record: Record) -> None:
        if self.records.get(record.name) is not record or record.message.state == State.DELETING:
            raise refusals.cancelled_by_delete(record.name)

    def log(self, entry: audit.Entry) -> None:
        """Write an audit entry, after the lock is released."""
        self.outbox.append(lambda: self.emit(entry))

    def boot(self, record: Record) -> None:
        """Switch the node's VMs on."""
        record.has_vms = True

        def set_guest_attribute(worker: int, namespace: str, key: str, value: str) -> None:
            with self.lock:
                if record.has_vms:
                    record.guest_attributes[worker][namespace, key] = value

        order = NodeMachines(
            node=record.name,
            project_number=self.settings.project_number,
            accelerator_type=record.message.accelerator_type,
            hostnames=record.hostnames,
            instance_ids=record.instance_ids,
            metadata=dict(record.message.metadata),
            set_guest_attribute=set_guest_attribute,
        )
        self.outbox.append(lambda: self.machines.boot(order))

    def shut_down(self, record: Record, *, preempted: bool = False) -> None:
        """Ask the node's VMs to stop."""
        if record.has_vms:
            self.outbox.append(lambda: self.machines.shut_down(record.name, preempted=preempted))

    def kill(self, record: Record) -> None:
        """Switch the node's VMs off for good."""
        if not record.has_vms:
            return
        record.has_vms = False
        self.outbox.append(lambda: self.machines.kill(record.name))
        if not self.settings.guest_attributes_outlive_vms:
            record.guest_attributes = [{} for _ in record.hostnames]

    def remove(self, record: Record) -> None:
        """Forget the node, its VMs with it; its name is free again."""
        self.kill(record)
        if self.records.get(record.name) is record:
            del self.records[record.name]


def copy_of(record: Record) -> Any:
    """The node as a message of its own, to be sent without the lock."""
    message = NodeMessage()
    message.CopyFrom(record.message)
    return message


def _logged_request(request: Any) -> dict[str, Any]:
    """The request as an entry shows it; without metadata, which alone may be larger than an entry can be (256 KB)."""
    shown: dict[str, Any] = MessageToDict(request, preserving_proto_field_name=True)
    shown["node"].pop("metadata", None)
    shown.pop("request_id", None)
    return {"@type": "type.googleapis.com/google.cloud.tpu.v2alpha1.CreateNodeRequest"} | shown
