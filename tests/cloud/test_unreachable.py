"""What every call comes to when its service is not there: an answer within the time that an invocation has."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.capacity import TpuCapacity
from tpu_recovery.cloud.commands import send
from tpu_recovery.cloud.notify import TopicNotifier
from tpu_recovery.cloud.storage import BucketCheckpoints
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.cloud.timers import TaskTimers
from tpu_recovery.errors import Unreadable
from tpu_recovery.model.decision import Notify
from tpu_recovery.model.messages import Command, CommandKind
from tpu_recovery.model.observed import CheckpointFinding, OperationState, Presence
from tpu_recovery.model.spec import Checkpoints
from tpu_recovery.recovery.ports import Create, NodeRequest

PARENT = "projects/demo/locations/us-east5-b"
NODE = f"{PARENT}/nodes/train-g1"
PATIENCE = clients.CALL_SECONDS + 20
"""Far above what a call may take, far below what the clients would take by themselves."""


class Adapters:
    """All ports on one address."""

    def __init__(self, address: str, environment: pytest.MonkeyPatch) -> None:
        for name in ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", clients.TPU_HOST, clients.TASKS_HOST):
            environment.setenv(name, address)
        environment.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        make = {name: getattr(clients, name).__wrapped__ for name in dir(clients) if name.endswith("_client")}
        storage, publisher = make["storage_client"]("demo"), make["publisher_client"]()
        queues = {"timers_queue": "projects/p/locations/l/queues/t", "creates_queue": "projects/p/locations/l/queues/c"}
        self.store = FirestoreStore(make["firestore_client"]("demo", "tpu-recovery"))
        self.capacity = TpuCapacity(make["tpu_client"]())
        self.timers = TaskTimers(make["tasks_client"](), **queues, url="https://recover.example", invoker="a@b.example")
        self.checkpoints = BucketCheckpoints(lambda: storage)
        self.notifier = TopicNotifier(lambda: publisher, "projects/demo/topics/notifications")
        self._publisher = publisher

    def send(self, command: Command) -> None:
        """What the command line does."""
        send(self._publisher, "projects/demo/topics/commands", command)


CALLS: dict[str, Callable[[Adapters], Any]] = {
    "get": lambda at: at.store.get("jobs/a", "specs/a"),
    "find": lambda at: at.store.find("jobs", ("phase", "==", "RUNNING"), limit=1),
    "commit": lambda at: at.store.commit([Create("jobs/a", {"n": 1})]),
    "describe": lambda at: at.capacity.describe(NODE),
    "describe operation": lambda at: at.capacity.describe_operation(f"{PARENT}/operations/o"),
    "list": lambda at: at.capacity.list_nodes("demo", "us-east5-b"),
    "create": lambda at: at.capacity.create(NodeRequest(PARENT, "train-g1", "", {"accelerator_type": "v5litepod-4"})),
    "delete": lambda at: at.capacity.delete(NODE),
    "write metadata": lambda at: at.capacity.write_metadata(NODE, {"a": "b"}),
    "attributes": lambda at: at.capacity.attributes(NODE),
    "timer": lambda at: at.timers.call_later("/timer", {}, key="k", at=datetime.now(UTC)),
    "queued create": lambda at: at.timers.queue_create({}, key="k", at=datetime.now(UTC)),
    "checkpoints": lambda at: at.checkpoints.newest(Checkpoints(path="gs://bucket/ck"), None),
    "command": lambda at: at.send(Command(id="c", job="train", kind=CommandKind.APPLY, at=datetime.now(UTC))),
    "notice": lambda at: at.notifier.tell("train", Notify(severity="info", text="hello")),
}

READINGS = {
    "describe": lambda reading: reading.presence is Presence.UNREADABLE,
    "describe operation": lambda reading: reading.state is OperationState.UNREADABLE,
    "checkpoints": lambda reading: reading.finding is CheckpointFinding.UNREADABLE,
}


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[tuple[str, str], Future[Any]]]:
    """Every call, at once, to a port where nothing listens and to one where nobody answers."""
    with ExitStack() as closing:
        environment = closing.enter_context(pytest.MonkeyPatch.context())
        addresses = {}
        for name in ("refused", "silent"):
            listener = closing.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            addresses[name] = f"127.0.0.1:{listener.getsockname()[1]}"
            if name == "silent":
                listener.listen(100)
        adapters = {name: Adapters(address, environment) for name, address in addresses.items()}
        threads = ThreadPoolExecutor(2 * len(CALLS))
        closing.callback(threads.shutdown, wait=False, cancel_futures=True)
        yield {(name, call): threads.submit(CALLS[call], adapters[name]) for name in addresses for call in CALLS}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["refused", "silent"])
def test_it_is_unreadable_in_time(outcomes: dict[tuple[str, str], Future[Any]], name: str, call: str) -> None:
    outcome = outcomes[name, call]
    problem = outcome.exception(timeout=PATIENCE)
    if call in READINGS:
        assert problem is None
        assert READINGS[call](outcome.result())
    else:
        assert isinstance(problem, Unreadable)
        assert str(problem)[-1] not in " :"
