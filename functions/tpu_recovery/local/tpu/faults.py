"""What goes wrong on demand: a number of times, then no more."""

from __future__ import annotations

from enum import StrEnum

from . import refusals


class Fault(StrEnum):
    """A way to fail; the subject is a zone or the short name of a method."""

    STOCKOUT = "stockout"
    INTERNAL = "internal"
    QUOTA = "quota"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"


class Faults:
    """How often each fault is still to happen to its subject."""

    def __init__(self) -> None:
        self._left: dict[tuple[Fault, str], int] = {}

    def set(self, fault: Fault, subject: str, times: int) -> None:
        """Let the next ``times`` occasions fail; 0 takes the fault away."""
        self._left[fault, subject] = times

    def take(self, fault: Fault, subject: str) -> bool:
        """Whether the fault happens on this occasion; counts it."""
        left = self._left.get((fault, subject), 0)
        if left <= 0:
            return False
        self._left[fault, subject] = left - 1
        return True

    def check_call(self, method: str, permission: str, resource: str) -> None:
        """Refuse a call of which the caller lacks the permission, or that finds the service away."""
        if self.take(Fault.UNAVAILABLE, method):
            raise refusals.unavailable()
        if self.take(Fault.DENIED, method):
            raise refusals.permission_denied(permission, resource)

    def check_capacity(self, zone: str) -> None:
        """Refuse a creation that finds no capacity."""
        if self.take(Fault.STOCKOUT, zone):
            raise refusals.no_capacity(zone)
        if self.take(Fault.INTERNAL, zone):
            raise refusals.internal_error()
