"""What brings messages and requests to the service: late, twice, out of order, or never."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tests.fakes.entries import push
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Crash, Hub
from tests.simulation.invariants import Broken, Invariant

from tpu_recovery.recovery.ports import Ports
from tpu_recovery.service import handle

MOST_DELIVERIES = 50
"""After so many a message is among the dead letters."""

ACK_DEADLINE = 90.0
LONGEST_RETRY = 600.0

SURPRISES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)
"""What only a mistake in the code raises."""

Settle = Callable[[bool], None]


class Post:
    """Pub/Sub's topics, and everything that calls the function."""

    def __init__(self, hub: Hub, faults: Faults, can_be_lost: Callable[[str], bool]) -> None:
        self.ports: Ports | None = None
        self.kept: set[str] = set()
        """The text of every message that the inbox holds."""
        self._hub, self._faults, self._can_be_lost = hub, faults, can_be_lost

    def watch(self, path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        """A document was written."""
        if before is None and path.startswith("inbox/"):
            self.kept.add(after["raw"])

    def publish(self, path: str, document: Mapping[str, Any] | bytes) -> None:
        """A message for one of the topics."""
        between, copies = self._hub.between, 1
        if path != "/command" and self._is_lost(path, document):
            copies = 0
        if self._faults.strikes(Fault.DUPLICATED):
            copies += self._hub.chance.randrange(1, 4)
        for _ in range(copies):
            late = self._faults.strikes(Fault.DELAYED)
            self._deliver(path, push(document), between(0, 3600) if late else between(0.1, 6), 0)

    def _is_lost(self, path: str, document: Mapping[str, Any] | bytes) -> bool:
        """The log sink may drop an entry. A report is published until it is acknowledged; should that fail, guest
        attributes have it, unless they are switched off: then nobody could know."""
        if path == "/event":
            return self._faults.strikes(Fault.ENTRY_LOST)
        loses = isinstance(document, Mapping) and self._can_be_lost(document["job"])
        return loses and self._faults.strikes(Fault.REPORT_LOST)

    def _deliver(self, path: str, body: bytes, seconds: float, attempt: int) -> None:
        if attempt >= MOST_DELIVERIES:
            return
        answered = False

        def settle(success: bool) -> None:
            nonlocal answered
            if answered:
                return
            answered = True
            if not success:
                self._deliver(path, body, min(10 * 2**attempt, LONGEST_RETRY), attempt + 1)

        def begin() -> None:
            self._hub.after(ACK_DEADLINE, "ack deadline", lambda: settle(False))
            self.serve(path, body, settle)

        self._hub.after(seconds, f"push {path}", begin)

    def serve(self, path: str, body: bytes, settle: Settle) -> None:
        """One invocation of the function, or two at once."""
        for _ in range(2 if self._faults.strikes(Fault.SERVED_TWICE) else 1):
            skewed = self._faults.strikes(Fault.SKEW)
            skew = timedelta(seconds=self._hub.between(-120, 120) if skewed else 0)
            self._hub.start(path, skew, lambda: self._work(path, body, settle))

    def _work(self, path: str, body: bytes, settle: Settle) -> None:
        assert self.ports is not None
        try:
            success = handle(self.ports, path, body).status < 300
        except Crash:
            return  # nobody answers: the deadline will pass
        except SURPRISES as surprise:
            raise Broken(Invariant.NO_SURPRISE, "", f"{path}: {surprise!r}") from surprise
        if success and path in ("/event", "/report", "/command"):
            self._check_kept(path, body)
        settle(success)

    def _check_kept(self, path: str, body: bytes) -> None:
        data = base64.b64decode(json.loads(body)["message"]["data"])
        if (data or body).decode("utf-8", "replace") not in self.kept:
            raise Broken(Invariant.KEPT_BEFORE_ANSWERED, "", f"{path}: {data[:300]!r}")
