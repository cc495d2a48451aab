"""From a job to the calls that create and instruct its VMs: the node's fields and the hand-off."""

from __future__ import annotations

from typing import Any

from tpu_recovery.model.codec import to_document
from tpu_recovery.model.handoff import (
    CrashPolicy,
    Handoff,
    HandoffCheckpoints,
    HandoffDeadlines,
    HandoffProgram,
    HandoffReports,
    ResumeAdvice,
    Wanted,
    encode_handoff,
)
from tpu_recovery.model.job import Job
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID, ResourceName
from tpu_recovery.model.spec import CapacityKind, JobSpec
from tpu_recovery.model.validate import HANDOFF_KEY
from tpu_recovery.recovery.ports import NodeRequest
from tpu_recovery.recovery.settings import Settings

STARTUP_SCRIPT_KEY = "startup-script"

NODE_FIELDS = (
    "description",
    "network_config",
    "network_configs",
    "cidr_block",
    "service_account",
    "tags",
    "data_disks",
    "shielded_instance_config",
    "autocheckpoint_enabled",
    "boot_disk_config",
    "accelerator_type",
    "accelerator_config",
    "runtime_version",
)
"""Fields of a specification that go into the node as they are, under the API's own names."""

PLACEMENT_FIELDS = ("accelerator_type", "runtime_version", "network_config", "service_account")
"""Fields that a placement may set differently."""


def node_request(job: Job, settings: Settings, startup_script: str) -> NodeRequest:
    """The call that creates the current generation's node. Raises LookupError when none is intended."""
    create = job.state.create
    name = ResourceName.parse(job.node_name)
    if create is None or name is None:
        raise LookupError(f"job {job.state.job} has no create to carry out")
    metadata = {
        **job.spec.metadata,
        STARTUP_SCRIPT_KEY: startup_script,
        HANDOFF_KEY: encode_handoff(handoff_of(job, settings, launch=create.launch)),
    }
    node = {**_fields(job), "labels": _labels(job), "metadata": metadata, "scheduling_config": _scheduling(job)}
    return NodeRequest(parent=name.parent, node_id=name.id, request_id=create.request_id, node=node)


def handoff_of(job: Job, settings: Settings, *, launch: int) -> Handoff:
    """What the runner of the current generation is told."""
    spec, state = job.spec, job.state
    return Handoff(
        job=state.job,
        uid=state.uid,
        generation=state.generation,
        launch=launch,
        launch_before=state.launch_before,
        wanted=Wanted.RUN,
        token=state.token,
        program=_program(spec),
        startup_script=spec.metadata.get(STARTUP_SCRIPT_KEY),
        setup=spec.setup,
        command=spec.command,
        user=spec.user,
        working_directory=spec.working_directory,
        environment=spec.environment,
        checkpoints=_checkpoints(job),
        resume=_advice(job),
        reports=HandoffReports(topic=settings.reports_topic),
        deadlines=HandoffDeadlines(
            startup_script=spec.deadlines.startup_script.total_seconds(),
            setup=spec.deadlines.setup.total_seconds(),
            stop=spec.deadlines.stop.total_seconds(),
        ),
        crashes=CrashPolicy(limit=spec.attempts.crash),
        timing=settings.timing,
    )


def _fields(job: Job) -> dict[str, Any]:
    document = to_document(job.spec)
    fields = {name: document[name] for name in NODE_FIELDS if name in document}
    override = to_document(job.placement)
    for name in PLACEMENT_FIELDS:
        if name in override:
            fields[name] = override[name]
    if "accelerator_type" in override:
        fields.pop("accelerator_config", None)
    return fields


def _labels(job: Job) -> dict[str, str]:
    ours = {LABEL_JOB: job.state.job, LABEL_UID: job.state.uid, LABEL_GENERATION: str(job.state.generation)}
    return {**job.spec.labels, **ours}


def _scheduling(job: Job) -> dict[str, bool]:
    kind = job.placement.capacity
    return {"spot": kind is CapacityKind.SPOT, "reserved": kind is CapacityKind.RESERVED}


def _program(spec: JobSpec) -> HandoffProgram:
    if spec.program == "none":
        return HandoffProgram(none=True)
    return HandoffProgram(archive=spec.program.archive, sha256=spec.program.sha256)


def _checkpoints(job: Job) -> HandoffCheckpoints | None:
    where = job.spec.checkpoints
    if where is None:
        return None
    return HandoffCheckpoints(path=where.path, format=where.format, seen_step=job.state.progress.checkpoint_step)


def _advice(job: Job) -> ResumeAdvice | None:
    create = job.state.create
    if create is None or create.resume_step is None:
        return None
    return ResumeAdvice(step=create.resume_step, path=create.resume_path)
