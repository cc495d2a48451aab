"""Jobs and observations in one readable line each, and a story that takes a job from look to look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tpu_recovery.model.decision import Action, Decision, DeleteNode, HandOff, Notify, QueueCreate
from tpu_recovery.model.incident import Evidence, EvidenceKind
from tpu_recovery.model.job import Job, node_name, placement_of
from tpu_recovery.model.messages import Author, Command, CommandKind, Event, Meaning, Report, ReportKind
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID, ResourceName
from tpu_recovery.model.observed import (
    NOT_READ,
    CheckpointFinding,
    CheckpointReading,
    Letter,
    NodeReading,
    Observed,
    OperationReading,
    OperationState,
    Presence,
)
from tpu_recovery.model.spec import CapacityKind, JobSpec, Placement, Wishes
from tpu_recovery.model.state import Create, CreateError, JobState, Leftover, Phase, RunnerState, Slice
from tpu_recovery.recovery.act import Result
from tpu_recovery.recovery.decide import decide
from tpu_recovery.recovery.results import with_results

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PROJECT, ZONE, OTHER_ZONE = "demo-proj", "us-east5-b", "us-west4-a"
UID, TOKEN = "uid1", "secret"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def name_of(generation: int, zone: str = ZONE) -> str:
    return node_name(PROJECT, zone, "train", generation)


def spec(kind: CapacityKind = CapacityKind.SPOT, **fields: Any) -> JobSpec:
    usual: dict[str, Any] = {
        "name": "train",
        "placements": (Placement(zone=ZONE, capacity=kind),),
        "program": "none",
        "command": "python3 train.py",
        "accelerator_type": "v5litepod-16",
        "runtime_version": "v2-alpha-tpuv5-lite",
    }
    return JobSpec(**{**usual, **fields})


def job(phase: Phase = Phase.RUNNING, *, wishes: Wishes | None = None, **state: Any) -> Job:
    """A job whose first generation was created an hour ago, came up and was allowed to start."""
    usual: dict[str, Any] = {
        "job": "train",
        "uid": UID,
        "phase": phase,
        "since": NOW - hours(1),
        "generation": 1,
        "launch": 1,
        "handed": 1,
        "token": TOKEN,
        "slices": (Slice(name=name_of(1), id="node-1", state="READY"),),
        "resources": (name_of(1),),
    }
    wishes = wishes or Wishes(spec=spec())
    if "create" not in state:
        usual["create"] = created(where=wishes.spec.placements[0])
    return Job(state=JobState(**{**usual, **state}), wishes=wishes)


def created(**changes: Any) -> Create:
    begun = NOW - hours(1)
    usual: dict[str, Any] = {
        "request_id": "r",
        "intended": begun,
        "placement": 0,
        "where": Placement(zone=ZONE),
        "launch": 1,
        "due": begun,
        "queued": True,
        "operation": "operations/1",
        "accepted": begun,
    }
    return Create(**{**usual, **changes})


def waiting_job(**state: Any) -> Job:
    """A job whose first node was asked for just now and has not been seen yet."""
    usual: dict[str, Any] = {
        "handed": 0,
        "slices": (Slice(name=name_of(1)),),
        "create": created(intended=NOW, due=NOW, operation="", accepted=None),
    }
    return job(Phase.WAITING, **{**usual, **state})


def coming_job(**state: Any) -> Job:
    """A job whose first node was asked for; the call was accepted a minute ago."""
    return waiting_job(**{"create": created(accepted=NOW - minutes(1)), "handed": 1, **state})


def fresh_job(**state: Any) -> Job:
    """A job that has just been registered."""
    nothing = {"generation": 0, "launch": 0, "handed": 0, "token": "", "slices": (), "create": None, "resources": ()}
    return job(Phase.REGISTERED, **{**nothing, **state})


def wishing(job: Job, *, paused: bool = False, revision: int = 1, **fields: Any) -> Job:
    """The same job with other wishes, which the current generation was created by, too."""
    wishes, create = Wishes(spec=spec(**fields), paused=paused, revision=revision), job.state.create
    if create is not None:
        create = replace(create, where=placement_of(wishes.spec, create.placement))
    return replace(job, state=replace(job.state, create=create), wishes=wishes)


def running(*kinds: ReportKind, launch: int = 1, **changes: Any) -> tuple[RunnerState, ...]:
    """What each worker has said last, in order."""
    usual: dict[str, Any] = {"launch": launch, "boot": "b", "sequence": 1, "at": NOW, "received": NOW}
    return tuple(RunnerState(worker=i, kind=kind, **{**usual, **changes}) for i, kind in enumerate(kinds))


def leftover(generation: int = 1, **changes: Any) -> Leftover:
    return Leftover(name=name_of(generation), generation=generation, **changes)


def node(state: str = "READY", generation: int = 1, *, zone: str = ZONE, **changes: Any) -> NodeReading:
    usual: dict[str, Any] = {
        "name": name_of(generation, zone),
        "presence": Presence.PRESENT,
        "state": state,
        "id": f"node-{generation}",
        "create_time": NOW,
        "labels": {LABEL_JOB: "train", LABEL_UID: UID, LABEL_GENERATION: str(generation)},
        "workers": 1,
    }
    return NodeReading(**{**usual, **changes})


def absent(generation: int = 1, zone: str = ZONE) -> NodeReading:
    return NodeReading(name=name_of(generation, zone), presence=Presence.ABSENT)


def unreadable(generation: int = 1) -> NodeReading:
    return NodeReading(name=name_of(generation), presence=Presence.UNREADABLE, problem="UNAVAILABLE: try later")


def operation(state: OperationState, code: str = "", message: str = "") -> OperationReading:
    return OperationReading(state=state, code=code, message=message)


STILL_RUNNING = operation(OperationState.RUNNING)
SUCCEEDED = operation(OperationState.SUCCEEDED)
STOCKOUT = operation(OperationState.FAILED, "RESOURCE_EXHAUSTED", "There is no more capacity in the zone")
FOUND = CheckpointReading(finding=CheckpointFinding.FOUND, step=100, path="gs://b/c/100", why="step 100 is complete")


def checkpoint(finding: CheckpointFinding, why: str = "") -> CheckpointReading:
    return CheckpointReading(finding=finding, why=why)


def seen(
    node: NodeReading | None = None,
    *letters: Letter,
    operation: OperationReading | None = None,
    reports: Iterable[Report] = (),
    leftovers: Iterable[NodeReading] = (),
    checkpoint: CheckpointReading = NOT_READ,
    hostnames: tuple[str, ...] = (),
) -> Observed:
    return Observed(
        project=PROJECT,
        node=node,
        operation=operation,
        leftovers=tuple(leftovers),
        hostnames=hostnames,
        reports=tuple(reports),
        checkpoint=checkpoint,
        letters=letters,
    )


def report(kind: ReportKind, *, worker: int = 0, sequence: int = 1, at: datetime = NOW, **changes: Any) -> Report:
    usual: dict[str, Any] = {"job": "train", "uid": UID, "generation": 1, "launch": 1, "boot": "b", "token": TOKEN}
    return Report(kind=kind, worker=worker, sequence=sequence, at=at, **{**usual, **changes})


def letter_of(report: Report) -> Letter:
    evidence = Evidence(
        kind=EvidenceKind.REPORT, at=report.at, received=report.at, subject="generation", says=report.kind
    )
    key = f"report-{report.generation}-{report.launch}-{report.worker}-{report.sequence}"
    return Letter(key=key, received=report.at, evidence=evidence, report=report)


def said(kind: ReportKind, **changes: Any) -> Letter:
    """A report as a letter."""
    return letter_of(report(kind, **changes))


def event(
    meaning: Meaning,
    author: Author = Author.PLATFORM,
    *,
    about: str = "",
    at: datetime = NOW,
    key: str = "",
) -> Letter:
    """An audit entry as a letter, about the first generation's node unless it says otherwise."""
    resource = ResourceName.parse(about or name_of(1))
    assert resource is not None
    evidence = Evidence(
        kind=EvidenceKind.EVENT,
        at=at,
        received=at + seconds(4),
        subject=str(resource),
        says=f"{meaning} {key}".strip(),
        meaning=meaning,
        author=author,
    )
    what = Event(key=key or meaning, resource=resource, method="m", meaning=meaning, author=author, principal="", at=at)
    return Letter(key=key or meaning, received=at + seconds(4), evidence=evidence, event=what)


