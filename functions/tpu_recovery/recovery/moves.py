"""The moves of the decision table: each makes, from a job and a situation, the decision that carries the move out."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from tpu_recovery.model.decision import Action, Decision, HandOff, Notify, QueueCreate
from tpu_recovery.model.incident import Outcome
from tpu_recovery.model.job import Job, node_name, placement_of
from tpu_recovery.model.names import node_id
from tpu_recovery.model.observed import Observed
from tpu_recovery.model.spec import WhenDone
from tpu_recovery.model.state import FINAL, Create, Hold, JobState, Phase, Slice, Spending
from tpu_recovery.recovery import incidents
from tpu_recovery.recovery.absorb import forgiven
from tpu_recovery.recovery.explain import explain
from tpu_recovery.recovery.leftovers import with_current
from tpu_recovery.recovery.situation import Capacity, Situation, Wish
from tpu_recovery.recovery.table.columns import Answer, Move

LAUNCH_MEMORY = timedelta(minutes=15)
"""How long a launch permission is good for a first start.

A create call can freeze on its way and go on much later, when the job has long gone on to another generation; the
permission in its hand-off has run out by then, so that what it makes cannot start to train. A node that takes longer to
come up asks for a new permission, which costs one report and one update.
"""

FIRST_BACKOFF = timedelta(seconds=30)
LONGEST_BACKOFF = timedelta(minutes=15)

CREATE_BACKSTOP = timedelta(minutes=5)
"""The platform's own entry wakes us when a create has ended; this look is for the case that it does not arrive."""

DELETE_BACKSTOP = timedelta(minutes=2)
"""How often to look whether the node of a job that is over is gone."""

RUNNING_BACKSTOP = timedelta(hours=1)
"""The runner reports when the program ends; this look is for the case that the report does not arrive."""

LAUNCH_BACKSTOP = timedelta(minutes=5)
"""The runner reports when it has started; this look is for the case that the report does not arrive."""

_HOLDING = frozenset({Phase.HELD, Phase.PAUSED})

KEPT_NAMES = 40
"""How many names of earlier nodes and workers are kept, so that late entries about them find their job."""


class Turn(NamedTuple):
    """All that a move is made from."""

    job: Job
    observed: Observed
    situation: Situation
    answer: Answer
    why: str
    now: datetime

    @property
    def state(self) -> JobState:
        """What we know, with everything that was read."""
        return self.job.state

    def decision(self, state: JobState, *actions: Action) -> Decision:
        """A decision without news for an incident beyond the evidence that came in."""
        incident = incidents.with_news(self.job, self.observed, self.now)
        return Decision(row=self.answer.row.name, why=self.why, state=state, incident=incident, actions=actions)

    def phase(self, phase: Phase | None) -> JobState:
        """The state in another phase."""
        return in_phase(self.state, phase, self.now)


def make(job: Job, observed: Observed, situation: Situation, answer: Answer, now: datetime) -> Decision:
    """The decision that carries out the answer's move."""
    move = answer.row.move
    if move is None:
        raise LookupError(f"row {answer.row.name!r} has no move")
    return _MOVES[move](Turn(job, observed, situation, answer, explain(job, observed, situation, answer), now))


def in_phase(state: JobState, phase: Phase | None, now: datetime) -> JobState:
    """The state in another phase, since now. A hold ends with the phase that it made; a pause does not end it."""
    if phase is None or phase is state.phase:
        return state
    return replace(state, phase=phase, since=now, hold=state.hold if phase in _HOLDING else None)


def _keep(turn: Turn) -> Decision:
    state = _followed_when_over(_awaiting(turn, turn.phase(turn.answer.row.phase)), turn.now)
    if state.phase is turn.state.phase:
        return turn.decision(state)
    return turn.decision(state, Notify(severity="WARNING", text=f"{state.job}: {turn.why}"))


def _wait(turn: Turn) -> Decision:
    return turn.decision(_awaiting(turn, turn.phase(turn.answer.row.phase)))


def _awaiting(turn: Turn, state: JobState) -> JobState:
    """The state with the next look set: after the row's interval, or at its concern's deadline if that comes sooner."""
    row = turn.answer.row
    moments = [turn.now + timedelta(seconds=row.again)] if row.again else []
    if row.concern and turn.now < state.patience[row.concern].until:
        moments.append(state.patience[row.concern].until)
    return replace(state, wake_at=min(moments, default=None))


