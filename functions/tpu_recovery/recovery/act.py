"""Carry out what was decided, one call at a time, and say what came of each. Every call can be repeated."""

from __future__ import annotations

from typing import NamedTuple

from tpu_recovery.errors import NotFound, Refused, Unreadable
from tpu_recovery.events.entry import digest
from tpu_recovery.model.decision import Action, DeleteNode, HandOff, Notify, QueueCreate
from tpu_recovery.model.handoff import encode_handoff
from tpu_recovery.model.job import Job
from tpu_recovery.model.texts import cut
from tpu_recovery.model.validate import HANDOFF_KEY
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.requests import handoff_of

OutsideCall = DeleteNode | QueueCreate | HandOff


class Result(NamedTuple):
    """What came of an action: done, or the problem in words."""

    action: Action
    problem: str = ""

    @property
    def done(self) -> bool:
        """Whether the action took effect."""
        return not self.problem


def act(ports: Ports, job: Job, actions: tuple[Action, ...]) -> list[Result]:
    """Carry out all actions but notices. A call that fails does not keep the others from being made."""
    return [Result(action, _problem(ports, job, action)) for action in actions if not isinstance(action, Notify)]


def _problem(ports: Ports, job: Job, action: OutsideCall) -> str:
    try:
        _carry_out(ports, job, action)
    except (Refused, Unreadable, NotFound) as error:
        return cut(str(error) or type(error).__name__)
    return ""


def _carry_out(ports: Ports, job: Job, action: OutsideCall) -> None:
    if isinstance(action, DeleteNode):
        _delete(ports, action.name)
    elif isinstance(action, QueueCreate):
        _queue_create(ports, job, action)
    else:
        text = encode_handoff(handoff_of(job, ports.settings, launch=action.launch))
        ports.capacity.write_metadata(action.name, {HANDOFF_KEY: text})


def _delete(ports: Ports, name: str) -> None:
    try:
        ports.capacity.delete(name)
    except NotFound:
        return  # that is what was wanted


def _queue_create(ports: Ports, job: Job, action: QueueCreate) -> None:
    uid = job.state.uid
    body = {"job": job.state.job, "uid": uid, "generation": action.generation, "attempt": action.attempt}
    key = digest("create", uid, str(action.generation), str(action.attempt))
    ports.timers.queue_create(body, key=key, at=ports.clock() + action.delay)
