"""One installation of the service with its jobs, its people and its bad luck."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from tests.fakes.entries import SERVICE_ACCOUNT
from tests.simulation.cloud import Cloud
from tests.simulation.documents import Documents
from tests.simulation.faults import HOUR, RATES, Fault, Faults
from tests.simulation.hub import Hub
from tests.simulation.invariants import Broken, Invariant, Invariants
from tests.simulation.people import People
from tests.simulation.platform import Platform
from tests.simulation.post import Post
from tests.simulation.punctuality import Punctuality
from tests.simulation.store import SimulatedStore
from tests.simulation.tasks import Tasks
from tests.simulation.vms import Vms
from tests.simulation.wires import WiredCapacity, WiredCheckpoints, WiredNotifier, WiredStore, WiredTimers, Wires

from tpu_recovery.model.codec import to_document
from tpu_recovery.model.duration import Duration
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID
from tpu_recovery.model.spec import Checkpoints, Deadlines, JobSpec, Placement, Wishes
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.settings import Settings

ZONES = ("us-east5-a", "us-east5-b", "us-west4-a")
SWEEP_EVERY = 300.0
CHECKED_EVERY = 600.0
"""Seconds between two checks of what has to happen in time."""

FINITE = 0.2
"""Share of the jobs whose program ends well one day."""


class Universe:
    """Built from a seed; `live` lets time pass, `calm` ends all faults and says whether all comes right."""

    def __init__(self, seed: int, jobs: int, rates: Mapping[Fault, float] = RATES) -> None:
        self.hub, self.faults = Hub(seed), Faults(seed, rates)
        self.story: list[tuple[datetime, str, str]] = []
        """What happened, when, to which job: for people to read."""
        self.names = [f"job-{number:03d}" for number in range(jobs)]
        self.store = SimulatedStore()
        self.invariants = Invariants(self._state, self.tell)
        self.post = Post(self.hub, self.faults, lambda job: job not in self.cloud.attributes_off)
        self.vms = Vms(self.hub, self.faults, self.invariants, lambda report: self.post.publish("/report", report))
        self.platform = Platform(self.hub, self.faults, self.vms)
        self.cloud = Cloud(self.hub, self.faults, self.platform, self.vms, self.invariants)
        self.documents = Documents(self.store, self.platform, self.vms, self.invariants, lambda: self.hub.now)
        self.people = People(
            hub=self.hub,
            faults=self.faults,
            store=self.store,
            platform=self.platform,
            cloud=self.cloud,
            vms=self.vms,
            post=self.post,
            documents=self.documents,
            invariants=self.invariants,
        )
        self.platform.emit = self.people.emit
        self.punctuality = Punctuality(self.hub, self.store, self.platform, rates)
        self.post.ports = self._ports()
        self.store.watchers += [self.post.watch, self._digest]
        for number, name in enumerate(self.names):
            self._begin(number, name)
        self._sweep()

    # Running

    def live(self, days: float) -> None:
        """Let time pass with everything going wrong. Raises Broken."""
        self._run(days * 24 * HOUR)

    def calm(self) -> None:
        """The faults end; people release what is held; after a while all must train. Raises Broken."""
        self.faults.calm = True
        self._run(2 * HOUR)
        for _ in range(3):
            for name in self.names:
                self.people.release(name)
            self._run(3 * HOUR)
        self._check_end()

    def _run(self, seconds: float) -> None:
        end = self.hub.now + timedelta(seconds=seconds)
        while self.hub.now < end:
            self.hub.run(min(CHECKED_EVERY, (end - self.hub.now).total_seconds()))
            self.punctuality.check()

    def _check_end(self) -> None:
        for name in self.names:
            state, wishes = self._state(name), self.store.read(f"specs/{name}")
            if state is None or wishes is None:
                raise Broken(Invariant.ALL_TRAIN, name, "the service has not seen it")
            training = sorted(self.vms.of(name))
            if len(training) != (0 if state["phase"] == "SUCCEEDED" else 1) and not wishes.fields["paused"]:
                raise Broken(Invariant.ALL_TRAIN, name, f"{training}; {_words(state)}")
            recorded = {one["name"] for one in (*state["slices"], *state["leftovers"])}
            nodes = [node for node in self.platform.nodes.values() if node.job == name]
            loose = [node.name for node in nodes if node.name not in recorded and node.state != "DELETING"]
            if loose:
                raise Broken(Invariant.ALL_RECORDED, name, f"{loose}; {_words(state)}")

    # Building

    def _ports(self) -> Ports:
        wires, tasks = Wires(self.hub, self.faults), Tasks(self.hub, self.faults, self.post.serve)
        words = (f"{self.hub.chance.getrandbits(128):032x}" for _ in iter(int, 1))
        return Ports(
            store=WiredStore(wires, self.store),
            capacity=WiredCapacity(wires, self.cloud),
            timers=WiredTimers(wires, tasks),
            checkpoints=WiredCheckpoints(wires, self.vms),
            notifier=WiredNotifier(wires),
            clock=self.hub.clock,
            fresh=lambda: next(words),
            settings=Settings(project="p", service_account=SERVICE_ACCOUNT, reports_topic="projects/p/topics/reports"),
            startup_script=lambda: "#!/bin/sh",
        )

    def _begin(self, number: int, name: str) -> None:
        zones = [ZONES[(number + offset) % len(ZONES)] for offset in range(2)]
        spec = JobSpec(
            name=name,
            placements=tuple(Placement(zone=zone) for zone in zones),
            program="none",
            command="python3 train.py",
            accelerator_type="v5litepod-4",
            runtime_version="v2-alpha-tpuv5-lite",
            checkpoints=Checkpoints(path=f"gs://bucket/{name}"),
            deadlines=Deadlines(beacon=Duration(minutes=5)),
        )
        if self.faults.strikes(Fault.ATTRIBUTES_OFF):
            self.cloud.attributes_off.add(name)
        if self.faults.strikes(Fault.FOREIGN_NODE):
            self._add_foreign(name, zones[0])
        if self.hub.happens(FINITE):
            self.vms.finite[name] = 100 * self.hub.chance.randrange(5, 200)
        self.store.put(f"specs/{name}", to_document(Wishes(spec=spec)))
        self.people.begin(name)

    def _add_foreign(self, job: str, zone: str) -> None:
        """Two nodes of somebody else: one without labels has a name that the job will want, and one has labels like
        ours, of an installation that is no more."""
        prefix = f"projects/p/locations/{zone}/nodes"
        self.platform.add_foreign(f"{prefix}/{job}-g2", {})
        labels = {LABEL_JOB: job, LABEL_UID: "another", LABEL_GENERATION: "0"}
        self.platform.add_foreign(f"{prefix}/{job}-g0", labels)

    def _sweep(self) -> None:
        missed = self.faults.strikes(Fault.SWEEP_MISSED)
        if not missed:
            self.post.serve("/sweep", b"", self.punctuality.swept)
        seconds = self.hub.between(HOUR, 4 * HOUR) if missed else SWEEP_EVERY
        self.hub.after(seconds, "sweep", self._sweep)

    # What is known

    def tell(self, job: str, text: str) -> None:
        """Add a line to the story."""
        self.story.append((self.hub.now, job, text))

    def _state(self, job: str) -> Mapping[str, Any] | None:
        stored = self.store.read(f"jobs/{job}")
        return stored.fields if stored else None

    def _digest(self, path: str, _before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        self.hub.note(path.encode() + msgspec.json.encode(after))


def _words(state: Mapping[str, Any]) -> str:
    keys = ("phase", "generation", "launch", "handed", "wake_at", "hold", "patience", "leftovers", "slices")
    return json.dumps({key: state[key] for key in keys}, default=str)
