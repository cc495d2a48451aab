"""What a look has read becomes part of what we know. Nothing is decided here."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from tpu_recovery.model.incident import Evidence
from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import END_MEANINGS, LOSS_MEANINGS, Author, Event, Report, ReportKind
from tpu_recovery.model.observed import CheckpointFinding, NodeReading, Observed, Presence
from tpu_recovery.model.state import JobState, RunnerState, Spending
from tpu_recovery.model.texts import LONGEST_DETAIL, cut
from tpu_recovery.recovery.leftovers import followed
from tpu_recovery.recovery.resumes import asks_to_go_on, is_late
from tpu_recovery.recovery.situation import ABOUT_OLDER_CHECKPOINTS, owns

MOST_EVIDENCE = 40
"""Pieces of evidence that one incident keeps; the inbox keeps every entry by itself."""

STATES_WITHOUT_VM = frozenset({"STOPPING", "STOPPED", "STARTING"})
"""Node states in which no program runs, or not for long (facts page, section 3)."""


def absorb(job: Job, observed: Observed, now: datetime) -> tuple[Job, dict[str, str]]:
    """The job with everything that was read, and the inbox entries that say nothing valid, with the reason."""
    state, ignored = job.state, {}
    if asks_to_go_on(state, observed.letters):
        state = _released(state, observed.node, now)
    for letter in observed.letters:
        reason = ""
        if letter.event:
            state = _with_suspicion(state, letter.event, letter.evidence)
        elif letter.report:
            state, reason = _with_report(state, letter.report, letter.received)
        elif letter.command and is_late(state, letter.command):
            reason = "it was sent before the job was held"
        if reason:
            ignored[letter.key] = reason
    for report in observed.reports:
        state, _ = _with_report(state, report, now)
    state = _with_node(replace(job, state=state), observed, now)
    state = followed(state, observed.leftovers, now)
    return replace(job, state=_with_checkpoint(state, observed)), ignored


def _released(state: JobState, node: NodeReading | None, now: datetime) -> JobState:
    """A person says go on: every wait begins anew, and attempts count from here.

    What was said about the end of a node that is READY is over, too. An older checkpoint is accepted when that is what
    the hold was about.
    """
    progress = state.progress
    if state.hold is not None and state.hold.row in ABOUT_OLDER_CHECKPOINTS:
        progress = replace(progress, checkpoint_step=None, older_accepted=now)
    ready = node is not None and node.state == "READY"
    return replace(
        state,
        going_on=True,
        patience={},
        suspicion=() if ready else state.suspicion,
        spending=forgiven(state.spending),
        progress=progress,
    )


def _with_suspicion(state: JobState, event: Event, evidence: Evidence) -> JobState:
    """Keep what entries say about the end of the current node. Our own deletes are no news."""
    if not concerns_current(state, event) or event.author is Author.SERVICE:
        return state
    if event.meaning not in LOSS_MEANINGS | END_MEANINGS or evidence in state.suspicion:
        return state
    return replace(state, suspicion=(*state.suspicion, evidence)[-MOST_EVIDENCE:])


def concerns_current(state: JobState, event: Event) -> bool:
    """Whether the entry names the current generation's node, or a worker VM of it."""
    name = str(event.resource)
    return any(
        name == one.name or (event.resource.is_worker and event.resource.id in one.hostnames) for one in state.slices
    )


def _with_report(state: JobState, report: Report, received: datetime) -> tuple[JobState, str]:
    if report.uid != state.uid:
        return state, f"it is about another registration of the job ({report.uid})"
    if report.generation != state.generation:
        return state, f"it is about generation {report.generation}; the current one is {state.generation}"
    if not state.token or report.token != state.token:
        return state, "its token is not the one of this generation"
    newest = {runner.worker: runner for runner in state.runners}
    known = newest.get(report.worker)
    state = _with_steps(state, report, known)
    if report.hostname and state.slices:
        state = with_hostnames(state, (report.hostname.split(".")[0],))
    if known and not _is_newer(report, known):
        return state, ""
    if report.kind is not ReportKind.ALIVE:
        newest[report.worker] = RunnerState(
            worker=report.worker,
            kind=report.kind,
            launch=report.launch,
            boot=report.boot,
            sequence=report.sequence,
            at=report.at,
            received=received,
            resumed_from=_resumed_from(report, known),
            exit_code=report.exit_code,
            reason=report.reason or "",
            detail=cut(report.detail or "", LONGEST_DETAIL),
        )
    return replace(state, runners=tuple(newest[worker] for worker in sorted(newest))), ""


