"""One installation of the service with its jobs, its people and its bad luck."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.entries import PERSON, SERVICE_ACCOUNT, api_call, push, stamp, system_event
from tests.simulation.cloud import SimulatedCloud
from tests.simulation.faults import Fault, Faults
from tests.simulation.hub import Crash, Hub
from tests.simulation.invariants import Broken, Invariants
from tests.simulation.store import SimulatedStore
from tests.simulation.tasks import Tasks
from tests.simulation.vms import Vms
from tests.simulation.wires import WiredCapacity, WiredCheckpoints, WiredNotifier, WiredStore, WiredTimers, Wires

from tpu_recovery.model.codec import to_document
from tpu_recovery.model.spec import Checkpoints, JobSpec, Placement, Wishes
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.settings import Settings
from tpu_recovery.service import handle

ZONES = ("us-east5-a", "us-east5-b", "us-west4-a")
MOST_DELIVERIES = 50
ACK_DEADLINE = 90.0
SWEEP_EVERY = 300.0


class Universe:
    """Built from a seed; `live` lets time pass, `calm` ends all faults, `check` says whether all has come right."""

    def __init__(self, seed: int, jobs: int, faults: Faults) -> None:
        self.hub, self.faults = Hub(seed), faults
        self.story: list[tuple[datetime, str, str]] = []
        self.store = SimulatedStore()
        self.invariants = Invariants(self._state, lambda: self.hub.now, self._tell)
        self.vms = Vms(self.hub, faults, self.invariants, lambda report: self._publish("/report", report))
        self.cloud = SimulatedCloud(self.hub, faults, self.vms, self.invariants, self._emit)
        self.tasks = Tasks(self.hub, faults, self._serve)
        self.ports = self._ports()
        self.store.watchers.append(self.invariants.written)
        self.store.watchers.append(self._watch_inbox)
        self.names = [f"job-{number:03d}" for number in range(jobs)]
        self._taken_down: set[str] = set()
        """Nodes that a person deleted, and about which the platform (or a forger in its name) has said nothing."""
        self._spoken: set[str] = set()
        self._broken: Broken | None = None
        for number, name in enumerate(self.names):
            self._begin(number, name)
        for zone in ZONES:
            self.cloud.add_foreign(f"projects/p/locations/{zone}/nodes/job-000-g9999")
        self._sweep()

    # Running

    def live(self, days: float) -> None:
        """Let time pass with everything going wrong. Raises Broken."""
        self._run(days * 86_400)

    def calm(self) -> None:
        """The faults end; people release what is held; after a while all must train. Raises Broken."""
        self.faults.calm = True
        self._run(2 * 3600)
        for _ in range(2):
            for name in self.names:
                state = self._state(name)
                self._release(name, state["hold"]["reason"] if state and state["hold"] else "")
            self._run(4 * 3600)
        self._check()

    def _run(self, seconds: float) -> None:
        end = self.hub.now + timedelta(seconds=seconds)
        while self.hub.now < end:
            self.hub.run(min(600.0, (end - self.hub.now).total_seconds()))
            if self._broken is not None:
                raise self._broken

    def _check(self) -> None:
        for name in self.names:
            state = self._state(name)
            if state is None:
                raise Broken("every job is registered", name, "the service has not seen it")
            wishes = self.store.read(f"specs/{name}")
            assert wishes is not None
            training = sorted(node for node, job in self.vms.training.items() if job == name)
            if state["phase"] == "SUCCEEDED" or wishes.fields["paused"]:
                expected = 0 if state["phase"] == "SUCCEEDED" else len(training)
            else:
                expected = 1
            if len(training) != expected:
                raise Broken("every job that should run trains exactly once", name, f"{training}; {_words(state)}")
            nodes = [node.name for node in self.cloud.nodes.values() if node.job == name]
            if len(nodes) > 1 or (state["phase"] == "SUCCEEDED" and nodes):
                raise Broken("nothing is left over", name, f"{nodes}; {_words(state)}")
        long_ago = self.hub.now - timedelta(minutes=10)
        found = self.store.find("inbox", ("status", "==", "waiting"))
        waiting = [one for one in found if one.fields["received"] < long_ago]
        if waiting:
            raise Broken("every entry has an outcome", str(waiting[0].fields["job"]), str(waiting[0].fields)[:300])

    # Building

    def _ports(self) -> Ports:
        wires = Wires(self.hub, self.faults)
        words = (f"{self.hub.chance.getrandbits(128):032x}" for _ in iter(int, 1))
        return Ports(
            store=WiredStore(wires, self.store),
            capacity=WiredCapacity(wires, self.cloud),
            timers=WiredTimers(wires, self.tasks),
            checkpoints=WiredCheckpoints(wires, self.vms),
            notifier=WiredNotifier(wires),
            clock=self.hub.clock,
            fresh=lambda: next(words),
            settings=Settings(project="p", service_account=SERVICE_ACCOUNT, reports_topic="projects/p/topics/reports"),
            startup_script=lambda: "#!/bin/sh",
        )

    def _begin(self, number: int, name: str) -> None:
        first = number % len(ZONES)
        spec = JobSpec(
            name=name,
            placements=tuple(Placement(zone=ZONES[(first + offset) % len(ZONES)]) for offset in range(2)),
            program="none",
            command="python3 train.py",
            accelerator_type="v5litepod-4",
            runtime_version="v2-alpha-tpuv5-lite",
            checkpoints=Checkpoints(path=f"gs://bucket/{name}"),
        )
        if self.hub.happens(self.faults.rate(Fault.ATTRIBUTES_OFF)):
            self.cloud.attributes_off.add(name)
        if self.hub.happens(0.1):
            self.vms.finite[name] = 100 * self.hub.chance.randrange(20, 200)
        self.store.put(f"specs/{name}", to_document(Wishes(spec=spec)))
        self.hub.after(self.hub.between(0, 600), f"apply {name}", lambda: self._command("apply", name))
        for fault, do in (
            (Fault.PERSON_DELETES, self._person_deletes),
            (Fault.PERSON_PAUSES, self._person_pauses),
            (Fault.PERSON_EDITS, self._person_edits),
            (Fault.PERSON_SSH, self.cloud.rewrite_metadata_late),
            (Fault.FORGED, self._forge),
            (Fault.MALFORMED, self._malformed),
        ):
            self._now_and_then(fault, name, do)
        self._look_after(name)

    def _now_and_then(self, fault: Fault, job: str, do: Callable[[str], Any]) -> None:
        mean = self.faults.rate(fault)
        if not mean:
            return

        def happen() -> None:
            if self.faults.rate(fault):
                do(job)
                self._now_and_then(fault, job, do)

        self.hub.after(self.hub.waiting_time(mean), f"{fault} {job}", happen)

    # Messages

    def _emit(self, entry: dict[str, Any]) -> None:
        """An entry on its way through the log sink."""
        payload = entry["protoPayload"]
        if payload["authenticationInfo"]["principalEmail"] == "system@google.com":
            named = payload["resourceName"]
            self._spoken |= {named} | {node.name for node in self.cloud.nodes.values() if node.hostname in named}
        self._publish("/event", entry)

    def _publish(self, path: str, document: Mapping[str, Any] | bytes) -> None:
        hub, rate = self.hub, self.faults.rate
        copies = 1
        if hub.happens(rate(Fault.LOST)) and self._can_be_lost(path, document):
            copies -= 1
        if hub.happens(rate(Fault.DUPLICATED)):
            copies += hub.chance.randrange(1, 4)
        for _ in range(copies):
            late = hub.happens(rate(Fault.DELAYED))
            seconds = hub.between(0, 3600) if late else hub.between(0.1, 6)
            self._deliver(path, push(document), seconds, 0)

    def _can_be_lost(self, path: str, document: Mapping[str, Any] | bytes) -> bool:
        """The log sink may drop an entry. A report is published until it is acknowledged; should that be given up, guest
        attributes have it, unless they are switched off: then nobody could know."""
        if path == "/report" and isinstance(document, Mapping):
            return document["job"] not in self.cloud.attributes_off
        return path == "/event"

    def _deliver(self, path: str, body: bytes, seconds: float, attempt: int) -> None:
        if attempt >= MOST_DELIVERIES:
            return  # it is in the dead letters
        answered = False

        def settle(success: bool) -> None:
            nonlocal answered
            if not answered:
                answered = True
                if not success:
                    self._deliver(path, body, min(10 * 2**attempt, 600), attempt + 1)

        def begin() -> None:
            self.hub.after(ACK_DEADLINE, "ack deadline", lambda: settle(False))
            self._serve(path, body, settle)

        self.hub.after(seconds, f"push {path}", begin)

    def _serve(self, path: str, body: bytes, settle: Callable[[bool], None]) -> None:
        """One invocation of the function."""
        skewed = self.hub.happens(self.faults.rate(Fault.SKEW))
        skew = timedelta(seconds=self.hub.between(-120, 120) if skewed else 0)

        def work() -> None:
            try:
                settle(handle(self.ports, path, body).status < 300)
            except Crash:
                return  # nobody answers: the deadline will pass
            except Broken as broken:
                self._broken = self._broken or broken

        self.hub.start(path, skew, work)

    def _sweep(self) -> None:
        missed = self.hub.happens(self.faults.rate(Fault.SWEEP_MISSED))
        if not missed:
            self._serve("/sweep", b"", lambda _success: None)
        seconds = self.hub.between(3600, 4 * 3600) if missed else SWEEP_EVERY
        self.hub.after(seconds, "sweep", self._sweep)

    # People

    def _command(self, kind: str, job: str) -> None:
        if kind == "resume":
            self.invariants.stood_down.pop(job, None)
            self._taken_down = {name for name in self._taken_down if f"/{job}-g" not in name}
        number = f"{kind}-{self.hub.steps}-{self.hub.chance.random()}"
        self._publish("/command", {"id": number, "job": job, "kind": kind, "at": stamp(self.hub.now), "by": PERSON})

    def _look_after(self, job: str) -> None:
        """People look at their jobs now and then, and release what is held."""

        def glance() -> None:
            state = self._state(job)
            if state is not None and state["phase"] == "HELD":
                self._release(job, state["hold"]["reason"])
            self._look_after(job)

        self.hub.after(self.hub.waiting_time(6 * 3600), f"somebody looks at {job}", glance)

    def _release(self, job: str, reason: str) -> None:
        """Do what the hold asks for, and go on."""
        self._tell(job, "a person: resume")
        if "none is complete" in reason:
            self.vms.buckets[job].steps.clear()
        self._command("resume", job)

    def _person_deletes(self, job: str) -> None:
        name = self.cloud.delete_by_person(job)
        if name:
            self._tell(job, f"a person deletes {name.rsplit('/', 1)[1]}")
            self._taken_down.add(name)

    def _person_pauses(self, job: str) -> None:
        self._tell(job, "a person: pause for a while")
        self._set_paused(job, True)
        self.hub.after(self.hub.between(600, 6 * 3600), f"unpause {job}", lambda: self._set_paused(job, False))

    def _set_paused(self, job: str, paused: bool) -> None:
        self._edit(job, paused=paused)

    def _person_edits(self, job: str) -> None:
        self._tell(job, "a person edits the specification")
        self._edit(job)

    def _edit(self, job: str, **changes: Any) -> None:
        stored = self.store.read(f"specs/{job}")
        assert stored is not None
        fields = {**stored.fields, **changes, "revision": stored.fields["revision"] + 1}
        self.store.put(stored.path, fields)
        self._command("apply", job)

    def _forge(self, job: str) -> None:
        """Somebody publishes entries that never happened."""
        state = self._state(job)
        if state is None or not state["slices"]:
            return
        name, now = state["slices"][0]["name"], self.hub.now
        forged = self.hub.chance.choice(
            (
                api_call("DeleteNode", name, now, operation=f"forged-{self.hub.steps}", last=True),
                system_event("tpu.nodes.terminate", name, now, f"forged-{self.hub.steps}"),
                api_call("DeleteNode", name, now, operation=f"forged-{self.hub.steps}", error=(7, "denied")),
            )
        )
        self._emit(forged)

    def _malformed(self, _job: str) -> None:
        rubbish = (b"", b"{", b"\xff" * 1000, b"[]", b'{"protoPayload": {"methodName": "x"}}')
        self._publish(self.hub.chance.choice(("/event", "/report", "/command")), self.hub.chance.choice(rubbish))

    # What is known

    def _state(self, job: str) -> Mapping[str, Any] | None:
        stored = self.store.read(f"jobs/{job}")
        return stored.fields if stored else None

    def _tell(self, job: str, text: str) -> None:
        self.story.append((self.hub.now, job, text))

    def _watch_inbox(self, path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        """A person's delete that has been received must not be made up for (unless the platform spoke too)."""
        if not path.startswith("inbox/") or before is not None or after["status"] != "waiting":
            return
        if after["kind"] != "event" or not self._taken_down:
            return
        payload = json.loads(after["raw"])["protoPayload"]
        name = payload["resourceName"]
        if payload["methodName"].endswith("DeleteNode") and name in self._taken_down - self._spoken:
            state = self._state(after["job"])
            if state is not None and state["slices"] and state["slices"][0]["name"] == name:
                self.invariants.stood_down[after["job"]] = state["generation"]


def _words(state: Mapping[str, Any]) -> str:
    keys = ("phase", "generation", "launch", "handed", "wake_at", "hold", "patience", "leftovers", "slices")
    return ", ".join(f"{key}={state[key]}" for key in keys)