def _followed_when_over(state: JobState, now: datetime) -> JobState:
    """Nothing else looks at a job that is over, so a node that is still to be deleted needs a look of its own."""
    if state.phase not in FINAL or all(leftover.stopped for leftover in state.leftovers):
        return state
    return replace(state, wake_at=now + DELETE_BACKSTOP)


def _pause(turn: Turn) -> Decision:
    return turn.decision(replace(turn.phase(Phase.PAUSED), wake_at=None, patience={}))


def _hold(turn: Turn) -> Decision:
    needs = turn.answer.row.needs.replace("JOB", turn.state.job)
    state = replace(
        turn.phase(Phase.HELD),
        wake_at=None,
        hold=Hold(
            reason=turn.why, needs=needs, since=turn.now, row=turn.answer.row.name, evidence=turn.state.suspicion
        ),
    )
    state, incident = incidents.opened(turn.job, state, turn.observed, turn.answer.cause, turn.now)
    if incident is not None:
        incident = replace(
            incidents.with_action(incident, turn.now, "held the job", turn.why, "done"),
            outcome=Outcome.HELD,
            closed=turn.now,
            needs=needs,
        )
        state = replace(state, incident="")
    notice = Notify(severity="ERROR", text=f"{turn.state.job} is held: {turn.why}. To do: {needs}")
    return Decision(row=turn.answer.row.name, why=turn.why, state=state, incident=incident, actions=(notice,))


def _create(turn: Turn) -> Decision:
    """A new generation: the older node, if there was one, becomes a leftover; a create goes into the queue."""
    job, now = turn.job, turn.now
    state, incident = incidents.opened(job, turn.state, turn.observed, turn.answer.cause, now)
    failed = turn.situation.capacity in (Capacity.FAILED, Capacity.REFUSED) and turn.situation.wish is not Wish.RESUME
    failures = state.failures + 1 if failed else 0
    leftovers = with_current(state, turn.observed.node, now)
    generation = state.generation + 1
    placement = (state.create.placement if state.create else 0) + (1 if failed else 0)
    where = placement_of(job.spec, placement)
    name = node_name(turn.observed.project, where.zone, state.job, generation)
    launch = 1 if all(leftover.stopped for leftover in leftovers) else 0
    delay = _backoff(failures, state.uid, generation)
    state = replace(
        in_phase(state, Phase.RECOVERING if incident else Phase.WAITING, now),
        generation=generation,
        launch=launch,
        launch_before=now + delay + LAUNCH_MEMORY if launch else None,
        handed=0,
        token="",
        slices=(Slice(name=name),),
        create=Create(
            request_id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{state.uid}/{generation}")),
            intended=now,
            due=now + delay,
            placement=placement % len(job.spec.placements),
            where=where,
            launch=launch,
            resume_step=turn.observed.checkpoint.step,
            resume_path=turn.observed.checkpoint.path,
        ),
        failures=failures,
        leftovers=leftovers,
        resources=(*state.resources, name)[-KEPT_NAMES:],
        runners=(),
        suspicion=(),
        absent_since=None,
        patience={word: one for word, one in state.patience.items() if word == "capacity"},
        revision=job.wishes.revision if job.wishes else 0,
        wake_at=now + delay + CREATE_BACKSTOP,
    )
    state, spent = _spend(turn, state)
    why = turn.why
    if incident is not None:
        incident = replace(
            incidents.with_action(incident, now, f"create {node_id(state.job, generation)}", why),
            checkpoint=turn.observed.checkpoint.why or incident.checkpoint,
            spent=(*incident.spent, *spent),
        )
        incident = incidents.with_milestone(incident, "decided", now)
    action = QueueCreate(generation=generation, attempt=1, delay=delay, why=why)
    return Decision(row=turn.answer.row.name, why=why, state=state, incident=incident, actions=(action,))


def _spend(turn: Turn, state: JobState) -> tuple[JobState, tuple[str, ...]]:
    """Use up the attempts that the answer costs. A loss after progress, and a create that failed, cost nothing."""
    free_loss = turn.answer.cause is None or turn.state.progressed == turn.state.generation
    spent = tuple(word for word in turn.answer.attempts if not (word == "loss" and free_loss))
    spending = dict(state.spending)
    for word in spent:
        one = spending.get(word, Spending())
        spending[word] = replace(one, spent=one.spent + 1)
    return replace(state, spending=spending), spent


