"""The whole service on this machine: the APIs as small servers in this process, the function as Google would serve it.

Only real clients talk to the servers; the function runs under functions-framework in a process of its own; TPU VMs are
processes that run the real startup script and the real runner.
"""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from google.auth.credentials import AnonymousCredentials

from tpu_recovery.local.firestore import FirestoreServer, Indexes
from tpu_recovery.local.function import FunctionProcess
from tpu_recovery.local.object_store import ObjectStore
from tpu_recovery.local.pubsub import PubSubServer
from tpu_recovery.local.tasks import TasksServer
from tpu_recovery.local.tpu import ProcessMachines, TpuServer, TpuSettings
from tpu_recovery.model.handoff import Timing

PROJECT = "demo-project"
ZONE = "us-east5-b"
REGION = "us-east5"
BUCKET = "demo-bucket"
DATABASE = "tpu-recovery"
SERVICE_ACCOUNT = f"tpu-recovery@{PROJECT}.iam.gserviceaccount.com"
CALLER = f"tpu-recovery-invoker@{PROJECT}.iam.gserviceaccount.com"
TOPICS = ("events", "reports", "commands", "notifications", "dead-letters")
PUSHES = {"events": "/event", "reports": "/report", "commands": "/command"}

INDEXES = Indexes(exempted=frozenset({("inbox", "raw")}))
"""What the installation declares. A query that needs more is refused here, as the real service would."""


@dataclass(frozen=True)
class StackSettings:
    """What a demo or a test may shorten. Seconds."""

    tpu: TpuSettings = field(default_factory=TpuSettings)
    runner: Timing = field(default_factory=lambda: Timing(poll=0.2, alive=2))
    sweep_every: float = 300
    creates_per_second: float = 1.0
    duplicates: int = 0
    """How many more times each push message is delivered."""
    machines: bool = True
    """Whether nodes have VMs, as processes; without them nothing runs on a node."""


