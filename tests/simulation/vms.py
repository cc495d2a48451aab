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
    from tests.simulation.platform import Node

SAVE_EVERY = (900.0, 2400.0)


@dataclass
class Bucket:
    """The checkpoints of one job: each step with whether it is complete."""

    steps: dict[int, bool] = field(default_factory=dict)
    ever_complete: set[int] = field(default_factory=set)
    """Every step that could be resumed from at some time."""

    def finish(self, step: int) -> None:
        """This step is complete now."""
        self.steps[step] = True
        self.ever_complete.add(step)

    def complete(self) -> list[int]:
        """The steps that can be resumed from."""
        return [step for step, complete in self.steps.items() if complete]

    def newest_complete(self) -> int | None:
        """The newest of them."""
        return max(self.complete(), default=None)


@dataclass
class Disk:
    """What the runner remembers over boots."""

    boots: int = 0
    seen: int = 0
    """The highest launch seen in a hand-off: lower ones are ignored."""
    started: int = 0
    """The highest launch whose program was started here: it may be started again after its permission has run out."""
    over: tuple[int, str] = (0, "")
    """The launch that has ended for good, and with which report."""
    sequence: int = 0


@dataclass
class Vm:
    """The runner of one node, for one boot."""

    node: Node
    skew: timedelta
    obeyed: int = 0
    """The launch that it has dealt with in this boot, in whatever way."""
    expired: str = ""
    """The permission that ran out: only a later one lifts it."""
    leaving: bool = False
    """SIGTERM has come."""
    start: int = 0
    """Counts starts of the program, so that what was planned for an earlier one does not happen."""
    step: int = 0
    resumed_from: int | None = None


