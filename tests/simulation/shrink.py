"""Makes a failure short: fewer days, fewer faults, fewer jobs, as long as the same invariant breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from msgspec.structs import replace
from tests.simulation.plan import Plan
from tests.simulation.run import Outcome, run

Try = Callable[[Plan], Outcome]


def shrink(outcome: Outcome, attempt: Try = run) -> Outcome:
    """The shortest run that was found to break the same invariant. What did not break stays as it is."""
    best = outcome
    while True:
        better = next((one for one in map(attempt, _shorter(best)) if _same(one, outcome)), None)
        if better is None:
            return best
        best = better


def _same(one: Outcome, other: Outcome) -> bool:
    return one.failure is not None and other.failure is not None and one.failure.invariant == other.failure.invariant


def _shorter(outcome: Outcome) -> Iterator[Plan]:
    """Plans that are shorter by one step, those that shorten most first."""
    plan, failure = outcome.plan, outcome.failure
    if failure is None:
        return
    needed = ceil(failure.days * 48) / 48  # half an hour is near enough
    if needed < plan.days:
        yield replace(plan, days=needed)
    silent = [fault for fault in plan.rates if fault not in outcome.counts]
    if silent:
        yield replace(plan, rates={fault: rate for fault, rate in plan.rates.items() if fault not in silent})
    for jobs in sorted({1, plan.jobs // 2, plan.jobs - 1}):
        if 0 < jobs < plan.jobs:
            yield replace(plan, jobs=jobs)
    for fault in plan.rates:
        yield replace(plan, rates={one: rate for one, rate in plan.rates.items() if one is not fault})
