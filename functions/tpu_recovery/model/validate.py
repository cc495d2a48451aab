"""What a specification must fulfil beyond its types. Every rule names the field, the value and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tpu_recovery.errors import Invalid
from tpu_recovery.model.names import JOB_NAME, JOB_NAME_RULE, LABEL_JOB
from tpu_recovery.model.spec import JobSpec, Placement

HANDOFF_KEY = "tpu-recovery"
"""The one key of node metadata that is ours beside the startup script."""

LARGEST_METADATA_VALUE = 262_144
"""Bytes of one metadata value (facts page, section 10)."""

LARGEST_SCRIPT = 65_536
"""Bytes of a startup script or setup script in a job file; both travel inside one metadata value."""

_ZONE = re.compile(r"^[a-z]+-[a-z]+[0-9]+-[a-z]$")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_BUCKET_PATH = re.compile(r"^gs://[a-z0-9][-a-z0-9_.]{1,220}[a-z0-9](/.*)?$")
_OBJECT = re.compile(r"^gs://[a-z0-9][-a-z0-9_.]{1,220}[a-z0-9]/.+$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_METADATA_KEY = re.compile(r"^[a-zA-Z0-9_-]{1,127}$")
_LABEL_VALUE = re.compile(r"^[-a-z0-9_]{0,63}$")
_LABEL_KEY = re.compile(r"^[a-z][-a-z0-9_]{0,62}$")


def validate(spec: JobSpec) -> JobSpec:
    """The same specification. Raises Invalid with the first thing that is wrong with it."""
    for problem in _problems(spec):
        raise problem
    return spec


def _problems(spec: JobSpec) -> Iterator[Invalid]:
    if not JOB_NAME.match(spec.name):
        yield Invalid("name", spec.name, JOB_NAME_RULE)
    if not spec.command.strip():
        yield Invalid("command", spec.command, "write the shell command that starts training on every worker")
    yield from _program_problems(spec)
    yield from _placement_problems(spec)
    yield from _checkpoint_problems(spec)
    yield from _vm_problems(spec)
    yield from _node_problems(spec)


def _program_problems(spec: JobSpec) -> Iterator[Invalid]:
    if spec.program == "none":
        return
    if not _OBJECT.match(spec.program.archive):
        yield Invalid("program.archive", spec.program.archive, "write the object as gs://bucket/path.tar.gz")
    if not _SHA256.match(spec.program.sha256):
        yield Invalid("program.sha256", spec.program.sha256, "write the 64 hexadecimal digits that sha256sum prints")


def _placement_problems(spec: JobSpec) -> Iterator[Invalid]:
    if not spec.placements:
        yield Invalid("placements", [], "name at least one zone to run in")
    if spec.accelerator_type and spec.accelerator_config:
        yield Invalid("accelerator_config", spec.accelerator_config.type, "give accelerator_type or this, not both")
    for index, placement in enumerate(spec.placements):
        yield from _one_placement_problems(spec, f"placements[{index}]", placement)


def _one_placement_problems(spec: JobSpec, field: str, placement: Placement) -> Iterator[Invalid]:
    if not _ZONE.match(placement.zone):
        yield Invalid(f"{field}.zone", placement.zone, "write a zone like us-east5-b")
    if not (placement.accelerator_type or spec.accelerator_type or spec.accelerator_config):
        yield Invalid(f"{field}.accelerator_type", None, "say which TPU, here or for the job, like v5litepod-16")
    if not (placement.runtime_version or spec.runtime_version):
        yield Invalid(f"{field}.runtime_version", None, "say which, here or for the job, like v2-alpha-tpuv5-lite")


def _checkpoint_problems(spec: JobSpec) -> Iterator[Invalid]:
    if spec.checkpoints is None:
        return
    path = spec.checkpoints.path
    if not (_BUCKET_PATH.match(path) or (path.startswith("/") and ".." not in PurePosixPath(path).parts)):
        yield Invalid("checkpoints.path", path, "write gs://bucket/prefix, or an absolute path on the VM")
    if not spec.checkpoints.every:
        yield Invalid(
            "checkpoints.every", str(spec.checkpoints.every), "write how often a checkpoint is saved, like 1h"
        )


def _vm_problems(spec: JobSpec) -> Iterator[Invalid]:
    directory = spec.working_directory
    if directory is not None and (directory.startswith("/") or ".." in PurePosixPath(directory).parts):
        yield Invalid("working_directory", directory, "write a directory inside the program, without ..")
    for name, value in spec.environment.items():
        if not _VARIABLE.match(name):
            yield Invalid(f"environment.{name}", value, "a variable's name has letters, digits and _, no digit first")
        if name.startswith("TPU_RECOVERY_"):
            yield Invalid(f"environment.{name}", value, "names that begin with TPU_RECOVERY_ are set by the runner")
    for field, script in (("setup", spec.setup), ("metadata.startup-script", spec.metadata.get("startup-script"))):
        if script is not None and len(script.encode()) > LARGEST_SCRIPT:
            expected = f"at most {LARGEST_SCRIPT} bytes; put the rest into the program's archive"
            yield Invalid(field, f"{len(script.encode())} bytes", expected)


def _node_problems(spec: JobSpec) -> Iterator[Invalid]:
    if spec.network_config and spec.network_configs:
        yield Invalid("network_configs", len(spec.network_configs), "give network_config or this, not both")
    for key, value in spec.labels.items():
        if not (_LABEL_KEY.match(key) and _LABEL_VALUE.match(value)):
            yield Invalid(f"labels.{key}", value, "labels have lower-case letters, digits, - and _, at most 63 of them")
        if key.startswith("tpu-recovery"):
            yield Invalid(f"labels.{key}", value, f"labels like {LABEL_JOB} are set by the service")
    for key, value in spec.metadata.items():
        if not _METADATA_KEY.match(key):
            yield Invalid(f"metadata.{key}", value, "a metadata key has 1 to 127 letters, digits, - and _")
        if key == HANDOFF_KEY:
            yield Invalid(f"metadata.{key}", value, "this key is set by the service")
        if len(value.encode()) > LARGEST_METADATA_VALUE:
            yield Invalid(f"metadata.{key}", f"{len(value.encode())} bytes", f"at most {LARGEST_METADATA_VALUE} bytes")
