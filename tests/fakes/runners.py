"""What the runner on each VM does with its hand-off, in few words: start, report, train, obey the launch rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.capacity import FakeCapacity, Node
from tests.fakes.clock import Clock
from tests.fakes.entries import stamp

from tpu_recovery.model.validate import HANDOFF_KEY


@dataclass
class Runner:
    """The runner on one node: which launch it has seen, and how many reports it has made."""

    launch: int = 0
    refused: int = 0
    sequence: int = 0
    resumed_from: int = 0
    training: bool = False
    progress_at: datetime | None = None


@dataclass
class Runners:
    """All of them. `send` publishes a report; `trained` has every (generation, launch) that ever started."""

    capacity: FakeCapacity
    clock: Clock
    send: Callable[[dict[str, Any]], None]
    save: Callable[[str, int], None] = lambda _job, _step: None
    """Called with the job and the step of each checkpoint, before it is reported."""
    first_progress: float = 60
    """Seconds from a start to its first checkpoint."""
    mute: set[str] = field(default_factory=set)
    """Nodes whose runner does its work and is never heard: no access to Google APIs, say."""
    runners: dict[str, Runner] = field(default_factory=dict)
    trained: list[tuple[str, int]] = field(default_factory=list)
    most_at_once: int = 0
    """How many nodes of one job trained at the same time, at most."""

    def step(self) -> None:
        """Every runner on a READY node reads its hand-off and does what it says."""
        for node in list(self.capacity.nodes.values()):
            if node.state == "READY" and HANDOFF_KEY in node.metadata:
                self._obey(node, json.loads(node.metadata[HANDOFF_KEY]))
                self._train(node)
        jobs = [name.rsplit("-g", 1)[0] for name in self.training()]
        self.most_at_once = max([self.most_at_once, *(jobs.count(job) for job in jobs)])

    def training(self) -> list[str]:
        """Names of the nodes on which the program runs now; while a node is being deleted it still may."""
        living = {node.name for node in self.capacity.nodes.values() if node.state in ("READY", "DELETING")}
        return sorted(name for name, runner in self.runners.items() if runner.training and name in living)

    def next_moment(self) -> datetime | None:
        """When the next runner has something to report."""
        living = [self.runners[name] for name in self.training() if self.capacity.nodes[name].state == "READY"]
        return min((runner.progress_at for runner in living if runner.progress_at), default=None)

    def report(self, name: str, kind: str, **facts: Any) -> dict[str, Any]:
        """The runner on a node says something: in guest attributes first, then as a message."""
        node, runner = self.capacity.nodes[name], self.runners.setdefault(name, Runner())
        runner.sequence += 1
        handoff = json.loads(node.metadata[HANDOFF_KEY])
        report = {
            **{key: handoff[key] for key in ("job", "uid", "generation", "token")},
            "version": 1,
            "launch": handoff["launch"],
            "worker": 0,
            "boot": f"boot-{node.id}",
            "sequence": runner.sequence,
            "kind": kind,
            "at": stamp(self.clock()),
            "hostname": node.hostnames[0],
            **facts,
        }
        if name in self.mute:
            return report
        node.reports["alive" if kind == "alive" else "report"] = json.dumps(report)
        if kind not in ("alive", "booted"):
            self.send(report)
        return report

    def _obey(self, node: Node, handoff: dict[str, Any]) -> None:
        if node.name not in self.runners:
            self.report(node.name, "booted")
        runner, launch = self.runners[node.name], handoff["launch"]
        if launch <= max(runner.launch, runner.refused):
            return
        before = handoff["launch_before"]
        if before is not None and self.clock() > datetime.fromisoformat(before):
            runner.refused = launch
            self.report(node.name, "refused", reason="launch-expired")
            return
        resume = handoff["resume"]
        runner.launch, runner.training = launch, True
        runner.resumed_from = resume["step"] if resume else 0
        runner.progress_at = self.clock() + timedelta(seconds=self.first_progress)
        self.trained.append((node.name, launch))
        self.report(node.name, "started", resumed_from=resume["step"] if resume else None)

    def _train(self, node: Node) -> None:
        runner = self.runners[node.name]
        if runner.progress_at is None or self.clock() < runner.progress_at:
            return
        runner.progress_at, saved = None, runner.resumed_from + 10
        self.save(json.loads(node.metadata[HANDOFF_KEY])["job"], saved)
        self.report(node.name, "progress", step=saved + 5, checkpoint_step=saved)
