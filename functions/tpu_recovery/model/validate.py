"""What a specification must fulfil beyond its types. Every rule names the field, the value and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.model.codec import to_document
from tpu_recovery.model.names import JOB_NAME, JOB_NAME_RULE, LABEL_JOB
from tpu_recovery.model.spec import JobSpec, Placement

HANDOFF_KEY = "tpu-recovery"
"""The one key of node metadata that is ours beside the startup script."""

LARGEST_METADATA_VALUE = 262_144
"""Bytes of one metadata value (facts page, section 10)."""

LARGEST_SCRIPT = 65_536
"""Bytes of a startup script or setup script in a job file; both travel inside one metadata value."""

ROOM_IN_HANDOFF = 8_192
"""Bytes of the hand-off that are left for everything but the user's own texts."""

LARGEST_SPEC = 1_000_000
"""Bytes as JSON. A specification is one document in Firestore, and a document has at most 1 MiB."""

LONGEST_DESCRIPTION = 512
"""Characters (google.cloud.tpu.v2alpha1.Node.description)."""

# AI zones have longer names than others: us-south1-ai1b (docs.cloud.google.com/tpu/docs/regions-zones).
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-(?:ai[0-9]+)?[a-z]")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BUCKET_PATH = re.compile(r"gs://[a-z0-9][-a-z0-9_.]{1,220}[a-z0-9](/.*)?")
_OBJECT = re.compile(r"gs://[a-z0-9][-a-z0-9_.]{1,220}[a-z0-9]/.+")
PLACEHOLDERS = ("{resume_step}", "{resume_path}")
"""What the runner replaces in a command."""

_PLACEHOLDER = re.compile(r"(?<![$\w])\{[a-z_-]*(?:step|path|resume|checkpoint)[a-z_-]*\}")
"""What looks as if it was meant to be replaced; `${step}` is the shell's."""

_DISK = re.compile(r"projects/[^/\s]+/(?:zones|regions)/[^/\s]+/disks/[^/\s]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")
_LABEL_VALUE = re.compile(r"[-a-z0-9_]{0,63}")
_LABEL_KEY = re.compile(r"[a-z][-a-z0-9_]{0,62}")


def validate(spec: JobSpec) -> JobSpec:
    """The same specification. Raises Invalid with the first thing that is wrong with it."""
    for problem in _problems(spec):
        raise problem
    return spec


def _problems(spec: JobSpec) -> Iterator[Invalid]:
    yield from _text_problems(spec)
    if not JOB_NAME.fullmatch(spec.name):
        yield Invalid("name", spec.name, JOB_NAME_RULE)
    if not spec.command.strip():
        yield Invalid("command", spec.command, "write the shell command that starts training on every worker")
    for placeholder in _PLACEHOLDER.findall(spec.command):
        if placeholder not in PLACEHOLDERS:
            yield Invalid("command", placeholder, f"the runner replaces {' and '.join(PLACEHOLDERS)}, and nothing else")
    yield from _program_problems(spec)
    yield from _placement_problems(spec)
    yield from _checkpoint_problems(spec)
    yield from _deadline_problems(spec)
    yield from _vm_problems(spec)
    yield from _script_problems(spec)
    yield from _disk_problems(spec)
    yield from _node_problems(spec)


def _text_problems(spec: JobSpec) -> Iterator[Invalid]:
    try:
        size = len(msgspec.json.encode(to_document(spec)))
    except UnicodeEncodeError as error:
        halves = error.object[error.start : error.end]
        expected = "half a character cannot be stored; write the character itself, not \\u escapes"
        yield Invalid("job file", halves, expected)
    else:
        if size > LARGEST_SPEC:
            yield Invalid("job file", f"{size} bytes", f"at most {LARGEST_SPEC}")


def _program_problems(spec: JobSpec) -> Iterator[Invalid]:
    if spec.program == "none":
        return
    if not _OBJECT.fullmatch(spec.program.archive):
        yield Invalid("program.archive", spec.program.archive, "write the object as gs://bucket/path.tar.gz")
    if not _SHA256.fullmatch(spec.program.sha256):
        yield Invalid("program.sha256", spec.program.sha256, "write the 64 hexadecimal digits that sha256sum prints")


def _placement_problems(spec: JobSpec) -> Iterator[Invalid]:
    if not spec.placements:
        yield Invalid("placements", [], "name at least one zone to run in")
    if spec.accelerator_type and spec.accelerator_config:
        yield Invalid(
            "accelerator_config", spec.accelerator_config.type.value, "give accelerator_type or this, not both"
        )
    for index, placement in enumerate(spec.placements):
        yield from _one_placement_problems(spec, f"placements[{index}]", placement)


