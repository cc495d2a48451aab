"""Jobs that are running already: nodes in the API and documents in the store, with nobody training."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from msgspec.structs import replace

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.local.demo_job import job_file, upload
from tpu_recovery.local.stack import DATABASE, PROJECT, ZONE, Stack
from tpu_recovery.model.codec import to_document
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.messages import ReportKind
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID, ResourceName, node_id
from tpu_recovery.model.spec import JobSpec, Placement, Wishes
from tpu_recovery.model.state import Create as Creation
from tpu_recovery.model.state import JobState, Phase, Progress, RunnerState, Slice
from tpu_recovery.recovery.ports import Create, NodeRequest
from tpu_recovery.recovery.records import job_path, spec_path

STEP = 40
"""The checkpoint that every job has."""


def node_of(name: str, generation: int = 1) -> str:
    """Full name of a job's node."""
    return str(ResourceName.node(PROJECT, ZONE, node_id(name, generation)))


def start_running(stack: Stack, names: list[str]) -> list[JobState]:
    """Make jobs of these names as they are in the middle of training, generation 1 on a Spot node each.

    The clients of this process must be pointed at the stack, whose nodes must be ready at once and have no VMs.
    """
    from tpu_recovery.cloud.capacity import TpuCapacity

    spec = parse_job_file(job_file(stack.objects.url, "bench"))
    store = FirestoreStore(clients.firestore_client(PROJECT, DATABASE))
    capacity = TpuCapacity(clients.tpu_client())
    states = []
    for name in names:
        path = upload(stack.objects.url, f"{name}/checkpoints/{STEP}/commit_success.txt", b"done")
        own = replace(spec, name=name, checkpoints=spec.checkpoints and replace(spec.checkpoints, path=_above(path)))
        state = _state(name, datetime.now(UTC))
        capacity.create(_request(own, state))
        state = _with_node(state, stack.tpu.hostnames(node_of(name)))
        store.commit(
            [
                Create(spec_path(name), to_document(Wishes(spec=own))),
                Create(job_path(name), to_document(state)),
            ]
        )
        states.append(state)
    return states


def _above(path: str) -> str:
    """The checkpoint location of a marker in one of its steps."""
    return path.rsplit("/", 2)[0]


def _state(name: str, now: datetime) -> JobState:
    runner = RunnerState(
        worker=0, kind=ReportKind.PROGRESS, launch=1, boot="boot", sequence=3, at=now, received=now, resumed_from=None
    )
    return JobState(
        job=name,
        uid=uuid.uuid4().hex[:12],
        phase=Phase.RUNNING,
        since=now,
        generation=1,
        launch=1,
        handed=1,
        token=uuid.uuid4().hex,
        create=Creation(
            request_id=str(uuid.uuid4()),
            intended=now,
            placement=0,
            where=Placement(zone=ZONE),
            launch=1,
            due=now,
            accepted=now,
        ),
        runners=(runner,),
        progress=Progress(step=STEP + 5, checkpoint_step=STEP, at=now),
        progressed=1,
        revision=1,
    )


def _request(spec: JobSpec, state: JobState) -> NodeRequest:
    node = ResourceName.node(PROJECT, ZONE, node_id(spec.name, 1))
    fields = {
        "accelerator_type": spec.accelerator_type,
        "runtime_version": spec.runtime_version,
        "scheduling_config": {"spot": True},
        "labels": {LABEL_JOB: spec.name, LABEL_UID: state.uid, LABEL_GENERATION: "1"},
    }
    return NodeRequest(parent=node.parent, node_id=node.id, request_id=str(uuid.uuid4()), node=fields)


def _with_node(state: JobState, hostnames: tuple[str, ...]) -> JobState:
    name = node_of(state.job)
    workers = tuple(str(ResourceName(PROJECT, ZONE, "instances", host)) for host in hostnames)
    one = Slice(name=name, id="1", create_time=state.since, state="READY", health="HEALTHY", hostnames=hostnames)
    return replace(state, slices=(one,), resources=(name, *workers))
