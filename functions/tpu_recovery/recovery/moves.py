"""The moves of the decision table: each makes, from a job and a situation, the decision that carries the move out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from tpu_recovery.model.decision import Decision, HandOff, Notify
from tpu_recovery.model.incident import Outcome
from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import Observed
from tpu_recovery.model.spec import WhenDone
from tpu_recovery.model.state import FINAL, Hold, JobState, Phase
from tpu_recovery.recovery import creation, incidents
from tpu_recovery.recovery.absorb import forgiven
from tpu_recovery.recovery.explain import explain
from tpu_recovery.recovery.leftovers import with_current
from tpu_recovery.recovery.situation import Situation
from tpu_recovery.recovery.table.columns import Answer, Move
from tpu_recovery.recovery.turn import LAUNCH_MEMORY, Turn, awaiting, spend

DELETE_BACKSTOP = timedelta(minutes=2)
"""How often to look whether the node of a job that is over is gone."""

RUNNING_BACKSTOP = timedelta(hours=1)
"""The runner reports when the program ends; this look is for the case that the report does not arrive."""

LAUNCH_BACKSTOP = timedelta(minutes=5)
"""The runner reports when it has started; this look is for the case that the report does not arrive."""


ARRIVE_TOGETHER = timedelta(minutes=1)
"""Entries about one thing come in within so much of each other."""


def make(job: Job, observed: Observed, situation: Situation, answer: Answer, now: datetime) -> Decision:
    """The decision that carries out the answer's move."""
    move = answer.row.move
    if move is None:
        raise LookupError(f"row {answer.row.name!r} has no move")
    return _MOVES[move](Turn(job, observed, situation, answer, explain(job, observed, situation, answer), now))


def _keep(turn: Turn) -> Decision:
    state = _followed_when_over(awaiting(turn, turn.phase(turn.answer.row.phase)), turn.now)
    if state.phase is turn.state.phase:
        return turn.decision(state)
    return turn.decision(state, Notify(severity="WARNING", text=f"{state.job}: {turn.why}"))


def _wait(turn: Turn) -> Decision:
    return turn.decision(awaiting(turn, turn.phase(turn.answer.row.phase)))


def _followed_when_over(state: JobState, now: datetime) -> JobState:
    """Nothing else looks at a job that is over, so a node that is still to be deleted needs a look of its own."""
    if state.phase not in FINAL or all(leftover.stopped for leftover in state.leftovers):
        return state
    return replace(state, wake_at=now + DELETE_BACKSTOP)


def _pause(turn: Turn) -> Decision:
    return turn.decision(replace(turn.phase(Phase.PAUSED), wake_at=None, patience={}))


def _hold(turn: Turn) -> Decision:
    # The texts as they came are in the incident and in the inbox; twice in one document they could be too much for it.
    evidence = tuple(replace(one, raw="") for one in turn.state.suspicion)
    needs = turn.answer.row.needs.replace("JOB", turn.state.job)
    state = replace(
        turn.phase(Phase.HELD),
        wake_at=None,
        hold=Hold(reason=turn.why, needs=needs, since=turn.now, row=turn.answer.row.name, evidence=evidence),
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


def _hand_off(turn: Turn) -> Decision:
    state = awaiting(turn, turn.phase(turn.answer.row.phase))
    state = replace(state, launch=max(turn.state.launch, 1), launch_before=turn.now + LAUNCH_MEMORY)
    return turn.decision(state, HandOff(name=turn.job.node_name, launch=state.launch, why=turn.why))


def _relaunch(turn: Turn) -> Decision:
    state, spent = spend(turn, turn.phase(turn.answer.row.phase))
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
    decision = turn.decision(awaiting(turn, turn.phase(Phase.RUNNING)))
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
    """The entries were wrong or about something that healed: forget those that were waited for, and look again at once.

    One that came in later may be right all the same, and has a wait of its own.
    """
    began = turn.state.patience[turn.answer.row.concern].since
    newer = tuple(one for one in turn.state.suspicion if one.received > began + ARRIVE_TOGETHER)
    return turn.decision(replace(turn.phase(turn.answer.row.phase), suspicion=newer, patience={}, wake_at=turn.now))


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
    Move.CREATE: creation.create,
    Move.REPEAT_CREATE: creation.repeat_create,
    Move.HAND_OFF: _hand_off,
    Move.RELAUNCH: _relaunch,
    Move.LAUNCHED: _launched,
    Move.RESUMED: _resumed,
    Move.DISMISS: _dismiss,
    Move.SUCCEED: _succeed,
}
