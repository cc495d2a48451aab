"""The moves that ask for capacity: under a new generation, again under the same one, or again with the same call."""

from __future__ import annotations

import uuid
from datetime import timedelta

from msgspec.structs import replace

from tpu_recovery.model.decision import Decision, QueueCreate
from tpu_recovery.model.job import node_name, placement_of
from tpu_recovery.model.names import ResourceName, node_id
from tpu_recovery.model.spec import Placement
from tpu_recovery.model.state import Create, JobState, Phase, Slice
from tpu_recovery.recovery import incidents
from tpu_recovery.recovery.leftovers import with_current
from tpu_recovery.recovery.situation import Capacity, Wish
from tpu_recovery.recovery.turn import LAUNCH_MEMORY, Turn, awaiting, in_phase, spend

FIRST_BACKOFF = timedelta(seconds=30)
LONGEST_BACKOFF = timedelta(minutes=15)

CREATE_BACKSTOP = timedelta(minutes=5)
"""The platform's own entry wakes us when a create has ended; this look is for the case that it does not arrive."""

KEPT_NAMES = 40
"""How many names of nodes, and of earlier workers, are kept, so that late entries about them find their job."""


def create(turn: Turn) -> Decision:
    """Put a creation into the queue, of a new generation unless the current one can still be made."""
    job, now = turn.job, turn.now
    state, incident = incidents.opened(job, turn.state, turn.observed, turn.answer.cause, now)
    failed = turn.situation.capacity in (Capacity.FAILED, Capacity.REFUSED) and turn.situation.wish is not Wish.RESUME
    failures = state.failures + 1 if failed else 0
    number = (state.create.placement if state.create else 0) + (1 if failed else 0)
    where = placement_of(job.spec, number)
    again = _can_be_made(state, where)
    if not again:
        state = _next_generation(turn, state, where)
    delay = _backoff(failures, state.uid, state.generation)
    launch = 1 if all(leftover.stopped for leftover in state.leftovers) else 0
    state = replace(
        in_phase(state, Phase.RECOVERING if incident else Phase.WAITING, now),
        launch=launch,
        launch_before=now + delay + LAUNCH_MEMORY if launch else None,
        create=Create(
            request_id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{state.uid}/{state.generation}")),
            intended=now,
            due=now + delay,
            placement=number % len(job.spec.placements),
            where=where,
            launch=launch,
            attempt=state.create.attempt + 1 if state.create and again else 1,
            resume_step=turn.observed.checkpoint.step,
            resume_path=turn.observed.checkpoint.path,
        ),
        failures=failures,
        patience={word: one for word, one in state.patience.items() if word == "capacity"},
        revision=job.wishes.revision if job.wishes else 0,
        wake_at=now + delay + CREATE_BACKSTOP,
    )
    state, spent = spend(turn, state)
    if incident is not None:
        what = f"create {node_id(state.job, state.generation)}"
        incident = replace(
            incidents.with_action(incident, now, what, turn.why),
            checkpoint=turn.observed.checkpoint.why or incident.checkpoint,
            spent=(*incident.spent, *spent),
        )
        incident = incidents.with_milestone(incident, "decided", now)
    action = _queued(state, delay, turn.why)
    return Decision(row=turn.answer.row.name, why=turn.why, state=state, incident=incident, actions=(action,))


def _can_be_made(state: JobState, where: Placement) -> bool:
    """Whether the current generation's call was refused and is to be made again in the same zone.

    Nothing has the name yet, and the name is the fence: should an earlier delivery of the refused call still be frozen
    on its way, it can only make this very node, and never one beside it. A name that is taken is of no use any more.
    """
    create = state.create
    if create is None or create.accepted is not None or create.error is None or create.error.code == "ALREADY_EXISTS":
        return False
    name = ResourceName.parse(state.slices[0].name) if state.slices else None
    return name is not None and name.zone == where.zone


def _next_generation(turn: Turn, state: JobState, where: Placement) -> JobState:
    """The older node, if there was one, becomes a leftover; nothing else of its generation goes on."""
    generation = state.generation + 1
    name = node_name(turn.observed.project, where.zone, state.job, generation)
    return replace(
        state,
        generation=generation,
        handed=0,
        token="",
        slices=(Slice(name=name),),
        leftovers=with_current(state, turn.observed.node, turn.now),
        resources=_kept((*state.resources, name)),
        runners=(),
        suspicion=(),
        absent_since=None,
    )


def _kept(names: tuple[str, ...]) -> tuple[str, ...]:
    """The newest names of nodes, and of workers by themselves: one large slice must not push out all nodes."""
    nodes = [name for name in names if "/nodes/" in name]
    workers = [name for name in names if "/nodes/" not in name]
    return (*nodes[-KEPT_NAMES:], *workers[-KEPT_NAMES:])


def repeat_create(turn: Turn) -> Decision:
    """Put the same creation into the queue again: nobody knows what became of it."""
    create = turn.state.create
    if create is None:
        raise LookupError("there is no create to repeat")
    create = replace(create, attempt=create.attempt + 1, due=turn.now, queued=False)
    state = replace(
        awaiting(turn, turn.phase(turn.answer.row.phase)),
        create=create,
        launch_before=turn.now + LAUNCH_MEMORY if create.launch else turn.state.launch_before,
    )
    return turn.decision(state, _queued(state, timedelta(), turn.why))


def _queued(state: JobState, delay: timedelta, why: str) -> QueueCreate:
    attempt = state.create.attempt if state.create else 1
    return QueueCreate(generation=state.generation, attempt=attempt, delay=delay, why=why)


def _backoff(failures: int, uid: str, generation: int) -> timedelta:
    """How long to wait before the next create: twice as long after each failure, spread by job, with a ceiling."""
    if failures == 0:
        return timedelta()
    longest: timedelta = min(FIRST_BACKOFF * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    spread = uuid.uuid5(uuid.NAMESPACE_URL, f"{uid}/{generation}/backoff").int % 1000 / 1000
    return longest * (0.5 + spread / 2)
