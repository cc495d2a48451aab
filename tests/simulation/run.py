"""One run of a plan, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from tests.simulation.faults import Fault
from tests.simulation.hub import START
from tests.simulation.invariants import Broken, Invariant
from tests.simulation.plan import Plan
from tests.simulation.universe import Universe

Line = tuple[datetime, str, str]
"""When, about which job (empty: about none or several), and what happened."""


class Failure(NamedTuple):
    """An invariant that broke, and when: days after the start."""

    invariant: Invariant
    job: str
    what: str
    days: float


class Outcome(NamedTuple):
    """What came of a run."""

    plan: Plan
    failure: Failure | None
    digest: str
    steps: int
    counts: dict[Fault, int]
    """How often each fault has happened."""
    story: list[Line]


def run(plan: Plan, *, with_story: bool = False) -> Outcome:
    """Let a universe live and end well, or break."""
    universe = Universe(plan.seed, plan.jobs, plan.rates)
    failure = None
    with _listening(universe if with_story else None):
        try:
            universe.live(plan.days)
            universe.calm()
        except Broken as broken:
            days = (universe.hub.now - START).total_seconds() / 86_400
            failure = Failure(broken.invariant, broken.job, str(broken), days)
    return Outcome(
        plan,
        failure,
        universe.hub.digest(),
        universe.hub.steps,
        dict(universe.faults.counts),
        universe.story if with_story else [],
    )


class _Listener(logging.Handler):
    """What the service says about its decisions becomes part of the story."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(logging.INFO)
        self._universe = universe

    def emit(self, record: logging.LogRecord) -> None:
        job, words = getattr(record, "job", ""), record.getMessage()
        if hasattr(record, "row"):
            actions = ", ".join(getattr(record, "actions", [])) or "nothing to do"
            words = f"{words} [{getattr(record, 'phase', '')}: {actions}]"
        self._universe.tell(job, f"service: {words}")


@contextmanager
def _listening(universe: Universe | None) -> Iterator[None]:
    """The service's log goes to the story, or nowhere."""
    log = logging.getLogger("tpu_recovery")
    level, propagate, handlers = log.level, log.propagate, log.handlers[:]
    log.propagate = False
    log.handlers = [] if universe is None else [_Listener(universe)]
    log.setLevel(logging.CRITICAL + 1 if universe is None else logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.propagate, log.handlers = propagate, handlers
