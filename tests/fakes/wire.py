"""Where every call of a port passes: it is written down, and a test can step in before and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Crash(BaseException):
    """The invocation dies here. No `except Exception` of the code under test can see it."""


class Call(NamedTuple):
    """One call of a port: the how-manieth it is, of which port and method, and about what."""

    number: int
    port: str
    method: str
    subject: str

    @property
    def name(self) -> str:
        """Port and method in one word, like `store.commit`."""
        return f"{self.port}.{self.method}"


Hook = Callable[[Call], None]


def nothing(_call: Call) -> None:
    """The hook that does not step in."""


class Wire:
    """Hooks see each call before and after it took effect. They may raise (an error of the service, or Crash), move the
    clock, or run another invocation in between; calls that are made by a hook pass here like any other."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.before: Hook = nothing
        self.after: Hook = nothing

    def carry(self, port: str, method: str, subject: str, work: Callable[[], T]) -> T:
        """Do the work of one call."""
        call = Call(len(self.calls), port, method, subject)
        self.calls.append(call)
        self.before(call)
        result = work()
        self.after(call)
        return result

    def made(self, name: str, about: str = "") -> list[Call]:
        """The calls of one port (`store`) or method (`store.commit`) so far, about something if it is named."""
        return [call for call in self.calls if name in (call.name, call.port) and about in call.subject]


def once(matches: Callable[[Call], bool], do: Callable[[], None]) -> Hook:
    """A hook that steps in at the first call that matches, and at no other, not even one that `do` makes itself."""
    waiting = [do]

    def hook(call: Call) -> None:
        if waiting and matches(call):
            waiting.pop()()

    return hook


def failing(error: BaseException) -> Callable[[], None]:
    """Something for a hook to do: raise this."""

    def fail() -> None:
        raise error

    return fail