def command(kind: CommandKind, at: datetime = NOW) -> Letter:
    evidence = Evidence(kind=EvidenceKind.COMMAND, at=at, received=at, subject="train", says=f"{kind} by ann")
    what = Command(id=f"{kind}-{at}", job="train", kind=kind, at=at, by="ann")
    return Letter(key=what.id, received=at, evidence=evidence, command=what)


def resume(at: datetime = NOW) -> Letter:
    return command(CommandKind.RESUME, at)


class Story:
    """A job from look to look: every action takes effect unless the story says otherwise, and time passes."""

    def __init__(self, job: Job, now: datetime = NOW) -> None:
        self.job, self.now = job, now
        self.decisions: list[Decision] = []

    def look(self, observed: Observed, *, after: timedelta = timedelta(), fails: str = "") -> Decision:
        """One look, so much later. ``fails``: why no action took effect."""
        self.now += after
        decision = decide(self.job, observed, self.now)
        state = decision.state
        if state.generation > self.job.state.generation:
            state = replace(state, token=TOKEN)
        results = [Result(one, fails) for one in decision.actions if not isinstance(one, Notify)]
        state, incident = with_results(state, decision.incident, results, self.now)
        self.job = replace(self.job, state=state, incident=incident if state.incident else None)
        self.decisions.append(decision)
        return decision

    def look_when_due(self, observed: Observed) -> Decision:
        """A look at the moment for which the last one set its timer."""
        assert self.state.wake_at is not None, "nobody wakes the job"
        return self.look(observed, after=self.state.wake_at - self.now)

    def look_until(self, observed: Observed, phase: Phase, *, at_most: int = 200) -> Decision:
        """Looks at what stays the same, each when its timer says so, until the job is in the phase."""
        for _ in range(at_most):
            decision = self.look_when_due(observed)
            if decision.state.phase is phase:
                return decision
        raise AssertionError(f"still {self.state.phase} after {at_most} looks")

    def accepted(self) -> Story:
        """The create call was made and accepted."""
        create = self._create()
        accepted = replace(create, operation="operations/x", accepted=self.now)
        return self._with(create=accepted, handed=create.launch)

    def refused(self, code: str, message: str = "no") -> Story:
        """The create call was made and answered with an error."""
        return self._with(create=replace(self._create(), error=CreateError(code=code, message=message, at=self.now)))

    def rewish(self, change: Callable[[Job], Job]) -> Story:
        """People change their wishes."""
        self.job = change(self.job)
        return self

    @property
    def state(self) -> JobState:
        return self.job.state

    def _create(self) -> Create:
        assert self.state.create is not None
        return self.state.create

    def _with(self, **changes: Any) -> Story:
        self.job = replace(self.job, state=replace(self.state, **changes))
        return self


def deleted(decision: Decision) -> list[str]:
    """Short names of the nodes that are to be deleted."""
    return [one.name.rsplit("/", 1)[1] for one in _of(DeleteNode, decision)]


def creates(decision: Decision) -> list[int]:
    """Generations that are to be created."""
    return [one.generation for one in _of(QueueCreate, decision)]


def handed_over(decision: Decision) -> list[int]:
    """Launch numbers that are to be written."""
    return [one.launch for one in _of(HandOff, decision)]


def told(decision: Decision) -> list[str]:
    """What people are told."""
    return [one.text for one in _of(Notify, decision)]


def _of(kind: type[Any], decision: Decision) -> list[Any]:
    actions: tuple[Action, ...] = decision.actions
    return [one for one in actions if isinstance(one, kind)]
