"""What can be set on the local Cloud TPU API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .accelerators import OFFERS


@dataclass(frozen=True)
class TpuSettings:
    """How long things take (seconds), who calls, what is on offer. Defaults suit a demo; real nodes take minutes."""

    create_seconds: float = 2.0
    delete_seconds: float = 1.0
    """From DeleteNode (or StopNode) until the node is gone; its VMs have as long to stop by themselves."""
    update_seconds: float = 0.2
    preemption_grace: float = 3.0
    """From the SIGTERM until the VMs are killed and the node is PREEMPTED; about 30 on real Spot nodes."""
    request_id_memory: float = 3600.0
    """How long a repeated ``request_id`` gets the operation of the first call."""
    caller: str = "tpu-recovery@{project}.iam.gserviceaccount.com"
    """Principal of every call over gRPC; ``{project}`` is replaced by the project of the call."""
    project_number: str = "123456789012"
    offers: Mapping[str, frozenset[str]] = field(default_factory=lambda: OFFERS)
    """Accelerator types by zone; a zone that is not here does not exist."""
    default_page_size: int = 500
    guest_attributes_outlive_vms: bool = False
    """Whether GetGuestAttributes still answers once the VMs are gone. Not known of the platform."""
    guest_attributes_need_every_worker: bool = False
    """Whether one worker without a matching attribute makes the whole call fail. Not known of the platform;
    otherwise that worker's entry is empty, in its place."""