def _resumed_from(report: Report, known: RunnerState | None) -> int | None:
    """Runners say it once, when the program starts; it stays true for the whole launch."""
    if report.resumed_from is None and known is not None and known.launch == report.launch:
        return known.resumed_from
    return report.resumed_from


def _is_newer(report: Report, known: RunnerState) -> bool:
    """By the runner's own count, which its disk keeps over boots. A count that began anew came with another boot; only
    then the clock has to say which is newer, and a VM's clock can be wrong."""
    return report.sequence > known.sequence or (report.boot != known.boot and report.at > known.at)


def _with_steps(state: JobState, report: Report, known: RunnerState | None) -> JobState:
    progress = state.progress
    is_newest = _is_newer(report, known) if known else progress.at is None or report.at >= progress.at
    if report.step is not None and is_newest:
        progress = replace(progress, step=report.step, at=report.at)
    is_over = progress.older_accepted is not None and report.at <= progress.older_accepted
    if report.checkpoint_step is not None and not is_over:
        newest = max(report.checkpoint_step, progress.checkpoint_step or 0)
        progress = replace(progress, checkpoint_step=newest)
    made_progress = report.kind is ReportKind.PROGRESS
    return replace(state, progress=progress, progressed=state.generation if made_progress else state.progressed)


def with_hostnames(state: JobState, hostnames: tuple[str, ...]) -> JobState:
    """The state with more worker VMs of the current node known, so that entries about them find the job."""
    one = state.slices[0]
    known = tuple(sorted({*one.hostnames, *hostnames}))
    if known == one.hostnames:
        return state
    prefix = one.name.replace("/locations/", "/zones/").rsplit("/nodes/", 1)[0]
    resources = (*state.resources, *(f"{prefix}/instances/{name}" for name in known if name not in one.hostnames))
    return replace(state, slices=(replace(one, hostnames=known),), resources=resources)


def _with_node(job: Job, observed: Observed, now: datetime) -> JobState:
    state, node = job.state, observed.node
    if node is None or not state.slices or node.presence is Presence.UNREADABLE:
        return state
    if node.presence is Presence.ABSENT:
        was_there = state.slices[0].id or (state.create and state.create.accepted)
        return replace(state, absent_since=state.absent_since or now) if was_there else state
    state = replace(state, absent_since=None)
    if not owns(job, node):
        return state
    one = replace(state.slices[0], id=node.id, create_time=node.create_time, state=node.state, health=node.health)
    state = replace(state, slices=(one,))
    if node.state in STATES_WITHOUT_VM:
        state = replace(state, runners=tuple(_with_vm_off(runner) for runner in state.runners))
    if state.create and state.create.accepted is None:
        state = replace(state, create=replace(state.create, accepted=now, error=None), handed=state.create.launch)
    return with_hostnames(state, observed.hostnames) if observed.hostnames else state


def _with_vm_off(runner: RunnerState) -> RunnerState:
    """What a runner last said, now that its VM is off: should the node be started again, it has to speak anew."""
    if runner.kind not in (ReportKind.STARTED, ReportKind.PROGRESS, ReportKind.CRASHED):
        return runner
    return replace(runner, kind=ReportKind.STOPPED, reason="node-stopped")


def _with_checkpoint(state: JobState, observed: Observed) -> JobState:
    reading = observed.checkpoint
    if reading.finding is not CheckpointFinding.FOUND or reading.step is None:
        return state
    newest = max(reading.step, state.progress.checkpoint_step or 0)
    return replace(state, progress=replace(state.progress, checkpoint_step=newest))


def forgiven(spending: dict[str, Spending]) -> dict[str, Spending]:
    """After progress nothing that was spent before counts any more."""
    return {word: replace(one, forgiven=one.spent) for word, one in spending.items()}
