"""Things to do at a time to come."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Agenda:
    """Actions in order of the time they are due (seconds since 1970). The caller locks."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def add(self, due: float, action: Callable[[], None]) -> None:
        """Do this when the time has come; of two at the same time the one added first."""
        heapq.heappush(self._entries, (due, next(self._order), action))

    @property
    def next_due(self) -> float | None:
        """When the next action is due; None when there is none."""
        return self._entries[0][0] if self._entries else None

    def run_due(self, now: float) -> None:
        """Do what is due, also what becomes due by it."""
        while self._entries and self._entries[0][0] <= now:
            _, _, action = heapq.heappop(self._entries)
            action()
