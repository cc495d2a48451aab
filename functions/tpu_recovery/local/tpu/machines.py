"""The VMs behind the nodes, as the platform sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

SetGuestAttribute = Callable[[int, str, str, str], None]
"""Takes worker, namespace, key and value."""

HOSTNAME_NAMESPACE = "hostkeys"
HOSTNAME_KEY = "hostname"


@dataclass(frozen=True)
class NodeMachines:
    """What the worker VMs of one node are to be; hostnames and instance ids in the order of the workers."""

    node: str
    """The node's full name."""
    project_number: str
    accelerator_type: str
    hostnames: tuple[str, ...]
    instance_ids: tuple[int, ...]
    metadata: Mapping[str, str] = field(repr=False)
    set_guest_attribute: SetGuestAttribute = field(repr=False)


class Machines(Protocol):
    """Where the worker VMs run. A node that is not known (any more) is no error, except to :meth:`boot` it twice."""

    def boot(self, order: NodeMachines) -> None:
        """Switch the VMs on: guest attributes work, ``hostname`` is set, the startup script runs."""

    def shut_down(self, node: str, *, preempted: bool = False) -> None:
        """Ask what runs on the VMs to stop; returns at once. ``preempted``: let the metadata server say so."""

    def kill(self, node: str) -> None:
        """Switch the VMs off for good: nothing of them runs when this returns."""

    def reboot(self, node: str, workers: tuple[int, ...]) -> None:
        """Switch these VMs off and on again: what ran there is gone, the startup script runs again."""

    def update(self, node: str, metadata: Mapping[str, str]) -> None:
        """Let the VMs see this metadata from now on."""


class NoMachines:
    """No VMs: only the guest attribute by which the hostname of a worker is known."""

    def boot(self, order: NodeMachines) -> None:
        """Set the hostnames."""
        announce_hostnames(order)

    def shut_down(self, node: str, *, preempted: bool = False) -> None:
        """Nothing runs."""

    def kill(self, node: str) -> None:
        """Nothing runs."""

    def reboot(self, node: str, workers: tuple[int, ...]) -> None:
        """Nothing runs."""

    def update(self, node: str, metadata: Mapping[str, str]) -> None:
        """Nobody looks."""


def announce_hostnames(order: NodeMachines) -> None:
    """Write what the platform's own agent writes on every worker when it boots."""
    for worker, hostname in enumerate(order.hostnames):
        order.set_guest_attribute(worker, HOSTNAME_NAMESPACE, HOSTNAME_KEY, hostname)
