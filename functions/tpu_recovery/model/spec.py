"""What the user wants kept running: the specification of a job, written by people only.

Field names are those of the job file. What CreateNode takes has the API's own names (google.cloud.tpu.v2alpha1.Node),
so that every field survives a recreate; a test compares the two lists.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from tpu_recovery.model.duration import Duration

Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A count, of the size that the API has for counts."""


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of what users write: immutable, and a misspelt field is an error."""


class CapacityKind(StrEnum):
    """How capacity is paid for, which decides how it can be lost."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"


class AcceleratorKind(StrEnum):
    """Versions of TPU, as the API names them. Newer ones belong to Compute Engine and do not come through this API."""

    V2 = "V2"
    V3 = "V3"
    V4 = "V4"
    V5LITE_POD = "V5LITE_POD"
    V5P = "V5P"
    V6E = "V6E"


class DiskMode(StrEnum):
    """How a data disk is attached."""

    READ_WRITE = "READ_WRITE"
    READ_ONLY = "READ_ONLY"


class NetworkConfig(Document, frozen=True, kw_only=True):
    """Network of the node's VMs."""

    network: str = ""
    subnetwork: str = ""
    enable_external_ips: bool = False
    can_ip_forward: bool = False
    queue_count: Int32 = 0


class ServiceAccount(Document, frozen=True, kw_only=True):
    """The account the node's VMs run as."""

    email: str = ""
    scope: tuple[str, ...] = ()


class AcceleratorConfig(Document, frozen=True, kw_only=True):
    """Accelerator by version and topology, instead of ``accelerator_type``."""

    type: AcceleratorKind
    topology: str


class AttachedDisk(Document, frozen=True, kw_only=True):
    """A persistent disk attached to every VM of the node."""

    source_disk: str
    mode: DiskMode = DiskMode.READ_WRITE


class ShieldedInstanceConfig(Document, frozen=True, kw_only=True):
    """Shielded VM options."""

    enable_secure_boot: bool = False


class CustomerEncryptionKey(Document, frozen=True, kw_only=True):
    """A key of the user's own."""

    kms_key_name: str


class BootDiskConfig(Document, frozen=True, kw_only=True):
    """Encryption of the boot disk."""

    customer_encryption_key: CustomerEncryptionKey | None = None
    enable_confidential_compute: bool = False


class Placement(Document, frozen=True, kw_only=True):
    """One way to get capacity: where, how it is paid for, and what differs there from the rest of the job."""

    zone: str
    capacity: CapacityKind = CapacityKind.SPOT
    accelerator_type: str | None = None
    runtime_version: str | None = None
    network_config: NetworkConfig | None = None
    service_account: ServiceAccount | None = None


class Program(Document, frozen=True, kw_only=True):
    """What must be on a fresh VM before the command can run: a tar archive in Cloud Storage, unpacked on every VM."""

    archive: str
    sha256: str


class CheckpointFormat(StrEnum):
    """Layouts whose completeness can be told (see tpu_recovery.checkpoints)."""

    ORBAX = "orbax"


class Checkpoints(Document, frozen=True, kw_only=True):
    """Where the program saves its checkpoints: a gs:// prefix, or a path on the VM."""

    path: str
    format: CheckpointFormat = CheckpointFormat.ORBAX
    every: Duration = Duration(hours=1)

    @property
    def in_bucket(self) -> bool:
        """Whether the service can look before it creates; a path on the VM only the runner can read."""
        return self.path.startswith("gs://")


class WhenDone(StrEnum):
    """What happens to the TPU when the program has finished."""

    RELEASE = "release"
    KEEP = "keep"


class Deadlines(Document, frozen=True, kw_only=True):
    """How long each kind of waiting may take before a person is asked."""

    creation: Duration = Duration(minutes=30)
    """A create was accepted and the node is not READY."""
    capacity: Duration = Duration(hours=24)
    """No placement had capacity."""
    deletion: Duration = Duration(minutes=15)
    """Somebody else deletes the node and it is not gone."""
    repair: Duration = Duration(minutes=30)
    """The platform works on the node (restarting, repairing, stopped, …)."""
    reading: Duration = Duration(hours=1)
    """The TPU API gives no reading that we understand."""
    checkpoint: Duration = Duration(hours=1)
    """The checkpoint location cannot be read."""
    beacon: Duration = Duration(minutes=15)
    """The node is READY and the runner has not been heard."""
    startup_script: Duration = Duration(minutes=10)
    """The user's own startup script runs."""
    setup: Duration = Duration(minutes=30)
    """The setup script runs."""
    stop: Duration = Duration(seconds=25)
    """The program has been asked to stop. A Spot VM has about 30 s in all."""


class Attempts(Document, frozen=True, kw_only=True):
    """How many attempts a cause may use before a person is asked."""

    setup: Int32 = 2
    """Starts whose setup failed."""
    beacon: Int32 = 1
    """Recreations because a READY node stayed silent."""
    loss: Int32 = 20
    """Losses in a row with no progress in between."""
    crash: Int32 = 3
    """Crashes of the program in a row with no progress in between (counted by the runner)."""


class JobSpec(Document, frozen=True, kw_only=True):
    """A job: the program, where it may run, how to tell how far it is."""

    name: str
    placements: tuple[Placement, ...]
    program: Program | Literal["none"]
    """``none``: the image, a disk or the user's startup script already has what the command needs."""
    command: str
    accelerator_type: str | None = None
    accelerator_config: AcceleratorConfig | None = None
    runtime_version: str | None = None
    checkpoints: Checkpoints | None = None
    setup: str | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    user: str | None = None
    working_directory: str | None = None
    when_done: WhenDone = WhenDone.RELEASE
    deadlines: Deadlines = Deadlines()
    attempts: Attempts = Attempts()
    description: str = ""
    network_config: NetworkConfig | None = None
    network_configs: tuple[NetworkConfig, ...] = ()
    cidr_block: str = ""
    service_account: ServiceAccount | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    data_disks: tuple[AttachedDisk, ...] = ()
    shielded_instance_config: ShieldedInstanceConfig | None = None
    autocheckpoint_enabled: bool = False
    boot_disk_config: BootDiskConfig | None = None


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The document ``specs/{job}``: the specification and what people want done with it."""

    spec: JobSpec
    revision: int = 1
    paused: bool = False
