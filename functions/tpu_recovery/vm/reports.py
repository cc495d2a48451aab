"""What the runner says to the service, and in which order."""

from __future__ import annotations

from datetime import datetime
from typing import Callable, Optional

from tpu_recovery.vm.handoff import Handoff
from tpu_recovery.vm.log import log
from tpu_recovery.vm.machine import Machine
from tpu_recovery.vm.outbox import Outbox
from tpu_recovery.vm.state import State, StateFile

DETAIL_LIMIT = 4000
"""Characters of a report's detail; the end is kept, because the error is there."""

_GUEST_ATTRIBUTE_ONLY = ("booted", "alive")


class Reporter:
    """Numbers the reports of this VM and gives them to the outbox. The number is kept before the report is sent."""

    def __init__(
        self, machine: Machine, state: State, file: StateFile, outbox: Outbox, now: Callable[[], datetime]
    ) -> None:
        self._machine = machine
        self._state = state
        self._file = file
        self._outbox = outbox
        self._now = now

    def say(
        self,
        handoff: Handoff,
        kind: str,
        *,
        step: Optional[int] = None,
        checkpoint_step: Optional[int] = None,
        resumed_from: Optional[int] = None,
        exit_code: Optional[int] = None,
        reason: Optional[str] = None,
        detail: Optional[str] = None,
        hint: bool = True,
    ) -> None:
        """Report about the launch of ``handoff``; without a hint, the guest attribute alone says it."""
        self._state.sequence += 1
        self._file.save(self._state)
        report = {
            "version": 1,
            "job": handoff.job,
            "uid": handoff.uid,
            "generation": handoff.key.generation,
            "launch": handoff.key.launch,
            "worker": self._machine.worker,
            "boot": self._machine.boot,
            "sequence": self._state.sequence,
            "kind": kind,
            "at": self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "token": handoff.token,
            "hostname": self._machine.hostname,
            "step": step,
            "checkpoint_step": checkpoint_step,
            "resumed_from": resumed_from,
            "exit_code": exit_code,
            "reason": reason,
            "detail": detail[-DETAIL_LIMIT:] if detail else None,
        }
        if kind != "alive":
            facts = (("step", step), ("exit code", exit_code), ("reason", reason))
            log(", ".join([f"{kind}: {handoff.key}", *(f"{name} {fact}" for name, fact in facts if fact is not None)]))
        self._outbox.send(report, handoff.topic if hint and kind not in _GUEST_ATTRIBUTE_ONLY else None)