def _one_placement_problems(spec: JobSpec, field: str, placement: Placement) -> Iterator[Invalid]:
    if not ZONE.fullmatch(placement.zone):
        yield Invalid(f"{field}.zone", placement.zone, "write a zone like us-east5-b")
    if not (placement.accelerator_type or spec.accelerator_type or spec.accelerator_config):
        yield Invalid(f"{field}.accelerator_type", None, "say which TPU, here or for the job, like v5litepod-16")
    if not (placement.runtime_version or spec.runtime_version):
        yield Invalid(f"{field}.runtime_version", None, "say which, here or for the job, like v2-alpha-tpuv5-lite")
    if placement.network_config and spec.network_configs:
        yield Invalid(
            f"{field}.network_config", placement.network_config.network, "the job has network_configs already"
        )


def _checkpoint_problems(spec: JobSpec) -> Iterator[Invalid]:
    if spec.checkpoints is None:
        return
    path = spec.checkpoints.path
    if not (_BUCKET_PATH.fullmatch(path) or (path.startswith("/") and ".." not in PurePosixPath(path).parts)):
        yield Invalid("checkpoints.path", path, "write gs://bucket/prefix, or an absolute path on the VM")
    if not spec.checkpoints.every:
        yield Invalid(
            "checkpoints.every", str(spec.checkpoints.every), "write how often a checkpoint is saved, like 1h"
        )


def _deadline_problems(spec: JobSpec) -> Iterator[Invalid]:
    for name in spec.deadlines.__struct_fields__:
        if not getattr(spec.deadlines, name):
            yield Invalid(f"deadlines.{name}", "0s", "write how long this may take, like 15m")


def _vm_problems(spec: JobSpec) -> Iterator[Invalid]:
    directory = spec.working_directory
    if directory is not None and (directory.startswith("/") or ".." in PurePosixPath(directory).parts):
        yield Invalid("working_directory", directory, "write a directory inside the program, without ..")
    for name, value in spec.environment.items():
        # A value is never shown: it may be a secret.
        if not _VARIABLE.fullmatch(name):
            yield Invalid("environment", name, "a variable's name has letters, digits and _, no digit first")
        if name.startswith("TPU_RECOVERY_"):
            yield Invalid("environment", name, "names that begin with TPU_RECOVERY_ are set by the runner")
        if "\0" in value:
            yield Invalid(f"environment.{name}", f"{len(value)} characters", "a variable cannot hold a zero byte")


def _script_problems(spec: JobSpec) -> Iterator[Invalid]:
    """Texts that travel to the VM; the runner refuses a hand-off with an empty one or with a zero byte in it."""
    startup_script = spec.metadata.get("startup-script")
    for field, text in (("command", spec.command), ("user", spec.user), ("working_directory", spec.working_directory)):
        if text is not None and (not text or "\0" in text):
            yield Invalid(field, text, "write text without zero bytes, or leave the field out")
    for field, script in (("setup", spec.setup), ("metadata.startup-script", startup_script)):
        if script is not None and (not script or "\0" in script):
            yield Invalid(field, script, "write a script without zero bytes, or leave the field out")
        if script is not None and len(script.encode()) > LARGEST_SCRIPT:
            expected = f"at most {LARGEST_SCRIPT} bytes; put the rest into the program's archive"
            yield Invalid(field, f"{len(script.encode())} bytes", expected)
    size = len(msgspec.json.encode((spec.command, spec.setup, startup_script, spec.environment)))
    most = LARGEST_METADATA_VALUE - ROOM_IN_HANDOFF
    if size > most:
        expected = (
            f"command, environment and scripts fit into one metadata value together: at most {most} bytes as JSON"
        )
        yield Invalid("job file", f"{size} bytes", expected)


def _disk_problems(spec: JobSpec) -> Iterator[Invalid]:
    for index, disk in enumerate(spec.data_disks):
        if not _DISK.fullmatch(disk.source_disk):
            expected = "write the disk's full name, like projects/PROJECT/zones/us-east5-b/disks/NAME"
            yield Invalid(f"data_disks[{index}].source_disk", disk.source_disk, expected)


def _node_problems(spec: JobSpec) -> Iterator[Invalid]:
    if len(spec.description) > LONGEST_DESCRIPTION:
        yield Invalid("description", f"{len(spec.description)} characters", f"at most {LONGEST_DESCRIPTION}")
    if spec.network_config and spec.network_configs:
        yield Invalid("network_configs", len(spec.network_configs), "give network_config or this, not both")
    for key, value in spec.labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            yield Invalid(f"labels.{key}", value, "labels have lower-case letters, digits, - and _, at most 63 of them")
        if key.startswith("tpu-recovery"):
            yield Invalid(f"labels.{key}", value, f"labels like {LABEL_JOB} are set by the service")
    for key, value in spec.metadata.items():
        if not _METADATA_KEY.fullmatch(key):
            yield Invalid("metadata", key, "a metadata key has 1 to 127 letters, digits, - and _")
        if key == HANDOFF_KEY:
            yield Invalid("metadata", key, "this key is set by the service")
        if len(value.encode()) > LARGEST_METADATA_VALUE:
            yield Invalid(f"metadata.{key}", f"{len(value.encode())} bytes", f"at most {LARGEST_METADATA_VALUE} bytes")
