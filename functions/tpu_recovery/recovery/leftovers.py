"""Nodes of ours below the current generation: how one becomes a leftover, is followed, is deleted, and is over.

Two generations may never train. So a leftover counts as stopped only by what the TPU API says about it, and the name
leaves the list only when a second NOT_FOUND has confirmed the first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from tpu_recovery.model.decision import DeleteNode
from tpu_recovery.model.observed import NodeReading, Presence
from tpu_recovery.model.state import JobState, Leftover
from tpu_recovery.recovery.situation import CONFIRM_ABSENCE, is_ours

REPEAT_DELETE = timedelta(minutes=10)
"""A node that still exists this long after its delete was accepted is deleted again."""

STOPPED_STATES = frozenset({"PREEMPTED", "TERMINATED"})
"""A node in such a state runs nothing (facts page, section 3)."""


def with_current(state: JobState, node: NodeReading | None, now: datetime) -> tuple[Leftover, ...]:
    """The leftovers with the current generation's node among them.

    One that is absent needs no delete; it is followed all the same until its absence is confirmed. One that exists
    may run unless its state says otherwise, even if its create is said to have failed.
    """
    if not state.slices or node is None:
        return state.leftovers
    absent = node.presence is Presence.ABSENT
    until = _could_appear_until(state)
    current = Leftover(
        name=state.slices[0].name,
        generation=state.generation,
        stopped=until is None and (absent or node.state in STOPPED_STATES),
        could_appear_until=until,
        delete_accepted=now if absent else None,
        absent_since=(state.absent_since or now) if absent else None,
    )
    return (*state.leftovers, current)


def _could_appear_until(state: JobState) -> datetime | None:
    """Until when a create call that was refused could still make a node that may start the program.

    Tasks are delivered at least once, and an invocation can freeze between its last check and its call. A call that was
    accepted once is safe: the same request id gives the same operation again.
    """
    create = state.create
    if create is None or create.accepted is not None or create.error is None or create.launch == 0:
        return None
    return state.launch_before


def followed(state: JobState, readings: tuple[NodeReading, ...], now: datetime) -> JobState:
    """The state with its leftovers as they were read."""
    by_name = {reading.name: reading for reading in readings}
    after = (_followed(leftover, by_name.get(leftover.name), now) for leftover in state.leftovers)
    return replace(state, leftovers=tuple(leftover for leftover in after if leftover is not None))


def _followed(leftover: Leftover, reading: NodeReading | None, now: datetime) -> Leftover | None:
    """The leftover after a reading; None once its absence has been confirmed by a second NOT_FOUND."""
    if reading is None or reading.presence is Presence.UNREADABLE:
        return leftover
    if reading.presence is Presence.PRESENT:
        return _present(leftover, reading.state)
    if leftover.could_appear_until is not None and now < leftover.could_appear_until:
        return replace(leftover, absent_since=leftover.absent_since or now)
    if leftover.absent_since is not None and now >= leftover.absent_since + CONFIRM_ABSENCE:
        return None
    return replace(leftover, absent_since=leftover.absent_since or now)


def _present(leftover: Leftover, state: str) -> Leftover:
    """One that was thought gone or stopped and is back may run again, and no delete that was made has ended it."""
    stopped = state in STOPPED_STATES or (leftover.stopped and state == "DELETING")
    is_back = leftover.absent_since is not None or (leftover.stopped and not stopped)
    delete_accepted = None if is_back else leftover.delete_accepted
    return replace(leftover, absent_since=None, stopped=stopped, delete_accepted=delete_accepted)


def deletes(state: JobState, readings: tuple[NodeReading, ...], now: datetime) -> tuple[DeleteNode, ...]:
    """A node of ours below the current generation is deleted on sight, whatever else is decided."""
    by_name = {reading.name: reading for reading in readings}
    return tuple(
        DeleteNode(name=leftover.name, why=f"generation {leftover.generation} is over")
        for leftover in state.leftovers
        if _to_delete(state.uid, leftover, by_name.get(leftover.name), now)
    )


def _to_delete(uid: str, leftover: Leftover, reading: NodeReading | None, now: datetime) -> bool:
    if reading is None or reading.presence is Presence.UNREADABLE:
        return leftover.delete_accepted is None  # it was ours when it was replaced, and names are never used twice
    if reading.presence is Presence.ABSENT or reading.state == "DELETING":
        return False
    due = leftover.delete_accepted is None or now >= leftover.delete_accepted + REPEAT_DELETE
    return due and is_ours(uid, leftover.generation, reading)
