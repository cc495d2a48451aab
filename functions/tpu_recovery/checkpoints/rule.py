"""May training start from this choice? The one rule for the cloud function and the runner.

A job resumes from a complete step, or starts from scratch when nothing was ever saved. Anything else means that
training would lose what was already paid for, so a person decides.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Optional, Tuple

from tpu_recovery.checkpoints.choice import Choice, Outcome, Skipped

_SHOWN = 10
"""Skipped steps named in a reason."""


class Verdict(str, Enum):
    """What a choice means for the next start."""

    RESUME = "resume"
    START = "start"
    INCOMPLETE = "incomplete"
    OLDER = "older"
    """The newest complete step is below one that was seen complete before."""
    MISSING = "missing"
    """Nothing is there, although a complete step was seen before."""


class Judgement(NamedTuple):
    """A verdict and its reason in plain words, fit for an incident."""

    verdict: Verdict
    why: str


def judge(choice: Choice, seen_step: Optional[int]) -> Judgement:
    """Judge a choice against the newest step that was ever seen complete (None: none was)."""
    skipped = _some(choice.skipped)
    if choice.outcome is Outcome.INCOMPLETE:
        return Judgement(Verdict.INCOMPLETE, f"checkpoints are there, but none is complete: {skipped}")
    if choice.outcome is Outcome.EMPTY:
        if seen_step is None:
            return Judgement(Verdict.START, "nothing was saved yet")
        return Judgement(Verdict.MISSING, f"no checkpoint is there, but step {seen_step} was seen complete before")
    also = f" ({skipped})" if skipped else ""
    if seen_step is not None and choice.step is not None and choice.step < seen_step:
        why = f"newest complete step is {choice.step}, but step {seen_step} was seen complete before{also}"
        return Judgement(Verdict.OLDER, why)
    return Judgement(Verdict.RESUME, f"newest complete step is {choice.step}{also}")


def _some(skipped: Tuple[Skipped, ...]) -> str:
    more = [f"and {len(skipped) - _SHOWN} more"] if len(skipped) > _SHOWN else []
    return "; ".join([*(str(one) for one in skipped[:_SHOWN]), *more])
