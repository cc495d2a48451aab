"""The recover service: settings from the environment, real clients behind the ports, requests to handlers by path."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache

import msgspec

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.logs import TRACE, log_as_json, trace_of
from tpu_recovery.cloud.storage import BucketCheckpoints
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.errors import Conflict, Invalid, Unreadable, Unstorable
from tpu_recovery.model.codec import from_document
from tpu_recovery.model.handoff import Timing
from tpu_recovery.recovery.creates import create
from tpu_recovery.recovery.intake import receive
from tpu_recovery.recovery.ports import Capacity, Notifier, Ports, Timers
from tpu_recovery.recovery.records import InboxKind
from tpu_recovery.recovery.settings import Settings
from tpu_recovery.recovery.sweep import sweep
from tpu_recovery.recovery.wake import fire

log = logging.getLogger(__name__)

DATABASE = "tpu-recovery"
"""Name of the Firestore database, unless DATABASE says otherwise."""


class Reply(msgspec.Struct, frozen=True):
    """What an HTTP request is answered with."""

    status: int
    text: str


Handler = Callable[[Ports, bytes], str]

ROUTES: dict[str, Handler] = {
    "/event": lambda ports, body: receive(ports, InboxKind.EVENT, body),
    "/report": lambda ports, body: receive(ports, InboxKind.REPORT, body),
    "/command": lambda ports, body: receive(ports, InboxKind.COMMAND, body),
    "/timer": fire,
    "/create": create,
    "/sweep": lambda ports, _body: sweep(ports),
}
"""Each topic pushes to its own path, so that what a message may be is known from who could publish it."""


def handle(ports: Ports, path: str, body: bytes) -> Reply:
    """Serve one request: 2xx once the outcome is durable, 5xx only for what a repetition can cure."""
    handler = ROUTES.get(path.rstrip("/"))
    if handler is None:
        return Reply(404, f"there is no {path}; there are {', '.join(ROUTES)}")
    try:
        outcome = str(handler(ports, body))
    except (Invalid, Unstorable) as problem:
        log.error("%s", problem, extra={"path": path})
        return Reply(200, str(problem))  # it will never be valid, however often it is repeated
    except (Unreadable, Conflict) as problem:
        log.warning("%s; to be delivered again", problem, extra={"path": path})
        return Reply(500, str(problem))
    log.debug("%s: %s", path, outcome, extra={"path": path, "outcome": outcome})
    return Reply(200, outcome)


def serve(path: str, body: bytes, trace: str = "") -> Reply:
    """The same with the ports of this process; ``trace`` is the request's X-Cloud-Trace-Context."""
    log_as_json()
    try:
        ports, project = default_ports(), Environment(os.environ).project()
    except Invalid as problem:
        log.critical("this function is not set up: %s", problem, extra={"path": path})
        return Reply(500, str(problem))  # what was sent is kept until the setting is there
    token = TRACE.set(trace_of(trace, project))
    try:
        return handle(ports, path, body)
    finally:
        TRACE.reset(token)


@cache
def default_ports() -> Ports:
    """The ports of this process. Raises Invalid when the environment lacks a setting."""
    environment = Environment(os.environ)
    project, database = environment.project(), environment.optional("DATABASE", DATABASE)
    return Ports(
        store=FirestoreStore(clients.firestore_client(project, database)),
        capacity=_capacity(),
        timers=_timers(environment),
        checkpoints=BucketCheckpoints(lambda: clients.storage_client(project)),
        notifier=_notifier(environment),
        clock=lambda: datetime.now(UTC),
        fresh=lambda: secrets.token_hex(16),
        settings=Settings(
            project=environment.optional("TPU_PROJECT", project),
            service_account=environment.required("SERVICE_ACCOUNT", "e-mail of the account this function runs as"),
            reports_topic=environment.required("REPORTS_TOPIC", "full name of the topic that runners publish to"),
            timing=environment.timing(),
        ),
        startup_script=_startup_script,
    )


class Environment:
    """Settings by environment variable; Terraform sets them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def required(self, name: str, meaning: str) -> str:
        """A variable that must be set. Raises Invalid."""
        value = self._variables.get(name, "")
        if not value:
            raise Invalid(name, value, f"set this environment variable to {meaning}")
        return value

    def optional(self, name: str, default: str) -> str:
        """A variable that may be missing."""
        return self._variables.get(name) or default

    def project(self) -> str:
        """The project that this service itself lives in."""
        return self.required("GOOGLE_CLOUD_PROJECT", "the project this function runs in")

    def timing(self) -> Timing:
        """How often runners read and say things, as JSON in RUNNER_TIMING. Raises Invalid."""
        text = self.optional("RUNNER_TIMING", "{}")
        try:
            return from_document(msgspec.json.decode(text), Timing)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise Invalid("RUNNER_TIMING", text, 'write seconds as JSON, like {"poll": 5, "alive": 60}') from error


def _capacity() -> Capacity:
    from tpu_recovery.cloud.capacity import TpuCapacity

    return TpuCapacity(clients.tpu_client())


def _timers(environment: Environment) -> Timers:
    from tpu_recovery.cloud.timers import TaskTimers

    return TaskTimers(
        clients.tasks_client(),
        timers_queue=environment.required("TIMERS_QUEUE", "full name of the queue `timers`"),
        creates_queue=environment.required("CREATES_QUEUE", "full name of the queue `creates`"),
        url=environment.required("SERVICE_URL", "this function's own run.app URL"),
        invoker=environment.required("TIMER_INVOKER", "e-mail of the account that timers call this function as"),
    )


def _notifier(environment: Environment) -> Notifier:
    from tpu_recovery.cloud.notify import TopicNotifier

    topic = environment.required("NOTIFICATIONS_TOPIC", "full name of the topic for notices to people")
    return TopicNotifier(clients.publisher_client, topic)


def _startup_script() -> str:
    from tpu_recovery.vm.bundle import startup_script

    return startup_script()
