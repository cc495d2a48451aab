"""Every exception that is ours. Each carries one message for the person who has to act on it."""

from __future__ import annotations


class TpuRecoveryError(Exception):
    """Base of all our exceptions."""


class Invalid(TpuRecoveryError):
    """Something that came from outside is not what it has to be: which field, its value, what would be right."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 200 else shown[:200] + "…"
        problem = f"{field}: missing" if value is None else f"{field}: {shown} is not valid"
        super().__init__(f"{problem}; {expected}")
        self.field = field
        self.value = value
        self.expected = expected


class Unreadable(TpuRecoveryError):
    """An outside service gave no answer that can be relied on. Never a reason to destroy anything."""


class Unstorable(TpuRecoveryError):
    """The store refuses a write for what is in it: too large, as a rule. The same write never succeeds."""


class Conflict(TpuRecoveryError):
    """A commit found a document that has changed since it was read. Nothing of the commit was written."""


class AlreadyExists(TpuRecoveryError):
    """A commit or call found that the thing it was to create is there. Nothing of the commit was written."""


class Refused(TpuRecoveryError):
    """The TPU API answered a call with an error that is an answer (quota, permission, bad request, …)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class NotFound(TpuRecoveryError):
    """The TPU API says that the resource does not exist."""
