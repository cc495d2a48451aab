"""How an incident begins, what it gathers, and how it ends. Pure: an incident goes in, an incident comes out."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from tpu_recovery.model.incident import (
    ActionTaken,
    Cause,
    Evidence,
    EvidenceKind,
    Incident,
    Milestones,
    Outcome,
)
from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import END_MEANINGS, LOSS_MEANINGS, Author, Meaning
from tpu_recovery.model.observed import NodeReading, Observed, Presence
from tpu_recovery.model.state import JobState
from tpu_recovery.model.texts import cut
from tpu_recovery.recovery.absorb import MOST_EVIDENCE

MOST_ACTIONS = 100
"""Actions that one incident keeps, the first and the newest: a search for capacity can last for weeks."""


def opened(
    job: Job, state: JobState, observed: Observed, cause: Cause | None, now: datetime
) -> tuple[JobState, Incident | None]:
    """The open incident, or a new one when there is a cause and none is open. Takes over what was suspected."""
    if job.incident is not None:
        return state, with_news(job, observed, now)
    if cause is None:
        return state, None
    evidence = (*state.suspicion, *_fresh(state.suspicion, observed, now))
    number = state.incidents + 1
    incident = Incident(
        id=f"{state.uid}-{number}",
        job=state.job,
        generation=state.generation,
        cause=cause_by_evidence(cause, state.suspicion),
        opened=now,
        evidence=evidence[:MOST_EVIDENCE],
        milestones=Milestones(
            occurred=min((one.at for one in state.suspicion), default=state.absent_since or now),
            received=min((one.received for one in state.suspicion), default=now),
        ),
        last_step=state.progress.step,
    )
    return replace(state, incident=incident.id, incidents=number), incident


_PLATFORM_CAUSES = {
    Meaning.HOST_ERROR: Cause.HOST_ERROR,
    Meaning.RUN_TIME_EXPIRED: Cause.EXPIRED,
    Meaning.HOST_MAINTENANCE: Cause.HOST_MAINTENANCE,
}
"""What the platform's own entries say more exactly than a node's state does."""


def cause_by_evidence(cause: Cause, evidence: tuple[Evidence, ...]) -> Cause:
    """The cause that a row of the table names, or the more exact one that the entries at hand name."""
    platform = [one.meaning for one in evidence if one.author is Author.PLATFORM]
    person = [one.meaning for one in evidence if one.author is Author.PERSON]
    if cause in (Cause.PREEMPTION, Cause.HOST_MAINTENANCE) and Meaning.WORKER_PREEMPTED not in platform:
        return next((exact for meaning, exact in _PLATFORM_CAUSES.items() if meaning in platform), cause)
    if cause is Cause.LOST and not LOSS_MEANINGS.intersection(platform) and END_MEANINGS.intersection(person):
        return Cause.USER_STOPPED if Meaning.STOPPED in person else Cause.USER_DELETED
    return cause


def with_news(job: Job, observed: Observed, now: datetime) -> Incident | None:
    """The open incident with the evidence of this look and the milestones that the state has reached."""
    incident = job.incident
    if incident is None:
        return None
    evidence = (*incident.evidence, *_fresh(incident.evidence, observed, now))[:MOST_EVIDENCE]
    incident = replace(incident, evidence=evidence)
    if job.state.create and job.state.generation > incident.generation:
        if job.state.create.accepted:
            incident = with_milestone(incident, "accepted", job.state.create.accepted)
        if observed.node and observed.node.state == "READY":
            incident = with_milestone(incident, "ready", now)
    return incident


def with_milestone(incident: Incident, name: str, moment: datetime) -> Incident:
    """The incident with a milestone reached; the first time counts."""
    if getattr(incident.milestones, name) is not None:
        return incident
    return replace(incident, milestones=replace(incident.milestones, **{name: moment}))


def with_action(incident: Incident, at: datetime, what: str, why: str, result: str = "intended") -> Incident:
    """The incident with one more thing that is done about it. The same thing again with the same result is no news:
    what fails for days must not fill the incident."""
    taken = ActionTaken(at=at, what=what, why=why, result=result)
    if any(replace(one, at=at) == taken for one in incident.actions):
        return incident
    actions = (*incident.actions, taken)
    if len(actions) > MOST_ACTIONS:
        actions = (*actions[: MOST_ACTIONS // 2], *actions[-(MOST_ACTIONS // 2) :])
    return replace(incident, actions=actions)


def with_result(incident: Incident, what: str, result: str) -> Incident:
    """The incident with the result of the newest action of that name."""
    index = max((i for i, action in enumerate(incident.actions) if action.what == what), default=None)
    if index is None:
        return incident
    actions = list(incident.actions)
    actions[index] = replace(actions[index], result=result)
    return replace(incident, actions=tuple(actions))


def launched(incident: Incident | None, state: JobState, now: datetime) -> Incident | None:
    """The program has started: from which step, and how much work that costs."""
    if incident is None:
        return None
    steps = [runner.resumed_from for runner in state.runners if runner.launch == state.launch]
    resumed_from = max((step for step in steps if step is not None), default=None)
    lost = None
    if incident.last_step is not None:
        lost = max(incident.last_step - (resumed_from or 0), 0)
    incident = replace(incident, resume_step=resumed_from, steps_lost=lost)
    return with_milestone(incident, "launched", now)


def closed(incident: Incident | None, now: datetime) -> Incident | None:
    """Training goes on."""
    if incident is None:
        return None
    incident = with_milestone(incident, "resumed", now)
    return replace(incident, outcome=Outcome.RESUMED, closed=now)


def summary(incident: Incident) -> str:
    """One sentence for people: what happened and what it cost."""
    lost = "an unknown number of steps" if incident.steps_lost is None else f"{incident.steps_lost} steps"
    begun, resumed = incident.milestones.occurred, incident.milestones.resumed
    took = f" after {(resumed - begun).total_seconds():.0f} s" if begun and resumed else ""
    start = "from the beginning" if incident.resume_step is None else f"from step {incident.resume_step}"
    return f"{incident.job} trains again {start}{took}: {incident.cause}, {lost} lost"


def _fresh(known: tuple[Evidence, ...], observed: Observed, now: datetime) -> list[Evidence]:
    """Evidence of this look that is not known yet. A reading counts as news when it differs from the one before."""
    fresh = [letter.evidence for letter in observed.letters if letter.evidence not in known]
    if observed.node is not None:
        says = _reading(observed.node)
        before = next((one for one in reversed(known) if one.subject == observed.node.name), None)
        if before is None or before.kind is not EvidenceKind.READING or before.says != says:
            reading = Evidence(kind=EvidenceKind.READING, at=now, received=now, subject=observed.node.name, says=says)
            fresh.append(reading)
    return fresh


def _reading(node: NodeReading) -> str:
    if node.presence is Presence.PRESENT:
        return f"GetNode: {node.state}, {node.health}" if node.health else f"GetNode: {node.state}"
    return cut(f"GetNode: {node.problem or 'NOT_FOUND'}")


def first_seen(incident: Incident, evidence: Evidence) -> Incident:
    """The incident with its beginning moved back, when the evidence tells of the loss itself at an earlier time."""
    if evidence.author is not Author.PLATFORM or evidence.meaning not in LOSS_MEANINGS:
        return incident
    occurred = incident.milestones.occurred
    if occurred is not None and evidence.at >= occurred:
        return incident
    return replace(incident, milestones=replace(incident.milestones, occurred=evidence.at))
