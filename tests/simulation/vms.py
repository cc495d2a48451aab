"""What runs on the VMs: runners that obey the hand-off, and programs that train, save, crash and finish."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.fakes.entries import stamp
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Hub
from tests.simulation.invariants import Invariants

from tpu_recovery.model.validate import HANDOFF_KEY

if TYPE_CHECKING:
    from tests.simulation.cloud import Node

SAVE_EVERY = (900.0, 2400.0)


@dataclass
class Bucket:
    """The checkpoints of one job: each step with whether it is complete."""

    steps: dict[int, bool] = field(default_factory=dict)

    def newest_complete(self) -> int | None:
        """The newest step that can be resumed from."""
        return max((step for step, complete in self.steps.items() if complete), default=None)


@dataclass
class Vm:
    """The runner of one node."""

    node: Node
    skew: timedelta
    highest: int = 0
    """The highest launch that it has obeyed, in whatever way."""
    expired: str = ""
    """The permission that ran out: only a later one lifts it."""
    sequence: int = 0
    start: int = 0
    """Counts starts of the program, so that what was planned for an earlier one does not happen."""
    step: int = 0
    resumed_from: int | None = None


class Vms:
    """All VMs. `training` holds the names of the nodes on which a program runs now."""

    def __init__(
        self, hub: Hub, faults: Faults, invariants: Invariants, publish: Callable[[dict[str, Any]], None]
    ) -> None:
        self.training: dict[str, str] = {}
        self.buckets: dict[str, Bucket] = {}
        self.finite: dict[str, int] = {}
        """Jobs whose program ends well at some step."""
        self._vms: dict[str, Vm] = {}
        self._hub, self._faults, self._invariants, self._publish = hub, faults, invariants, publish

    # What the platform does

    def boot(self, node: Node) -> None:
        """The node is READY; its VM boots, and usually the startup script runs."""
        skewed = self._hub.happens(self._faults.rate(Fault.SKEW))
        vm = Vm(node, timedelta(seconds=self._hub.between(-180, 180) if skewed else 0))
        silent, late = (self._hub.happens(self._faults.rate(fault)) for fault in (Fault.VM_SILENT, Fault.VM_LATE))
        seconds = self._hub.between(300, 2400) if late else self._hub.between(20, 90)
        if not silent:
            self._hub.after(seconds, f"{node.name} boots", lambda: self._booted(vm))

    def _booted(self, vm: Vm) -> None:
        if vm.node.state == "READY":
            self._vms[vm.node.name] = vm
            self._report(vm, "booted", hint=False)
            self._obey(vm)

    def metadata_changed(self, node: Node) -> None:
        """The runner sees it at its next poll."""
        self._hub.after(5, f"{node.name} reads its hand-off", lambda: self._poll(node))

    def _poll(self, node: Node) -> None:
        vm = self._vms.get(node.name)
        if vm is not None and vm.node is node:
            self._obey(vm)

    def notice(self, node: Node) -> None:
        """SIGTERM, half a minute before the VM is gone."""
        vm = self._vms.get(node.name)
        if vm is None or vm.node is not node:
            return
        if node.name in self.training:
            self._stop(vm)
            if self._hub.happens(0.7):
                self._report(vm, "stopping")
        vm.highest = 10**6

    def die(self, node: Node) -> None:
        """The VM is gone."""
        vm = self._vms.pop(node.name, None)
        if vm is not None and node.name in self.training:
            self._stop(vm)
        node.reports = {}

    # What the runner does

    def _obey(self, vm: Vm) -> None:
        text = vm.node.metadata.get(HANDOFF_KEY)
        if text is None or vm.node.state not in ("READY", "DELETING"):
            return None
        handoff = json.loads(text)
        launch, before = handoff["launch"], handoff["launch_before"] or ""
        if launch < vm.highest or launch == 0 or (launch == vm.highest and (not vm.expired or before <= vm.expired)):
            return None
        vm.highest, vm.expired = launch, ""
        if vm.node.name in self.training:
            self._stop(vm)
        if before and self._hub.now + vm.skew > datetime.fromisoformat(before):
            vm.expired = before
            return self._report(vm, "refused", reason="launch-expired")
        if self._hub.happens(self._faults.rate(Fault.SETUP_FAILS)):
            return self._report(vm, "setup_failed", reason="setup")
        return self._start(vm, handoff)

    def _start(self, vm: Vm, handoff: dict[str, Any]) -> None:
        job = vm.node.job
        bucket = self.buckets.setdefault(job, Bucket())
        step, seen = bucket.newest_complete(), handoff["checkpoints"]["seen_step"]
        if step is None and bucket.steps:
            return self._report(vm, "refused", reason="checkpoints-incomplete")
        if seen is not None and (step or 0) < seen:
            return self._report(vm, "refused", reason="checkpoints-older")
        self._invariants.starts(job, vm.node.name, step, sorted(self._trainers(job)))
        self.training[vm.node.name] = job
        vm.start += 1
        vm.step, vm.resumed_from = step or 0, step
        self._report(vm, "started", resumed_from=step)
        self._plan(vm)
        return None

    def _trainers(self, job: str) -> list[str]:
        return [name for name, owner in self.training.items() if owner == job]

    def _plan(self, vm: Vm) -> None:
        """What the program will do, if nobody stops it."""
        start = vm.start
        crashes = self._hub.happens(self._faults.rate(Fault.PROGRAM_CRASHES))
        for_good = self._hub.happens(0.2)
        self._in(vm, start, self._hub.between(20, 120), "makes progress", lambda: self._progress(vm))
        self._in(vm, start, self._hub.between(*SAVE_EVERY), "saves", lambda: self._save(vm))
        if crashes:
            seconds = self._hub.between(30, 7200)
            self._in(vm, start, seconds, "crashes", lambda: self._crash(vm, for_good))

    def _in(self, vm: Vm, start: int, seconds: float, what: str, do: Callable[[], None]) -> None:
        def unless_stopped() -> None:
            if vm.start == start and self._vms.get(vm.node.name) is vm and vm.node.name in self.training:
                do()

        self._hub.after(seconds, f"{vm.node.name} {what}", unless_stopped)

    def _progress(self, vm: Vm) -> None:
        vm.step += 3
        self._report(vm, "progress")

    def _save(self, vm: Vm) -> None:
        """A checkpoint is written for half a minute; only then is it complete."""
        vm.step += 100
        step, bucket = vm.step, self.buckets[vm.node.job]
        bucket.steps.setdefault(step, False)
        if self.finite.get(vm.node.job, step + 1) <= step:
            bucket.steps[step] = True
            self._stop(vm)
            return self._report(vm, "finished", exit_code=0)
        self._in(vm, vm.start, 30, f"has saved {step}", lambda: self._saved(vm, step))
        return self._in(vm, vm.start, self._hub.between(*SAVE_EVERY), "saves", lambda: self._save(vm))

    def _saved(self, vm: Vm, step: int) -> None:
        self.buckets[vm.node.job].steps[step] = True
        self._report(vm, "alive", hint=False)

    def _crash(self, vm: Vm, for_good: bool) -> None:
        self._stop(vm)
        if for_good:
            return self._report(vm, "gave_up", reason="crash-loop", exit_code=1)
        self._report(vm, "crashed", exit_code=1)
        handoff, start = json.loads(vm.node.metadata[HANDOFF_KEY]), vm.start

        def again() -> None:
            alive = self._vms.get(vm.node.name) is vm and vm.node.state == "READY"
            if alive and vm.start == start and vm.highest == handoff["launch"]:
                self._start(vm, handoff)

        self._hub.after(15, f"{vm.node.name} tries again", again)
        return None

    def _stop(self, vm: Vm) -> None:
        del self.training[vm.node.name]
        vm.start += 1

    def _report(self, vm: Vm, kind: str, *, hint: bool = True, **facts: Any) -> None:
        """Guest attributes first, then the message."""
        vm.sequence += 1
        text = vm.node.metadata.get(HANDOFF_KEY)
        if text is None:
            return
        handoff = json.loads(text)
        bucket = self.buckets.setdefault(vm.node.job, Bucket())
        report = {
            **{key: handoff[key] for key in ("job", "uid", "generation", "token")},
            "version": 1,
            "launch": min(vm.highest, handoff["launch"]) or handoff["launch"],
            "worker": 0,
            "boot": f"boot-{vm.node.number}",
            "sequence": vm.sequence,
            "kind": kind,
            "at": stamp(self._hub.now + vm.skew),
            "hostname": vm.node.hostname,
            "step": vm.step or None,
            "checkpoint_step": bucket.newest_complete(),
            "resumed_from": vm.resumed_from,
            **facts,
        }
        vm.node.reports["alive" if kind == "alive" else "report"] = json.dumps(report)
        if hint:
            self._publish(report)
