"""The ports of the service: each call takes time, and may fail, crash, freeze or be answered with old news."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from tests.simulation.cloud import Cloud
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Crash, Hub
from tests.simulation.store import SimulatedStore
from tests.simulation.tasks import Tasks
from tests.simulation.vms import Vms

from tpu_recovery.errors import Conflict, Refused, Unreadable
from tpu_recovery.model.decision import Notify
from tpu_recovery.model.observed import (
    CheckpointFinding,
    CheckpointReading,
    NodeReading,
    OperationReading,
    OperationState,
    Presence,
)
from tpu_recovery.model.spec import Checkpoints
from tpu_recovery.recovery.ports import Attributes, Filter, NodeRequest, Stored, Write

T = TypeVar("T")
LONGEST_FREEZE = 24 * 3600.0


class Wires:
    """Where every call passes."""

    def __init__(self, hub: Hub, faults: Faults) -> None:
        self.hub = hub
        self.faults = faults

    def carry(self, seconds: float, work: Callable[[], T], refuses: Mapping[Fault, Exception], lost: Fault) -> T:
        """Make one call of an invocation: ``refuses`` may come instead of it, ``lost`` is the answer that gets lost."""
        invocation = self.hub.running
        if invocation is None:
            raise RuntimeError("a call of a port outside an invocation")
        strikes = self.faults.strikes
        frozen = strikes(Fault.FREEZE_BEFORE)
        invocation.wait(self._long() if frozen else seconds * self.hub.between(0.5, 2))
        if strikes(Fault.CRASH_BEFORE):
            raise Crash
        for fault, error in refuses.items():
            if strikes(fault):
                raise error
        result = work()
        if strikes(Fault.CRASH_AFTER):
            raise Crash
        if strikes(Fault.FREEZE_AFTER):
            invocation.wait(self._long())
        if strikes(lost):
            raise Unreadable(f"{lost}: no answer within 10 s")
        return result

    def _long(self) -> float:
        """For as long as an instance may get no CPU: usually minutes, up to a day."""
        return LONGEST_FREEZE * self.hub.chance.random() ** 4


class WiredStore:
    """The Store port."""

    def __init__(self, wires: Wires, store: SimulatedStore) -> None:
        self._wires = wires
        self._store = store

    def get(self, *paths: str) -> Sequence[Stored | None]:
        """See Store.get."""
        return self._read(lambda: self._store.get(*paths))

    def find(self, collection: str, *filters: Filter, limit: int = 0) -> Sequence[Stored]:
        """See Store.find."""
        return self._read(lambda: self._store.find(collection, *filters, limit=limit))

    def commit(self, writes: Sequence[Write]) -> Sequence[object]:
        """See Store.commit."""
        refuses: dict[Fault, Exception] = {
            Fault.STORE_REFUSES: Unreadable("UNAVAILABLE: Firestore"),
            Fault.STORE_CONFLICT: Conflict("contention"),
        }
        return self._wires.carry(0.02, lambda: self._store.commit(writes), refuses, Fault.STORE_TIMES_OUT)

    def _read(self, work: Callable[[], T]) -> T:
        refuses = {Fault.STORE_REFUSES: Unreadable("UNAVAILABLE: Firestore")}
        return self._wires.carry(0.01, work, refuses, Fault.STORE_TIMES_OUT)


class WiredCapacity:
    """The Capacity port."""

    def __init__(self, wires: Wires, cloud: Cloud) -> None:
        self._wires = wires
        self._cloud = cloud

    def describe(self, name: str) -> NodeReading:
        """See Capacity.describe."""
        try:
            return self._call(lambda: self._cloud.describe(name, self._stale()))
        except (Unreadable, Refused) as problem:
            return NodeReading(name=name, presence=Presence.UNREADABLE, problem=str(problem))

    def describe_operation(self, name: str) -> OperationReading:
        """See Capacity.describe_operation."""
        try:
            return self._call(lambda: self._cloud.describe_operation(name))
        except (Unreadable, Refused) as problem:
            return OperationReading(state=OperationState.UNREADABLE, message=str(problem))

    def list_nodes(self, project: str, zone: str) -> Sequence[NodeReading]:
        """See Capacity.list_nodes."""
        try:
            return self._call(lambda: self._cloud.list_nodes(project, zone, self._stale()))
        except Refused as problem:
            raise Unreadable(str(problem)) from problem

    def create(self, request: NodeRequest) -> str:
        """See Capacity.create."""
        return self._call(lambda: self._cloud.create(request))

    def delete(self, name: str) -> None:
        """See Capacity.delete."""
        self._call(lambda: self._cloud.delete(name))

    def write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """See Capacity.write_metadata."""
        self._call(lambda: self._cloud.write_metadata(name, values))

    def attributes(self, name: str) -> Attributes:
        """See Capacity.attributes."""
        try:
            return self._call(lambda: self._cloud.attributes(name))
        except Refused as problem:
            raise Unreadable(str(problem)) from problem

    def _call(self, work: Callable[[], T]) -> T:
        slow = self._wires.faults.strikes(Fault.API_SLOW)
        refuses: dict[Fault, Exception] = {
            Fault.API_UNAVAILABLE: Unreadable("UNAVAILABLE: TPU API"),
            Fault.API_DENIES: Refused("PERMISSION_DENIED", "not allowed"),
            Fault.API_RATE_LIMITED: Refused("RESOURCE_EXHAUSTED", "Quota exceeded for requests per minute"),
        }
        return self._wires.carry(8.0 if slow else 0.3, work, refuses, Fault.API_TIMES_OUT)

    def _stale(self) -> timedelta:
        is_stale = self._wires.faults.strikes(Fault.API_STALE)
        return timedelta(seconds=self._wires.hub.between(1, 60) if is_stale else 0)


class WiredTimers:
    """The Timers port."""

    def __init__(self, wires: Wires, tasks: Tasks) -> None:
        self._wires = wires
        self._tasks = tasks

    def call_later(self, path: str, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """See Timers.call_later."""
        self._call(lambda: self._tasks.add("timers", path, msgspec.json.encode(body), key, at))

    def queue_create(self, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """See Timers.queue_create."""
        self._call(lambda: self._tasks.add("creates", "/create", msgspec.json.encode(body), key, at))

    def _call(self, work: Callable[[], None]) -> None:
        refuses = {Fault.QUEUE_REFUSES: Unreadable("UNAVAILABLE: Cloud Tasks")}
        self._wires.carry(0.05, work, refuses, Fault.QUEUE_TIMES_OUT)


class WiredCheckpoints:
    """The CheckpointReader port, on what the programs have saved."""

    def __init__(self, wires: Wires, vms: Vms) -> None:
        self._wires = wires
        self._vms = vms

    def newest(self, checkpoints: Checkpoints, seen_step: int | None) -> CheckpointReading:
        """See CheckpointReader.newest."""
        refuses = {Fault.BUCKET_UNREADABLE: Unreadable("bucket cannot be listed")}
        try:
            return self._wires.carry(
                0.2, lambda: self._judge(checkpoints.path, seen_step), refuses, Fault.BUCKET_UNREADABLE
            )
        except Unreadable as problem:
            return CheckpointReading(finding=CheckpointFinding.UNREADABLE, why=str(problem))

    def _judge(self, path: str, seen_step: int | None) -> CheckpointReading:
        bucket = self._vms.buckets.get(path.rsplit("/", 1)[1])
        step = bucket.newest_complete() if bucket else None
        if bucket is None or not bucket.steps:
            finding = CheckpointFinding.EMPTY if seen_step is None else CheckpointFinding.OLDER
        elif step is None:
            finding = CheckpointFinding.INCOMPLETE
        else:
            older = seen_step is not None and step < seen_step
            finding = CheckpointFinding.OLDER if older else CheckpointFinding.FOUND
        why = f"newest complete step is {step}"
        return CheckpointReading(finding=finding, step=step, path=f"{path}/{step}", why=why)


class WiredNotifier:
    """The Notifier port: people are told, and nothing more happens."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires

    def tell(self, job: str, notice: Notify) -> None:
        """See Notifier.tell."""
        del job, notice
        self._wires.carry(0.05, lambda: None, {}, Fault.NOTICE_FAILS)
