"""Lengths of time as people write them: 30s, 15m, 1h30m, 2d."""

from __future__ import annotations

import re
from datetime import timedelta

from tpu_recovery.errors import Invalid

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PATTERN = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")

LONGEST = timedelta(days=3_650)
"""A moment this far from now is still one that Python can name."""


class Duration(timedelta):
    """A length of time in whole seconds, written like ``1h30m``."""

    @classmethod
    def parse(cls, text: object) -> Duration:
        """Read ``1h30m`` (units d, h, m, s, each at most once and in that order).

        Raises Invalid when the text is anything else.
        """
        match = _PATTERN.fullmatch(text) if isinstance(text, str) and text else None
        if match is None:
            raise Invalid("duration", text, "write whole units like 45s, 15m, 1h30m or 2d")
        amounts = zip(match.groups(), _UNITS.values(), strict=True)
        seconds = sum(int(amount) * unit for amount, unit in amounts if amount)
        if seconds > LONGEST.total_seconds():
            raise Invalid("duration", text, f"at most {LONGEST.days}d")
        return cls(seconds=seconds)

    def __str__(self) -> str:
        rest, parts = int(self.total_seconds()), []
        for unit, size in _UNITS.items():
            amount, rest = divmod(rest, size)
            if amount:
                parts.append(f"{amount}{unit}")
        return "".join(parts) or "0s"
