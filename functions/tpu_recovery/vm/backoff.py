"""How long to wait before trying again."""

from __future__ import annotations

from typing import Iterator

ATTEMPTS = 6
"""Tries before something outside is taken to be broken; with the usual back-off that is five minutes."""


def delay(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after that many failures in a row (from 1): doubled each time, up to the longest."""
    return float(min(longest, first * 2 ** min(failures - 1, 30)))


def delays(first: float, longest: float) -> Iterator[float]:
    """The waits between `ATTEMPTS` tries."""
    return (delay(failures, first, longest) for failures in range(1, ATTEMPTS))
