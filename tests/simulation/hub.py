"""One clock, one source of chance, one agenda: everything that happens in a simulation happens here, in one order.

Invocations of the service are greenlets: each call of a port hands control back here, and whether, when and how it goes
on is decided by the simulation. The same seed gives the same run, to the byte.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from greenlet import getcurrent, greenlet

START = datetime(2026, 1, 5, tzinfo=UTC)


class Crash(BaseException):
    """The invocation dies here. No `except Exception` of the code under test can see it."""


class Invocation:
    """One request that is being served, with the clock of the instance that serves it."""

    def __init__(self, hub: Hub, number: int, label: str, skew: timedelta, work: Callable[[], None]) -> None:
        self.number = number
        self.label = label
        self.skew = skew
        self._hub = hub
        self._greenlet = greenlet(work)

    def go_on(self) -> None:
        """Run until the next call of a port, or to the end."""
        before, self._hub.running = self._hub.running, self
        self._greenlet.parent = getcurrent()
        try:
            self._greenlet.switch()
        finally:
            self._hub.running = before

    def wait(self, seconds: float) -> None:
        """Called from inside: stop here, and go on after this long."""
        self._hub.after(seconds, f"{self.label} goes on", self.go_on)
        parent = self._greenlet.parent
        assert parent is not None
        parent.switch()


class Hub:
    """The agenda. `digest` proves that two runs were the same."""

    def __init__(self, seed: int) -> None:
        self.now = START
        self.chance = random.Random(seed)
        self.running: Invocation | None = None
        self.steps = 0
        self._agenda: list[tuple[datetime, int, str, Callable[[], None]]] = []
        self._count = itertools.count()
        self._invocations = itertools.count(1)
        self._hash = hashlib.sha256()

    def clock(self) -> datetime:
        """The time that the running invocation sees."""
        return self.now + self.running.skew if self.running else self.now

    def at(self, when: datetime, what: str, do: Callable[[], None]) -> None:
        """Do something at a moment; at once if that has passed."""
        heapq.heappush(self._agenda, (max(when, self.now), next(self._count), what, do))

    def after(self, seconds: float, what: str, do: Callable[[], None]) -> None:
        """Do something after this many seconds."""
        self.at(self.now + timedelta(seconds=seconds), what, do)

    def start(self, label: str, skew: timedelta, work: Callable[[], None]) -> None:
        """Begin an invocation now."""
        Invocation(self, next(self._invocations), label, skew, work).go_on()

    def run(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.now + timedelta(seconds=seconds)
        while self._agenda and self._agenda[0][0] <= end:
            self.now, _, what, do = heapq.heappop(self._agenda)
            self.steps += 1
            self._hash.update(f"{self.now.timestamp():.6f} {what}\n".encode())
            do()
        self.now = end

    def note(self, what: bytes) -> None:
        """Something that has to be the same in every run of the seed: a document that was written."""
        self._hash.update(what)

    def digest(self) -> str:
        """What happened, when, and what was written, in one word."""
        return self._hash.hexdigest()[:16]

    # Chance

    def happens(self, probability: float) -> bool:
        """Whether something of the ordinary happens now. What goes wrong is drawn by Faults."""
        return self.chance.random() < probability

    def between(self, low: float, high: float) -> float:
        """A number between the two."""
        return self.chance.uniform(low, high)

    def waiting_time(self, mean: float) -> float:
        """Seconds until the next of events that come at random, `mean` seconds apart."""
        return self.chance.expovariate(1 / mean)
