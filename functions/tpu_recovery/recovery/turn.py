"""What every move of the decision table is made from, and what several of them do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from tpu_recovery.model.decision import Action, Decision
from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import Observed
from tpu_recovery.model.state import Create, JobState, Phase, Spending
from tpu_recovery.recovery import incidents
from tpu_recovery.recovery.situation import Situation
from tpu_recovery.recovery.table.columns import Answer

LAUNCH_MEMORY = timedelta(minutes=15)
"""How long a launch permission is good for a first start.

A create call can freeze on its way and go on much later, when the job has long gone on to another generation; the
permission in its hand-off has run out by then, so that what it makes cannot start to train. A node that takes longer to
come up asks for a new permission, which costs one report and one update.
"""

_HOLDING = frozenset({Phase.HELD, Phase.PAUSED})


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


def in_phase(state: JobState, phase: Phase | None, now: datetime) -> JobState:
    """The state in another phase, since now. A hold ends with the phase that it made; a pause does not end it."""
    if phase is None or phase is state.phase:
        return state
    holding = phase in _HOLDING
    return replace(
        state,
        phase=phase,
        since=now,
        hold=state.hold if holding else None,
        create=_out_of_the_queue(state.create) if holding else state.create,
    )


def _out_of_the_queue(create: Create | None) -> Create | None:
    """The creation as one to be asked for again: its call is dropped when its turn comes while the job is at rest."""
    if create is None or create.accepted is not None or create.error is not None:
        return create
    return replace(create, queued=False)


def awaiting(turn: Turn, state: JobState) -> JobState:
    """The state with the next look set: after the row's interval, or at its concern's deadline if that comes sooner."""
    row = turn.answer.row
    moments = [turn.now + timedelta(seconds=row.again)] if row.again else []
    if row.concern and turn.now < state.patience[row.concern].until:
        moments.append(state.patience[row.concern].until)
    return replace(state, wake_at=min(moments, default=None))


def spend(turn: Turn, state: JobState) -> tuple[JobState, tuple[str, ...]]:
    """Use up the attempts that the answer costs. A loss after progress, and a create that failed, cost nothing."""
    free_loss = turn.answer.cause is None or turn.state.progressed == turn.state.generation
    spent = tuple(word for word in turn.answer.attempts if not (word == "loss" and free_loss))
    spending = dict(state.spending)
    for word in spent:
        one = spending.get(word, Spending())
        spending[word] = replace(one, spent=one.spent + 1)
    return replace(state, spending=spending), spent
