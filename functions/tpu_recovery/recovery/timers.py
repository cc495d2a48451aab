"""Timers of a job. State is committed first, then the timer is created; what a crash in between loses, the sweep finds.

A task's name stays taken for up to a day after it ran, so every name holds what makes this very timer: the sequence
number, the lease, or the version of the state.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from tpu_recovery.events.entry import digest
from tpu_recovery.model.state import JobState, Lease
from tpu_recovery.recovery.ports import Ports

TIMER_PATH = "/timer"

EARLY = timedelta(seconds=5)
"""A timer that fires this much before its time counts as due: clocks differ."""


SOON_ENOUGH = timedelta(seconds=60)
"""A timer that is set for later than this is not replaced by one for later still."""


def is_due(state: JobState, now: datetime) -> bool:
    """Whether the job's next look is due."""
    return state.wake_at is not None and now >= state.wake_at - EARLY


def scheduled(before: JobState, after: JobState, now: datetime) -> JobState:
    """The state with a new timer number when its next look was moved, or when the timer that was set may have fired.

    A timer that is set already and comes a little sooner is left to do: looking early is safe, and every timer is a
    call that somebody pays for.
    """
    if after.wake_at is None:
        return after
    if _will_do(before, after.wake_at, now):
        return replace(after, wake_at=before.wake_at, timer_seq=before.timer_seq)
    return replace(after, timer_seq=before.timer_seq + 1)


def _will_do(before: JobState, wanted: datetime, now: datetime) -> bool:
    if before.wake_at is None or is_due(before, now) or before.wake_at > wanted:
        return False
    return before.wake_at == wanted or before.wake_at - now >= min((wanted - now) / 2, SOON_ENOUGH)


def set_timer(ports: Ports, before: JobState, after: JobState) -> None:
    """Create the timer of a state that has just been committed, unless it is the one that was there before."""
    if after.wake_at is None or after.timer_seq == before.timer_seq:
        return
    body = {"job": after.job, "uid": after.uid, "seq": after.timer_seq}
    key = digest("timer", after.uid, str(after.timer_seq))
    ports.timers.call_later(TIMER_PATH, body, key=key, at=after.wake_at)


def look_after_lease(ports: Ports, state: JobState, lease: Lease) -> None:
    """Make sure that somebody looks when the lease ends, in case its holder never gives it back.

    It must not fire too early: its name is then used up, and the lease would still be held.
    """
    body = {"job": state.job, "uid": state.uid, "lease": lease.id}
    key = digest("lease", state.uid, lease.id)
    ports.timers.call_later(TIMER_PATH, body, key=key, at=lease.until + EARLY)


def look_soon(ports: Ports, name: str, state: JobState) -> None:
    """Something arrived while a look was under way: look again at once."""
    body = {"job": name, "uid": state.uid, "waiting": True}
    key = digest("waiting", state.uid, str(state.version))
    ports.timers.call_later(TIMER_PATH, body, key=key, at=ports.clock())


def look_at_zone(ports: Ports, project: str, zone: str) -> None:
    """A worker VM that no job claims has lost something in this zone: look at the zone, once a minute at most."""
    now = ports.clock()
    minute = now.replace(second=0, microsecond=0).isoformat()
    ports.timers.call_later(TIMER_PATH, {"zone": zone}, key=digest("zone", project, zone, minute), at=now)


def go_on_sweeping(ports: Ports, after: str) -> None:
    """The sweep has run out of time: go on after this job."""
    now = ports.clock()
    key = digest("sweep", after, now.isoformat())
    ports.timers.call_later(TIMER_PATH, {"sweep_after": after}, key=key, at=now)


def prove_path(ports: Ports) -> None:
    """A task a day that does nothing: it keeps the queue from dozing off and proves that timers arrive."""
    now = ports.clock()
    ports.timers.call_later(TIMER_PATH, {"nothing": True}, key=digest("nothing", now.date().isoformat()), at=now)
