"""The command behind scripts/simulate: many seeds on all cores, or one failure again, told as a story."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.simulation.faults import Fault
from tests.simulation.hub import START
from tests.simulation.mutations import check_all, table
from tests.simulation.plan import (
    DEFAULT_DAYS,
    DEFAULT_JOBS,
    NotReadable,
    Plan,
    has_usual_rates,
    rates_of,
    read_plan,
    write_plan,
)
from tests.simulation.run import Outcome, run
from tests.simulation.shrink import shrink

PROGRESS_EVERY = 5.0
"""Seconds between two lines about how far it is."""

MOST_TOLD = 3
"""So many failures are shortened and told; of the others there is a line and a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the exit status is 1 when an invariant broke, 2 for arguments that are wrong."""
    chosen = _parser().parse_args(arguments)
    if chosen.mutations:
        print(table(check_all()))
        return 0
    try:
        plans = _plans(chosen)
    except NotReadable as problem:
        print(problem, file=sys.stderr)
        return 2
    broken = []
    for outcome in _progress(plans):
        if outcome.failure is not None:
            broken.append(outcome)
            _tell(
                outcome,
                Path(chosen.keep),
                at_length=len(broken) <= MOST_TOLD,
                shorten=not (chosen.as_it_is or chosen.replay),
            )
        elif len(plans) == 1:
            print(f"seed {outcome.plan.seed}: nothing broke; digest {outcome.digest}, {outcome.steps} steps")
    print(f"seeds {len(plans)}, broken {len(broken)}")
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="The service's own code in a simulated world in which everything goes wrong. The same seed gives "
        "the same run. Exit status 1 when an invariant broke.",
        epilog=f"Faults: {', '.join(Fault)}. What they and the invariants are: docs/simulation.md.",
    )
    parser.add_argument("--seeds", type=_positive, default=100, metavar="N", help="how many seeds (default 100)")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="S", help="the first of them (default 1)")
    parser.add_argument("--jobs", type=_positive, default=DEFAULT_JOBS, metavar="J", help="training jobs in each run")
    parser.add_argument("--days", type=_days, default=DEFAULT_DAYS, metavar="D", help="days until the faults end")
    parser.add_argument("--only", nargs="*", type=_fault, metavar="FAULT", help="only these (none: nothing goes wrong)")
    parser.add_argument("--without", nargs="+", type=_fault, metavar="FAULT", default=[], help="all but these faults")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run what a failure has written to this file")
    parser.add_argument("--mutations", action="store_true", help="how many seeds find each known mistake: a table")
    parser.add_argument("--as-it-is", action="store_true", help="do not make failures shorter")
    parser.add_argument("--keep", default="build/simulation", metavar="DIRECTORY", help="where files of failures go")
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return number


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days <= 366:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days above 0 and up to 366")
    return days


def _fault(text: str) -> Fault:
    if text not in list(Fault):
        raise argparse.ArgumentTypeError(f"there is no fault {text!r}; --help lists them")
    return Fault(text)


def _plans(chosen: argparse.Namespace) -> list[Plan]:
    if chosen.replay is not None:
        return [read_plan(chosen.replay)]
    rates = rates_of(chosen.only, chosen.without)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    return [Plan(seed=seed, jobs=chosen.jobs, days=chosen.days, rates=rates) for seed in seeds]


def outcomes(plans: Sequence[Plan]) -> Iterator[Outcome]:
    """The runs, each on whichever core is free."""
    cores = min(os.cpu_count() or 1, len(plans))
    if cores == 1:
        yield from map(run, plans)
        return
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        yield from pool.imap_unordered(run, plans)


def _progress(plans: Sequence[Plan]) -> Iterator[Outcome]:
    """The same, with a line on the way now and then."""
    began = told = time.monotonic()
    broken = 0
    for number, outcome in enumerate(outcomes(plans), start=1):
        broken += outcome.failure is not None
        now = time.monotonic()
        if now - told >= PROGRESS_EVERY and number < len(plans):
            told = now
            per_minute = number / (now - began) * 60
            print(f"{number} of {len(plans)} seeds, broken {broken}, {per_minute:.0f} a minute", flush=True)
        yield outcome


def _tell(outcome: Outcome, keep: Path, *, at_length: bool, shorten: bool) -> None:
    """Say what broke, how to see it again, and what led to it."""
    failure, plan = outcome.failure, outcome.plan
    assert failure is not None
    print(f"\nseed {plan.seed} BROKE: {failure.what}\n  again: {_again(plan, keep)}", flush=True)
    if not at_length:
        return
    if shorten:
        outcome = shrink(outcome)
        print(f"  shorter: {_again(outcome.plan, keep)}")
    told = run(outcome.plan, with_story=True)
    assert told.failure is not None
    job = told.failure.job
    print(f"  it breaks with: {told.failure.what}\n  the story of {job or 'all jobs'}:")
    for moment, about, words in told.story:
        if not job or about in (job, ""):
            print(f"    day {(moment - START).days} {moment:%H:%M:%S}  {'' if job else about} {words}")
    print(flush=True)


def _again(plan: Plan, keep: Path) -> str:
    """The command that runs a plan again; it has a file, too."""
    keep.mkdir(parents=True, exist_ok=True)
    name = f"seed-{plan.seed}-jobs-{plan.jobs}-days-{plan.days:g}-faults-{len(plan.rates)}.json"
    write_plan(plan, keep / name)
    replay = f"scripts/simulate --replay {keep / name}"
    return f"{plan.command()}   (or {replay})" if has_usual_rates(plan) else replay


if __name__ == "__main__":
    sys.exit(main())
