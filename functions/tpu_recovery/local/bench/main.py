"""Measure the service on this machine, without a cloud: cold start, warm latency, calls per recovery.

Every time is compared with another one of the same run; the bars are those of the design.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tpu_recovery.local.bench.calls import count_calls
from tpu_recovery.local.bench.imports import measure_imports
from tpu_recovery.local.bench.latency import measure_latency, percentile
from tpu_recovery.local.bench.measured import COMMIT, FIND, GET, TASK

PARTS = ("imports", "latency", "calls")


class Line(NamedTuple):
    """One line of the table."""

    what: str
    value: str
    bar: str = ""
    met: bool | None = None


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table; 0 whatever comes out."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this (may be repeated)")
    parser.add_argument("--imports", type=int, default=11, metavar="N", help="processes for each import (default 11)")
    parser.add_argument("--losses", type=int, default=200, metavar="N", help="nodes to lose (default 200)")
    parser.add_argument("--bare", type=int, default=100, metavar="N", help="rounds of bare calls (default 100)")
    options = parser.parse_args(arguments)
    chosen = options.only or PARTS
    lines: list[Line] = []
    if "imports" in chosen:
        lines += _imports(options.imports)
    if "latency" in chosen:
        lines += _latency(options.losses, options.bare)
    if "calls" in chosen:
        lines += _calls()
    _print(lines)
    return 0


def _imports(rounds: int) -> list[Line]:
    imports = measure_imports(rounds)
    return [
        Line("import functions_framework + google.cloud.firestore", _milliseconds(imports.base)),
        Line("import main", _milliseconds(imports.function)),
        _ratio("cold start: main against those two", imports.function / imports.base, 1.35),
    ]


def _latency(losses: int, rounds: int) -> list[Line]:
    latency = measure_latency(losses, rounds)
    median, late = percentile(latency.losses, 50), percentile(latency.losses, 95)
    bare = [Line(f"  {count} x {call}", _milliseconds(latency.bare[call])) for call, count in latency.calls.items()]
    return [
        Line(
            f"event received → DeleteNode arrives, warm, {losses} losses: p50",
            _milliseconds(median),
            "< 150",
            median < 0.15,
        ),
        Line("  p95", _milliseconds(late)),
        Line("the calls before it, each made bare: sum of medians", _milliseconds(latency.bare_sum)),
        *bare,
        _ratio("warm latency: p50 against that sum", median / latency.bare_sum, 1.5),
    ]


def _calls() -> list[Line]:
    calls = count_calls()
    return [
        _count("one Spot loss: calls of the TPU API", sum(calls.tpu.values()), 10),
        *(Line(f"  {call}", str(count)) for call, count in calls.tpu.items()),
        _count("one Spot loss: Firestore commits", calls.counts[COMMIT], 24),
        Line("  gets", str(calls.counts[GET])),
        Line("  queries", str(calls.counts[FIND])),
        _count("one Spot loss: tasks", calls.counts[TASK], 5),
    ]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _ratio(what: str, ratio: float, bar: float) -> Line:
    return Line(what, f"{ratio:.2f}", f"≤ {bar}", ratio <= bar)


def _count(what: str, count: int, bar: int) -> Line:
    return Line(what, str(count), f"≤ {bar}", count <= bar)


def _print(lines: list[Line]) -> None:
    table = Table("what", "measured", "bar", "", box=None)
    for line in lines:
        table.add_row(line.what, line.value, line.bar, {None: "", True: "met", False: "NOT MET"}[line.met])
    Console(highlight=False).print(table)
