"""Makes a failure short: fewer days, fewer jobs, fewer faults, as long as the same invariant breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from msgspec.structs import replace
from tests.simulation.faults import Fault
from tests.simulation.plan import Plan
from tests.simulation.run import Outcome, run

Attempt = Callable[[Plan], Outcome]

SHORTEST = 1 / 48
"""Days: half an hour is short enough."""


def shrink(outcome: Outcome, attempt: Attempt = run) -> Outcome:
    """The shortest run that was found to break the same invariant; the given one if there is none."""
    best, shorter = outcome, _Shrinker(attempt).shorten(outcome)
    while _size(shorter.plan) < _size(best.plan):
        best, shorter = shorter, _Shrinker(attempt).shorten(shorter)
    return best


def _size(plan: Plan) -> tuple[int, int, float]:
    return len(plan.rates), plan.jobs, plan.days


class _Shrinker:
    """One round of attempts."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def shorten(self, outcome: Outcome) -> Outcome:
        """Each way to shorten, one after the other."""
        outcome = self._with_fewer_days(outcome)
        outcome = self._without(outcome, [fault for fault in outcome.plan.rates if fault not in outcome.counts])
        outcome = self._with_fewer_jobs(outcome)
        outcome = self._with_fewer_faults(outcome)
        return self._with_fewer_days(outcome)

    def _try(self, outcome: Outcome, plan: Plan) -> Outcome | None:
        """The run of a shorter plan, if the same invariant breaks."""
        found = self._attempt(plan) if _size(plan) != _size(outcome.plan) else None
        if found is None or found.failure is None or outcome.failure is None:
            return None
        return found if found.failure.invariant is outcome.failure.invariant else None

    def _with_fewer_days(self, outcome: Outcome) -> Outcome:
        """No longer than until it broke; and if it shows only at the end, half of that."""
        days = outcome.plan.days
        broke = ceil(outcome.failure.days * 48) / 48 if outcome.failure else days
        for fewer in (min(broke, days), days / 2, days * 3 / 4):
            found = self._try(outcome, replace(outcome.plan, days=fewer)) if fewer >= SHORTEST else None
            if found is not None:
                return found
        return outcome

    def _with_fewer_jobs(self, outcome: Outcome) -> Outcome:
        for jobs in range(1, outcome.plan.jobs):
            found = self._try(outcome, replace(outcome.plan, jobs=jobs))
            if found is not None:
                return found
        return outcome

    def _with_fewer_faults(self, outcome: Outcome) -> Outcome:
        """Halves of what is left, then quarters, and at last one by one."""
        size = max(len(outcome.plan.rates) // 2, 1)
        while True:
            faults = list(outcome.plan.rates)
            for start in range(0, len(faults), size):
                outcome = self._without(outcome, faults[start : start + size])
            if size == 1:
                return outcome
            size = max(size // 2, 1)

    def _without(self, outcome: Outcome, faults: Iterable[Fault]) -> Outcome:
        off = set(faults)
        rates = {fault: rate for fault, rate in outcome.plan.rates.items() if fault not in off}
        return self._try(outcome, replace(outcome.plan, rates=rates)) or outcome
