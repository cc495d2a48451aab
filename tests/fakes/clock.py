"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Clock:
    """Calling it gives the time, in UTC."""

    def __init__(self, now: datetime = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def move_to(self, moment: datetime) -> None:
        """Let time pass until then; it never goes back."""
        self.now = max(self.now, moment)
