"""What makes a run: its seed, how many jobs for how long, and which faults. As a command, and as a small file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from tests.simulation.faults import RATES, Fault

VERSION = 1
"""To be raised whenever the simulator changes so that a seed means another run than before."""

DEFAULT_JOBS = 5
DEFAULT_DAYS = 2.0


class NotReadable(Exception):
    """A file that holds no plan of this version, and why, in one line."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run. `rates` holds the faults that are on, each with how often it happens."""

    version: int = VERSION
    seed: int
    jobs: int = DEFAULT_JOBS
    days: float = DEFAULT_DAYS
    rates: dict[Fault, float]

    def command(self) -> str:
        """What to type to see this run again."""
        words = ["scripts/simulate", "--seeds 1", f"--from {self.seed}", f"--jobs {self.jobs}", f"--days {self.days:g}"]
        off = [fault for fault in Fault if fault not in self.rates]
        if len(off) > len(RATES) / 2:
            words += ["--only", *self.rates]
        elif off:
            words += ["--without", *off]
        return " ".join(words)


def rates_of(only: Iterable[Fault] | None, switched_off: Iterable[Fault]) -> dict[Fault, float]:
    """The usual rates of the faults that are to be on."""
    on = set(Fault if only is None else only) - set(switched_off)
    return {fault: rate for fault, rate in RATES.items() if fault in on}


def has_usual_rates(plan: Plan) -> bool:
    """Whether a command can say all that the plan says."""
    return all(RATES[fault] == rate for fault, rate in plan.rates.items())


def write_plan(plan: Plan, path: Path) -> None:
    """Keep a plan for `scripts/simulate --replay`."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises NotReadable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotReadable(f"{path} cannot be read: {error.strerror}") from error
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise NotReadable(
                f"{path} is of version {version} of the simulator, this is {VERSION}: the same seed would be "
                f"another run. Replay it with the sources that wrote it."
            )
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.ValidationError as error:
        raise NotReadable(f"{path} is no plan of a run: {error}. It holds version, seed, jobs, days, rates.") from error
    except msgspec.DecodeError as error:
        raise NotReadable(f"{path} is cut short or no JSON: {error}") from error
    _check(path, plan.rates)
    if plan.jobs < 1 or not 0 < plan.days <= 366:
        raise NotReadable(f"{path}: jobs must be at least 1 and days above 0 and at most 366")
    return plan


class _Version(msgspec.Struct):
    version: int


def _check(path: Path, rates: Mapping[Fault, float]) -> None:
    for fault, rate in rates.items():
        if rate <= 0 or (rate > 1) != (RATES[fault] > 1):
            right = "a mean time above 1 s" if RATES[fault] > 1 else "a probability up to 1"
            raise NotReadable(f"{path}: the rate of {fault} is {rate:g}; it must be {right}")
