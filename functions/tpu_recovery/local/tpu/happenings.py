"""What befalls nodes without a call of ours: the cloud takes them, a person deletes them. The caller holds the lock."""

from __future__ import annotations

import uuid
from typing import Any

from google.cloud.tpu_v2alpha1.types import DeleteNodeRequest

from . import audit, refusals
from .nodes import Nodes, Record, State, copy_of

_GONE = frozenset({State.PREEMPTED, State.TERMINATED, State.DELETING})


def preempt(nodes: Nodes, name: str, reason: str | None) -> None:
    """Take a Spot node: its VMs are told, killed after the grace, and then the node is PREEMPTED.

    It keeps its name. Compute Engine's entries come at the beginning, ``tpu.nodes.terminate`` at the end.
    Raises ValueError when the node is gone already, so that a scenario does not silently lose its event.
    """
    record = _living(nodes, name)
    _log_instances(nodes, record, "compute.instances.preempted", "Instance was preempted.")
    nodes.shut_down(record, preempted=True)
    nodes.agenda.add(
        nodes.clock() + nodes.settings.preemption_grace, lambda: _terminated(nodes, record, State.PREEMPTED, reason)
    )


def terminate(nodes: Nodes, name: str, reason: str | None) -> None:
    """Host maintenance takes the node: it is TERMINATED at once. Raises ValueError when it is gone already."""
    record = _living(nodes, name)
    _log_instances(
        nodes,
        record,
        "compute.instances.terminateOnHostMaintenance",
        "Instance terminated during Compute Engine maintenance.",
    )
    _terminated(nodes, record, State.TERMINATED, reason)


def _living(nodes: Nodes, name: str) -> Record:
    record = nodes.record(name)
    if record.message.state in _GONE:
        raise ValueError(f"{name} is {record.state_name}: only a node that is there can be lost")
    return record


def _terminated(nodes: Nodes, record: Record, state: int, reason: str | None) -> None:
    if nodes.records.get(record.name) is not record or record.message.state == State.DELETING:
        return  # deleted within the grace
    nodes.kill(record)
    record.message.state = state
    nodes.log(audit.node_event("tpu.nodes.terminate", record.name, nodes.clock(), reason))


def forget(nodes: Nodes, name: str) -> None:
    """The node vanishes, and nothing says so."""
    nodes.remove(nodes.record(name))


def set_state(nodes: Nodes, name: str, state: int | None, health: int | None, health_description: str | None) -> None:
    """Let the API show another state or health, known or not; the VMs are left alone."""
    message = nodes.record(name).message
    if state is not None:
        message.state = state
    if health is not None:
        message.health = health
    if health_description is not None:
        message.health_description = health_description


def delete_as(nodes: Nodes, name: str, principal: str) -> None:
    """Somebody else calls DeleteNode."""
    nodes.delete(DeleteNodeRequest.pb()(name=name), principal)


def stop_as(nodes: Nodes, name: str, principal: str) -> None:
    """Somebody else calls StopNode: STOPPING, then STOPPED."""
    record = nodes.record(name)
    record.message.state = State.STOPPING
    nodes.shut_down(record)

    def stopped() -> Any:
        if record.message.state != State.STOPPING:
            raise refusals.not_supported_in_state("stop", record.state_name)
        nodes.kill(record)
        record.message.state = State.STOPPED
        return copy_of(record)

    nodes.start("StopNode", record, principal, nodes.settings.delete_seconds, stopped)


def host_error(nodes: Nodes, name: str, worker: int) -> None:
    """The host of one worker fails and its VM boots anew. The node stays as it is: what it shows then is not known."""
    record = _living(nodes, name)
    messages = {
        "compute.instances.hostError": "Instance terminated by Compute Engine.",
        "compute.instances.automaticRestart": "Instance automatically restarted by Compute Engine.",
    }
    for kind, message in messages.items():
        _log_instances(nodes, record, kind, message, (worker,))
    _reboot(nodes, record, (worker,))


def restart(nodes: Nodes, name: str) -> None:
    """The platform restarts the node: all VMs boot anew."""
    record = _living(nodes, name)
    nodes.log(audit.node_event("tpu.nodes.restart", name, nodes.clock()))
    _reboot(nodes, record, tuple(range(len(record.hostnames))))


def _reboot(nodes: Nodes, record: Record, workers: tuple[int, ...]) -> None:
    if record.has_vms:
        nodes.outbox.append(lambda: nodes.machines.reboot(record.name, workers))


def _log_instances(
    nodes: Nodes, record: Record, kind: str, message: str, workers: tuple[int, ...] | None = None
) -> None:
    trigger = str(uuid.uuid4())
    _, project, _, zone, _, _ = record.name.split("/")
    for worker in range(len(record.hostnames)) if workers is None else workers:
        instance = f"projects/{project}/zones/{zone}/instances/{record.hostnames[worker]}"
        nodes.log(audit.instance_event(kind, instance, record.instance_ids[worker], message, trigger, at=nodes.clock()))