class Vms:
    """All VMs."""

    def __init__(
        self, hub: Hub, faults: Faults, invariants: Invariants, publish: Callable[[dict[str, Any]], None]
    ) -> None:
        self.training: dict[str, str] = {}
        """The nodes on which a program runs now, each with its job."""
        self.since: dict[str, datetime] = {}
        """When the program of a node was started last."""
        self.buckets: dict[str, Bucket] = {}
        self.finite: dict[str, int] = {}
        """Jobs whose program ends well at some step."""
        self.finished: set[str] = set()
        """Jobs whose program has ended well."""
        self._booting: dict[str, Vm] = {}
        self._vms: dict[str, Vm] = {}
        self._hub, self._faults, self._invariants, self._publish = hub, faults, invariants, publish

    def bucket(self, job: str) -> Bucket:
        """Where a job saves."""
        return self.buckets.setdefault(job, Bucket())

    def lose_checkpoint(self, job: str) -> None:
        """Somebody removes the newest complete step."""
        newest = self.bucket(job).newest_complete()
        if newest is not None and self._faults.happens(Fault.CHECKPOINT_LOST):
            del self.bucket(job).steps[newest]

    # What the platform does

    def boot(self, node: Node) -> None:
        """The node is READY; its VM boots, and usually the startup script runs."""
        strikes, between = self._faults.strikes, self._hub.between
        vm = Vm(node, timedelta(seconds=between(-180, 180) if strikes(Fault.VM_SKEW) else 0))
        silent, late = strikes(Fault.VM_SILENT), strikes(Fault.VM_LATE)
        seconds = between(240, 900) if late else between(20, 90)
        self._booting[node.name] = vm
        if not silent:
            self._hub.after(seconds, f"{node.name} boots", lambda: self._booted(vm))

    def _booted(self, vm: Vm) -> None:
        if self._booting.get(vm.node.name) is vm:
            del self._booting[vm.node.name]
            self._vms[vm.node.name] = vm
            vm.node.disk.boots += 1
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
        vm.leaving = True
        if node.name in self.training:
            self._stop(vm)
            if self._faults.strikes(Fault.SAVE_INTERRUPTED):
                self.bucket(node.job).steps.setdefault(vm.step + 50, False)
            if self._hub.happens(0.7):
                self._report(vm, "stopping")

    def die(self, node: Node) -> None:
        """The VM is gone."""
        self._booting.pop(node.name, None)
        vm = self._vms.pop(node.name, None)
        if vm is not None and node.name in self.training:
            self._stop(vm)
        node.reports = {}

    # What the runner does

    def _obey(self, vm: Vm) -> None:
        text = vm.node.metadata.get(HANDOFF_KEY)
        if text is None or vm.leaving or vm.node.state not in ("READY", "DELETING"):
            return None
        handoff, disk = json.loads(text), vm.node.disk
        launch, before = handoff["launch"], handoff["launch_before"] or ""
        is_news = launch != vm.obeyed or (vm.expired != "" and before > vm.expired)
        if launch == 0 or launch < disk.seen or not is_news:
            return None
        vm.obeyed, vm.expired = launch, ""
        disk.seen = launch
        if vm.node.name in self.training:
            self._stop(vm)
        if disk.over[0] == launch:
            return self._report(vm, disk.over[1])
        if before and disk.started < launch and self._hub.now + vm.skew > datetime.fromisoformat(before):
            vm.expired = before
            return self._report(vm, "refused", reason="launch-expired")
        if self._faults.strikes(Fault.SETUP_FAILS):
            return self._report(vm, "setup_failed", reason="setup")
        return self._start(vm, handoff)

    def _start(self, vm: Vm, handoff: dict[str, Any]) -> None:
        job, name = vm.node.job, vm.node.name
        bucket = self.bucket(job)
        step, seen = bucket.newest_complete(), handoff["checkpoints"]["seen_step"]
        if step is None and bucket.steps:
            return self._report(vm, "refused", reason="checkpoints-incomplete")
        if seen is not None and (step or 0) < seen:
            return self._report(vm, "refused", reason="checkpoints-older")
        self._invariants.starts(job, name, step, sorted(self.of(job)))
        self.training[name], self.since[name] = job, self._hub.now
        vm.node.disk.started = max(vm.node.disk.started, vm.obeyed)
        vm.start += 1
        vm.step, vm.resumed_from = step or 0, step
        self._report(vm, "started", resumed_from=step)
        self._plan(vm)
        return None

    def of(self, job: str) -> list[str]:
        """The nodes on which a job's program runs now."""
        return [name for name, owner in self.training.items() if owner == job]

    def _plan(self, vm: Vm) -> None:
        """What the program will do, if nobody stops it."""
        start, between = vm.start, self._hub.between
        self._in(vm, start, between(20, 120), "makes progress", lambda: self._progress(vm))
        self._in(vm, start, between(*SAVE_EVERY), "saves", lambda: self._save(vm))
        for_good, seconds = self._hub.happens(0.2), between(30, 7200)
        if self._faults.strikes(Fault.PROGRAM_CRASHES):
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
        step, job = vm.step, vm.node.job
        self.bucket(job).steps.setdefault(step, False)
        if self.finite.get(job, step + 1) <= step:
            self.bucket(job).finish(step)
            self.finished.add(job)
            vm.node.disk.over = (vm.obeyed, "finished")
            self._stop(vm)
            return self._report(vm, "finished", exit_code=0)
        self._in(vm, vm.start, 30, f"has saved {step}", lambda: self._saved(vm, step))
        return self._in(vm, vm.start, self._hub.between(*SAVE_EVERY), "saves", lambda: self._save(vm))

    def _saved(self, vm: Vm, step: int) -> None:
        self.bucket(vm.node.job).finish(step)
        self._report(vm, "alive", hint=False)

    def _crash(self, vm: Vm, for_good: bool) -> None:
        self._stop(vm)
        if for_good:
            vm.node.disk.over = (vm.obeyed, "gave_up")
            return self._report(vm, "gave_up", reason="crash-loop", exit_code=1)
        self._report(vm, "crashed", exit_code=1)
        handoff, start = json.loads(vm.node.metadata[HANDOFF_KEY]), vm.start

        def again() -> None:
            alive = self._vms.get(vm.node.name) is vm and vm.node.state == "READY" and not vm.leaving
            if alive and vm.start == start and vm.obeyed == handoff["launch"]:
                self._start(vm, handoff)

        self._hub.after(15, f"{vm.node.name} tries again", again)
        return None

    def _stop(self, vm: Vm) -> None:
        del self.training[vm.node.name]
        vm.start += 1

    def _report(self, vm: Vm, kind: str, *, hint: bool = True, **facts: Any) -> None:
        """Guest attributes first, then the message."""
        text = vm.node.metadata.get(HANDOFF_KEY)
        if text is None:
            return
        vm.node.disk.sequence += 1
        report = {
            **self.outline(vm.node, json.loads(text)),
            "launch": vm.obeyed or json.loads(text)["launch"],
            "sequence": vm.node.disk.sequence,
            "kind": kind,
            "at": stamp(self._hub.now + vm.skew),
            "step": vm.step or None,
            "resumed_from": vm.resumed_from,
            **facts,
        }
        if kind != "alive":
            self._invariants.tell(vm.node.job, f"VM {vm.node.name.rsplit('/', 1)[1]}: {kind} {_words(facts)}".strip())
        vm.node.reports["alive" if kind == "alive" else "report"] = json.dumps(report)
        if hint:
            self._publish(report)

    def outline(self, node: Node, handoff: dict[str, Any]) -> dict[str, Any]:
        """What every report of a node holds."""
        return {
            **{key: handoff[key] for key in ("job", "uid", "generation", "token")},
            "version": 1,
            "worker": 0,
            "boot": f"boot-{node.number}-{node.disk.boots}",
            "hostname": node.hostname,
            "checkpoint_step": self.bucket(node.job).newest_complete(),
        }


def _words(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())
