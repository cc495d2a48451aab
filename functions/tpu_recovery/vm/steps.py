"""What the runner does next: one table, with no clock and no side effect of its own."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Callable, NamedTuple, Optional, Tuple

from tpu_recovery.vm.handoff import Handoff, Launch
from tpu_recovery.vm.state import JobState, Settled


class Step(Enum):
    """One thing to do."""

    LEAVE = "the VM shuts down: stop the program and end the runner"
    END = "the program has ended by itself: find out what that means"
    STOP = "the program is not wanted any more: stop it"
    WATCH = "the program runs: look at its progress"
    IDLE = "nothing to do until a newer hand-off comes"
    REPEAT = "the launch was over before this boot: say so again"
    SAY_STOPPED = "a stop is wanted and nothing runs: say so"
    REFUSE_EXPIRED = "the time for a first start of this launch is over: say so"
    BACK_OFF = "the program crashed: wait before the next start"
    PREPARE = "run the scripts and fetch the program"
    START = "choose the checkpoint and start the program"


class Situation(NamedTuple):
    """All that the next step depends on, beside the hand-off."""

    now: datetime
    boot: str
    terminating: bool = False
    running: Optional[Launch] = None
    """The launch whose program was started and is not dealt with yet."""
    ended: bool = False
    """That program has ended by itself."""
    started: Launch = Launch(0, 0)
    """The newest launch ever started on this VM."""
    settled: Optional[Settled] = None
    prepared: Optional[Launch] = None
    retry_in: float = 0
    """Seconds of back-off that are left."""


# What a boot cures, or at least may: these launches are tried again in a new boot, all others stay over.
_TRIED_AGAIN_AFTER_BOOT = ("setup_failed", "refused")

Condition = Callable[[Handoff, Situation], bool]


def _unwanted(handoff: Handoff, now: Situation) -> bool:
    return now.running is not None and (handoff.stop or handoff.key != now.running)


def _over(handoff: Handoff, now: Situation) -> bool:
    settled = now.settled
    if settled is None or settled.launch != handoff.key or settled.boot != now.boot:
        return False
    # More time for the same launch is all that this one was waiting for.
    return settled.reason != "launch-expired" or _expired(handoff, now)


def _over_before_boot(handoff: Handoff, now: Situation) -> bool:
    settled = now.settled
    return settled is not None and settled.launch == handoff.key and settled.kind not in _TRIED_AGAIN_AFTER_BOOT


def _expired(handoff: Handoff, now: Situation) -> bool:
    late = handoff.launch_before is not None and now.now > handoff.launch_before
    return late and now.started < handoff.key


# fmt: off
_TABLE: Tuple[Tuple[Condition, Step], ...] = (  # the first that holds
    (lambda _, now: now.ended,                        Step.END),
    (_unwanted,                                       Step.STOP),
    (lambda _, now: now.running is not None,          Step.WATCH),
    (_over,                                           Step.IDLE),
    (_over_before_boot,                               Step.REPEAT),
    (lambda handoff, _: handoff.stop,                 Step.SAY_STOPPED),
    (lambda handoff, _: handoff.key.launch == 0,      Step.IDLE),
    (_expired,                                        Step.REFUSE_EXPIRED),
    (lambda _, now: now.retry_in > 0,                 Step.BACK_OFF),
    (lambda handoff, now: now.prepared != handoff.key, Step.PREPARE),
    (lambda _handoff, _now: True,                     Step.START),
)
# fmt: on


def next_step(handoff: Optional[Handoff], now: Situation) -> Step:
    """The next thing to do; ``handoff`` is the newest valid one, None before there was any."""
    if now.terminating:
        return Step.LEAVE
    if handoff is None:
        return Step.IDLE
    return next(step for condition, step in _TABLE if condition(handoff, now))


def count_crash(job: JobState, step: Optional[int], checkpoint: Optional[int]) -> None:
    """Count a crash, anew from none when the program had got further than at any crash before in this launch."""
    progressed = _newer(step, job.best_step) or _newer(checkpoint, job.best_checkpoint)
    job.crashes = 0 if progressed else job.crashes + 1
    job.best_step = _newest(step, job.best_step)
    job.best_checkpoint = _newest(checkpoint, job.best_checkpoint)


def _newer(one: Optional[int], than: Optional[int]) -> bool:
    return one is not None and (than is None or one > than)


def _newest(one: Optional[int], other: Optional[int]) -> Optional[int]:
    return max((step for step in (one, other) if step is not None), default=None)
