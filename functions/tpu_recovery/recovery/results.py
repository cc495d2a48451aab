"""What came of the actions becomes part of what we know. Pure, so that it can be applied to a newer state again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from tpu_recovery.model.decision import Action, DeleteNode, HandOff, QueueCreate
from tpu_recovery.model.incident import Incident
from tpu_recovery.model.names import node_id
from tpu_recovery.model.state import JobState
from tpu_recovery.recovery import incidents
from tpu_recovery.recovery.act import Result

RETRY = timedelta(seconds=30)
"""How soon to look again after an action that did not take effect."""


def with_results(
    state: JobState, incident: Incident | None, results: Sequence[Result], now: datetime
) -> tuple[JobState, Incident | None]:
    """The state and the open incident after the actions."""
    for result in results:
        if result.done:
            state, incident = _done(state, incident, result, now)
        else:
            state, incident = _failed(state, incident, result, now)
    return state, incident


def _done(
    state: JobState, incident: Incident | None, result: Result, now: datetime
) -> tuple[JobState, Incident | None]:
    match result.action:
        case DeleteNode(name=name, why=why):
            leftovers = tuple(replace(one, delete_accepted=now) if one.name == name else one for one in state.leftovers)
            state = replace(state, leftovers=leftovers)
            if incident is not None:
                what = f"delete {_short(name)}"
                incident = incidents.with_action(incident, now, what, why, "accepted")
                incident = incidents.with_milestone(incident, "deleted", now)
        case HandOff(name=name, launch=launch):
            if state.slices and state.slices[0].name == name:
                state = replace(state, handed=max(state.handed, launch))
            if incident is not None:
                incident = incidents.with_result(incident, f"launch {launch}", "handed over")
        case QueueCreate(generation=generation, attempt=attempt):
            state = _queued(state, generation, attempt)
            if incident is not None:
                incident = incidents.with_result(incident, f"create {node_id(state.job, generation)}", "queued")
    return state, incident


def _queued(state: JobState, generation: int, attempt: int) -> JobState:
    if state.create is None or (state.generation, state.create.attempt) != (generation, attempt):
        return state
    return replace(state, create=replace(state.create, queued=True))


def _failed(
    state: JobState, incident: Incident | None, result: Result, now: datetime
) -> tuple[JobState, Incident | None]:
    soon = now + RETRY
    state = replace(state, wake_at=min(state.wake_at or soon, soon))
    if incident is not None:
        what = _what(state, result.action)
        incident = incidents.with_action(incident, now, what, "", f"failed: {result.problem}")
    return state, incident


def _what(state: JobState, action: Action) -> str:
    match action:
        case DeleteNode(name=name):
            return f"delete {_short(name)}"
        case HandOff(launch=launch):
            return f"launch {launch}"
        case QueueCreate(generation=generation):
            return f"create {node_id(state.job, generation)}"
    return "tell people"


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]