def _backoff(failures: int, uid: str, generation: int) -> timedelta:
    """How long to wait before the next create: twice as long after each failure, spread by job, with a ceiling."""
    if failures == 0:
        return timedelta()
    longest: timedelta = min(FIRST_BACKOFF * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    spread = uuid.uuid5(uuid.NAMESPACE_URL, f"{uid}/{generation}/backoff").int % 1000 / 1000
    return longest * (0.5 + spread / 2)


def _repeat_create(turn: Turn) -> Decision:
    create = turn.state.create
    if create is None:
        raise LookupError("there is no create to repeat")
    create = replace(create, attempt=create.attempt + 1, due=turn.now, queued=False)
    state = replace(_awaiting(turn, turn.phase(turn.answer.row.phase)), create=create)
    action = QueueCreate(generation=state.generation, attempt=create.attempt, delay=timedelta(), why=turn.why)
    return turn.decision(state, action)


def _hand_off(turn: Turn) -> Decision:
    state = _awaiting(turn, turn.phase(turn.answer.row.phase))
    state = replace(state, launch=max(turn.state.launch, 1), launch_before=turn.now + LAUNCH_MEMORY)
    return turn.decision(state, HandOff(name=turn.job.node_name, launch=state.launch, why=turn.why))


def _relaunch(turn: Turn) -> Decision:
    state, spent = _spend(turn, turn.phase(turn.answer.row.phase))
    state = replace(
        state,
        launch=state.launch + 1,
        launch_before=turn.now + LAUNCH_MEMORY,
        patience={},
        wake_at=turn.now + LAUNCH_BACKSTOP,
    )
    decision = turn.decision(state, HandOff(name=turn.job.node_name, launch=state.launch, why=turn.why))
    if decision.incident is None:
        return decision
    incident = incidents.with_action(decision.incident, turn.now, f"launch {state.launch}", turn.why)
    return replace(decision, incident=replace(incident, spent=(*incident.spent, *spent)))


def _launched(turn: Turn) -> Decision:
    decision = turn.decision(_awaiting(turn, turn.phase(Phase.RUNNING)))
    return replace(decision, incident=incidents.launched(decision.incident, turn.state, turn.now))


def _resumed(turn: Turn) -> Decision:
    """Progress after a launch: the incident is over, and nothing that was spent on the way counts any more."""
    state = replace(
        turn.phase(Phase.RUNNING),
        wake_at=turn.now + RUNNING_BACKSTOP,
        patience={},
        suspicion=(),
        failures=0,
        spending=forgiven(turn.state.spending),
        progressed=turn.state.generation,
        incident="",
    )
    decision = turn.decision(state)
    incident = incidents.closed(incidents.launched(decision.incident, turn.state, turn.now), turn.now)
    notices = () if incident is None else (Notify(severity="NOTICE", text=incidents.summary(incident)),)
    return replace(decision, incident=incident, actions=notices)


def _dismiss(turn: Turn) -> Decision:
    """The entries were wrong or about something that healed: forget them and look again at once."""
    return turn.decision(replace(turn.phase(turn.answer.row.phase), suspicion=(), patience={}, wake_at=turn.now))


def _succeed(turn: Turn) -> Decision:
    release = turn.job.spec.when_done is WhenDone.RELEASE
    state = replace(
        turn.phase(Phase.SUCCEEDED),
        wake_at=None,
        patience={},
        incident="",
        leftovers=with_current(turn.state, turn.observed.node, turn.now) if release else turn.state.leftovers,
        slices=() if release else turn.state.slices,
    )
    state = _followed_when_over(state, turn.now)
    decision = turn.decision(state, Notify(severity="NOTICE", text=f"{state.job} has finished"))
    incident = incidents.closed(incidents.launched(decision.incident, turn.state, turn.now), turn.now)
    return replace(decision, incident=incident)


_MOVES: dict[Move, Callable[[Turn], Decision]] = {
    Move.KEEP: _keep,
    Move.WAIT: _wait,
    Move.PAUSE: _pause,
    Move.HOLD: _hold,
    Move.CREATE: _create,
    Move.REPEAT_CREATE: _repeat_create,
    Move.HAND_OFF: _hand_off,
    Move.RELAUNCH: _relaunch,
    Move.LAUNCHED: _launched,
    Move.RESUMED: _resumed,
    Move.DISMISS: _dismiss,
    Move.SUCCEED: _succeed,
}