class Stack:
    """Start it, use it through the clients and `environment`, stop it."""

    def __init__(
        self,
        settings: StackSettings | None = None,
        directory: Path | None = None,
        on_entry: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """``on_entry`` sees every log entry that the platform writes, before it is published."""
        self._on_entry = on_entry
        self.settings = settings or StackSettings()
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="tpu-recovery-")
        self.directory = directory or Path(str(self._temporary and self._temporary.name))
        self.firestore = FirestoreServer(indexes=INDEXES)
        self.pubsub = PubSubServer()
        self.tasks = TasksServer()
        self.objects = ObjectStore()
        self.machines: ProcessMachines | None = None
        self.tpu: TpuServer
        self.function: FunctionProcess
        self.environment: dict[str, str] = {}
        self._stopping = threading.Event()
        self._sweeper: threading.Thread | None = None

    def start(self) -> Stack:
        """Start everything, in an order in which nothing waits for what is not there yet."""
        self.objects.start()
        firestore_port = self.firestore.start()
        self.pubsub.start()
        tasks_port = self.tasks.start()
        self.environment = {
            "STORAGE_EMULATOR_HOST": self.objects.url,
            "FIRESTORE_EMULATOR_HOST": f"127.0.0.1:{firestore_port}",
            "PUBSUB_EMULATOR_HOST": f"127.0.0.1:{self.pubsub.port}",
            "TPU_RECOVERY_TASKS_HOST": f"127.0.0.1:{tasks_port}",
            "TPU_RECOVERY_PUBSUB_URL": f"http://127.0.0.1:{self.pubsub.rest_port}",
            "GOOGLE_CLOUD_PROJECT": PROJECT,
        }
        vm_names = ("STORAGE_EMULATOR_HOST", "TPU_RECOVERY_PUBSUB_URL")
        self.machines = ProcessMachines(self.directory / "vms", {name: self.environment[name] for name in vm_names})
        machines = self.machines if self.settings.machines else None
        self.tpu = TpuServer(emit=self._publish_entry, machines=machines, settings=self.settings.tpu)
        self.environment["TPU_RECOVERY_TPU_HOST"] = f"127.0.0.1:{self.tpu.start()}"
        self._publisher = self._publisher_client()
        self._create_topics()
        self._create_queues()
        self._create_bucket()
        self.function = FunctionProcess({**os.environ, **self.environment, **self._function_settings()}, self.directory)
        self._subscribe(self.function.start())
        if self.settings.sweep_every:
            self._sweeper = threading.Thread(target=self._sweep_regularly, daemon=True)
            self._sweeper.start()
        return self

    def stop(self) -> None:
        """Stop everything. No process is left behind."""
        self._stopping.set()
        if self._sweeper is not None:
            self._sweeper.join(timeout=5)
        if hasattr(self, "function"):
            self.function.stop()
        if hasattr(self, "tpu"):
            self.tpu.stop()
        if self.machines is not None:
            self.machines.stop_all()
        self.tasks.stop()
        self.pubsub.stop()
        self.firestore.stop()
        self.objects.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Stack:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def publish(self, topic: str, data: bytes, **attributes: str) -> None:
        """Publish one message and wait until the topic has it."""
        self._publisher.publish(topic=_topic(topic), messages=[{"data": data, "attributes": attributes}])

    def sweep(self) -> None:
        """What Cloud Scheduler does every few minutes."""
        self.function.post("/sweep")

    def _publish_entry(self, entry: dict[str, Any]) -> None:
        """The log sink: what the platform writes is on the topic at once; the real export takes seconds."""
        if self._on_entry is not None:
            self._on_entry(entry)
        self.publish("events", json.dumps(entry).encode())

    def _publisher_client(self) -> Any:
        from google.pubsub_v1 import PublisherClient
        from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

        channel = grpc.insecure_channel(self.environment["PUBSUB_EMULATOR_HOST"])
        transport = PublisherGrpcTransport(channel=channel, credentials=AnonymousCredentials())
        return PublisherClient(transport=transport)

    def _create_topics(self) -> None:
        for topic in TOPICS:
            self._publisher.create_topic(name=_topic(topic))

    def _create_bucket(self) -> None:
        request = urllib.request.Request(
            f"{self.objects.url}/storage/v1/b?project={PROJECT}",
            data=json.dumps({"name": BUCKET}).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    def _function_settings(self) -> dict[str, str]:
        queues = f"projects/{PROJECT}/locations/{REGION}/queues"
        return {
            "DATABASE": DATABASE,
            "SERVICE_ACCOUNT": SERVICE_ACCOUNT,
            "REPORTS_TOPIC": _topic("reports"),
            "NOTIFICATIONS_TOPIC": _topic("notifications"),
            "TIMERS_QUEUE": f"{queues}/timers",
            "CREATES_QUEUE": f"{queues}/creates",
            "TIMER_INVOKER": CALLER,
            "RUNNER_TIMING": json.dumps({"poll": self.settings.runner.poll, "alive": self.settings.runner.alive}),
        }

    def _create_queues(self) -> None:
        from google.cloud import tasks_v2
        from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

        channel = grpc.insecure_channel(self.environment["TPU_RECOVERY_TASKS_HOST"])
        client = tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))
        parent = f"projects/{PROJECT}/locations/{REGION}"
        retry = {"min_backoff": timedelta(seconds=1), "max_backoff": timedelta(seconds=60)}
        rates = {"timers": 500.0, "creates": self.settings.creates_per_second}
        for name, rate in rates.items():
            limits = {"max_dispatches_per_second": rate, "max_concurrent_dispatches": 3 if name == "creates" else 100}
            queue = {"name": f"{parent}/queues/{name}", "retry_config": retry, "rate_limits": limits}
            client.create_queue(request={"parent": parent, "queue": queue})

    def _subscribe(self, url: str) -> None:
        from google.pubsub_v1 import SubscriberClient
        from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

        channel = grpc.insecure_channel(self.environment["PUBSUB_EMULATOR_HOST"])
        transport = SubscriberGrpcTransport(channel=channel, credentials=AnonymousCredentials())
        client = SubscriberClient(transport=transport)
        for topic, path in PUSHES.items():
            name = f"projects/{PROJECT}/subscriptions/{topic}"
            client.create_subscription(
                request={
                    "name": name,
                    "topic": _topic(topic),
                    "ack_deadline_seconds": 90,
                    "push_config": {
                        "push_endpoint": f"{url}{path}",
                        "oidc_token": {"service_account_email": CALLER, "audience": url},
                    },
                    "retry_policy": {"minimum_backoff": timedelta(seconds=1), "maximum_backoff": timedelta(seconds=60)},
                    "dead_letter_policy": {"dead_letter_topic": _topic("dead-letters"), "max_delivery_attempts": 50},
                }
            )
            if self.settings.duplicates:
                self.pubsub.duplicate(name, self.settings.duplicates)

    def _sweep_regularly(self) -> None:
        while not self._stopping.wait(self.settings.sweep_every):
            try:
                self.sweep()
            except (OSError, http.client.HTTPException) as error:  # as Cloud Scheduler: the next one comes anyway
                print(f"a sweep was not answered: {error}", flush=True)


def _topic(name: str) -> str:
    return f"projects/{PROJECT}/topics/{name}"


def wait_until(condition: Any, seconds: float, every: float = 0.05) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(every)
    return bool(condition())
