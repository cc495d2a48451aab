"""The service on fakes, and around it what the platform does: deliver, deliver again, fire timers, run the sweep."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.fakes.capacity import FakeCapacity
from tests.fakes.clock import Clock
from tests.fakes.entries import SERVICE_ACCOUNT, push, stamp, system_event
from tests.fakes.people import FakeCheckpoints, FakeNotifier
from tests.fakes.runners import Runners
from tests.fakes.store import MemoryStore
from tests.fakes.timers import FakeTimers
from tests.fakes.wire import Crash, Wire

from tpu_recovery.errors import Invalid, Unreadable
from tpu_recovery.model.codec import from_document, to_document
from tpu_recovery.model.duration import Duration
from tpu_recovery.model.incident import Incident
from tpu_recovery.model.job import Job
from tpu_recovery.model.spec import Checkpoints, JobSpec, Placement, Wishes
from tpu_recovery.model.state import JobState, Lease
from tpu_recovery.recovery.creates import create
from tpu_recovery.recovery.intake import receive
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.records import InboxEntry, InboxKind, Record, Records, put_state
from tpu_recovery.recovery.settings import Settings
from tpu_recovery.recovery.sweep import sweep
from tpu_recovery.recovery.wake import fire

ZONE, OTHER_ZONE = "us-east5-b", "us-west4-a"
NODES = f"projects/p/locations/{ZONE}/nodes"
G1, G2, G3 = (f"{NODES}/train-g{generation}" for generation in (1, 2, 3))
CHECKPOINTS = "gs://bucket/train"

ACK_DEADLINE = timedelta(seconds=90)
SOON = timedelta(seconds=10)
SWEEP_EVERY = timedelta(minutes=5)

HANDLERS: dict[str, Callable[[Ports, bytes], str]] = {
    "/event": lambda ports, body: receive(ports, InboxKind.EVENT, body),
    "/report": lambda ports, body: receive(ports, InboxKind.REPORT, body),
    "/command": lambda ports, body: receive(ports, InboxKind.COMMAND, body),
    "/timer": fire,
    "/create": create,
    "/sweep": lambda ports, _body: sweep(ports),
}

SPEC = JobSpec(
    name="train",
    placements=(Placement(zone=ZONE),),
    program="none",
    command="python3 train.py --from {resume_step}",
    accelerator_type="v5litepod-8",
    runtime_version="v2-alpha-tpuv5-lite",
    checkpoints=Checkpoints(path=CHECKPOINTS, every=Duration(hours=1)),
)


class Message(msgspec.Struct):
    """Something that a topic has to deliver, from `at` on; not acknowledged yet."""

    path: str
    body: bytes
    at: datetime


class World:
    """One installation. Nothing happens but by `deliver`, `run` and the fakes' own methods."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.clock, self.wire = Clock(), Wire()
        self.store, self.timers = MemoryStore(self.wire), FakeTimers(self.wire)
        self.checkpoints, self.notifier = FakeCheckpoints(self.wire), FakeNotifier(self.wire)
        self.capacity = FakeCapacity(self.wire, self.clock, emit=self.publish_event)
        self.runners = Runners(self.capacity, self.clock, send=self.publish_report, save=self._save)
        self.messages: list[Message] = []
        self.sweeping = True
        self._next_sweep = self.clock() + SWEEP_EVERY
        self._not_before: dict[str, datetime] = {}
        words = itertools.count(1)
        self.ports = Ports(
            store=self.store,
            capacity=self.capacity,
            timers=self.timers,
            checkpoints=self.checkpoints,
            notifier=self.notifier,
            clock=self.clock,
            fresh=lambda: f"fresh{next(words):03d}",
            settings=settings or Settings(project="p", service_account=SERVICE_ACCOUNT, reports_topic="topics/reports"),
            startup_script=lambda: "#! /bin/sh",
        )

    # What is known

    @property
    def records(self) -> Records:
        """The documents, typed. Reading them here passes no hook and is not counted."""
        quiet = MemoryStore(Wire())
        quiet.documents = self.store.documents
        return Records(quiet)

    def job(self, name: str = "train") -> Job:
        """A job as it is stored."""
        record = self.records.load(name)
        assert isinstance(record, Record), record
        return record.job

    def state(self, name: str = "train") -> JobState:
        """What the service knows of a job."""
        return self.job(name).state

    def incidents(self, name: str = "train") -> list[Incident]:
        """All incidents of a job, the oldest first."""
        prefix = f"jobs/{name}/incidents/"
        found = [one for path, one in self.store.documents.items() if path.startswith(prefix)]
        return sorted((from_document(dict(one.fields), Incident) for one in found), key=lambda one: one.opened)

    def inbox(self) -> list[InboxEntry]:
        """All inbox entries, the oldest first."""
        found = [one for path, one in self.store.documents.items() if path.startswith("inbox/")]
        return sorted((from_document(dict(one.fields), InboxEntry) for one in found), key=lambda one: one.received)

    def looks(self) -> int:
        """How many looks were completed so far: each reads the waiting entries when it begins and when it ends."""
        return len(self.wire.made("store.find", "inbox")) // 2

    def change(self, name: str = "train", **fields: Any) -> JobState:
        """Somebody else has written a job's state: another invocation, or an earlier one that died."""
        state = replace(self.state(name), **fields)
        self.store.put(f"jobs/{name}", put_state(state, None).fields)
        return state

    def lease(self, seconds: float = 75) -> Lease:
        """Another invocation looks at the job; its lease ends in so many seconds."""
        lease = Lease(id="somebody-else", until=self.clock() + timedelta(seconds=seconds))
        self.change(lease=lease)
        return lease

    # What people and the platform do

    def wish(self, spec: JobSpec = SPEC, **wishes: Any) -> None:
        """A person writes a specification; nothing tells the service."""
        self.store.put(f"specs/{spec.name}", to_document(Wishes(spec=spec, **wishes)))

    def apply(self, spec: JobSpec = SPEC, **wishes: Any) -> None:
        """A person applies a job file."""
        self.wish(spec, **wishes)
        self.command("apply", spec.name)

    def command(self, kind: str, name: str = "train") -> None:
        """A person sends a command."""
        number = sum(message.path == "/command" for message in self.messages)
        body = {"id": f"{kind}-{stamp(self.clock())}-{number}", "job": name, "kind": kind, "at": stamp(self.clock())}
        self._publish("/command", {**body, "by": "ada@example.com"})

    def publish_event(self, entry: Mapping[str, Any]) -> None:
        """The sink exports an entry."""
        self._publish("/event", entry)

    def publish_report(self, report: Mapping[str, Any]) -> None:
        """A runner publishes a report."""
        self._publish("/report", report)

    def _publish(self, path: str, document: Mapping[str, Any]) -> None:
        self.messages.append(Message(path, push(document), self.clock()))

    def _save(self, job: str, step: int) -> None:
        self.checkpoints.save(f"gs://bucket/{job}", step)

    # What is delivered

    def deliver(self, path: str, body: bytes = b"") -> str:
        """One request; gives the outcome. Raises what the handler raises, Crash too."""
        return str(HANDLERS[path](self.ports, body))

    def event(self, entry: Mapping[str, Any]) -> str:
        """Deliver an audit entry at once."""
        return self.deliver("/event", push(entry))

    def preempted(self, name: str = G1, insert_id: str = "s1") -> dict[str, Any]:
        """The entry that says so."""
        return system_event("tpu.nodes.terminate", name, self.clock(), insert_id)

    def timer(self, **body: Any) -> str:
        """Deliver a timer with this body at once."""
        return self.deliver("/timer", msgspec.json.encode(body))

    def run(self, seconds: float) -> None:
        """Let time pass, and let everything happen that then happens, in the order of time."""
        end = self.clock() + timedelta(seconds=seconds)
        while True:
            self.happen()
            moment = self._next_moment()
            if moment > end:
                self.clock.move_to(end)
                return
            self.clock.move_to(moment)

    def happen(self) -> None:
        """Everything whose time has come. Raises AssertionError when it never ends."""
        for _ in range(100):
            self.capacity.settle()
            self.runners.step()
            if not self._deliver_one():
                return
        raise AssertionError(f"always something to do at {self.clock()}: {self.timers.due(self.clock())}")

    def _deliver_one(self) -> bool:
        now = self.clock()
        message = next((one for one in self.messages if one.at <= now), None)
        if message is not None:
            message.at = now + ACK_DEADLINE
            if self._try(message.path, message.body, lambda moment: setattr(message, "at", moment)):
                self.messages = [one for one in self.messages if one is not message]
            return True
        task = next((one for one in self.timers.due(now) if self._not_before.get(one.key, now) <= now), None)
        if task is not None:
            self._not_before[task.key] = now + ACK_DEADLINE
            if self._try(task.path, task.body, lambda moment: self._not_before.update({task.key: moment})):
                self.timers.finish(task)
            return True
        if self.sweeping and self._next_sweep <= now:
            self._next_sweep = now + SWEEP_EVERY
            self._try("/sweep", b"", lambda _moment: None)
            return True
        return False

    def _try(self, path: str, body: bytes, again: Callable[[datetime], None]) -> bool:
        """Whether the request was answered with success. One that died is delivered again at the deadline."""
        try:
            self.deliver(path, body)
        except Invalid:
            return True
        except Unreadable:
            again(self.clock() + SOON)
            return False
        except Crash:
            return False
        return True

    def _next_moment(self) -> datetime:
        tasks = (max(task.at, self._not_before.get(task.key, task.at)) for task in self.timers.waiting())
        moments = [message.at for message in self.messages] + list(tasks)
        moments += [self._next_sweep] if self.sweeping else []
        moments += [one for one in (self.capacity.next_moment(), self.runners.next_moment()) if one is not None]
        return min(moments, default=datetime.max.replace(tzinfo=self.clock().tzinfo))


def running(**settings: Any) -> World:
    """A world in which the job `train` runs as generation 1, has made progress, and nothing is left to do."""
    world = World(**settings)
    world.apply()
    world.run(600)
    assert (world.state().phase, world.state().generation) == ("RUNNING", 1), world.state()
    assert not world.messages
    return world
