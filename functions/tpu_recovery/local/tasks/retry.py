"""When a task is tried again, and when a queue may send: arithmetic on times, nothing else."""

from __future__ import annotations

from tpu_recovery.local.served import Message, seconds

LONGEST_LIFE = 31 * 86_400
"""Seconds after its creation at which a task is given up whatever its queue says."""

ALMOST = 1e-3
"""A token counts as there when this little is missing: times are floats."""


def backoff(config: Message, failures: int) -> float:
    """Seconds until the next attempt after so many failures, by a queue's RetryConfig.

    The interval doubles ``max_doublings`` times, then grows by the last step, up to ``max_backoff``: with 10 s, 300 s
    and 3 doublings it is 10, 20, 40, 80, 160, 240, 300, 300 (the example in the API's own documentation).
    """
    doublings = min(failures - 1, config.max_doublings)
    steps = max(1, failures - config.max_doublings)
    interval: float = seconds(config.min_backoff) * 2.0 ** min(doublings, 60) * steps
    return min(interval, seconds(config.max_backoff))


def given_up(config: Message, *, attempts: int, created: float, first_attempt: float, now: float) -> bool:
    """Whether a task that failed again is dropped: when every limit that its queue sets is reached."""
    if now >= created + LONGEST_LIFE:
        return True
    limits = []
    if config.max_attempts > 0:
        limits.append(attempts >= config.max_attempts)
    duration = seconds(config.max_retry_duration)
    if duration > 0:
        limits.append(now >= first_attempt + duration)
    return bool(limits) and all(limits)


class TokenBucket:
    """Lets through ``rate`` dispatches per second, and ``size`` at once after a pause."""

    def __init__(self, rate: float, size: int, now: float) -> None:
        self._rate = rate
        self._size = size
        self._tokens = float(size)
        self._filled = now

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there will be one."""
        earned = max(0.0, now - self._filled) * self._rate
        self._tokens = min(float(self._size), self._tokens + earned)
        self._filled = max(now, self._filled)
        if self._tokens < 1 - ALMOST:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0.0
