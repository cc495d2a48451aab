"""The service behind HTTP: which request goes where, what it is answered with, what is written to the log."""

from __future__ import annotations

import base64
import json
import logging
import os
import time
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from google.cloud import tasks_v2
from google.cloud.tpu_v2alpha1 import Node
from google.pubsub_v1 import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from tpu_recovery import service
from tpu_recovery.cloud import clients
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.errors import Unstorable
from tpu_recovery.local.bench.running import start_running
from tpu_recovery.local.stack import DATABASE, PROJECT, PUSHES, REGION, Stack, StackSettings
from tpu_recovery.local.tpu import TpuSettings
from tpu_recovery.local.tpu.audit import node_event
from tpu_recovery.model.codec import from_document
from tpu_recovery.model.handoff import Timing
from tpu_recovery.model.messages import Report, ReportKind
from tpu_recovery.model.state import JobState
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.records import InboxEntry, InboxStatus

SETTINGS = StackSettings(tpu=TpuSettings(create_seconds=0, delete_seconds=0), sweep_every=0, machines=False)
URL = "https://recover.example"
NO_JOB = {"job": "nobody", "uid": "u", "generation": 1, "attempt": 1}
WHERE_NOBODY_LISTENS = "127.0.0.1:1"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(SETTINGS) as stack:
        yield stack


@pytest.fixture
def environment(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The settings of a function, in a database of its own; no client of another test is left."""
    settings = {**stack.environment, **stack._function_settings(), "SERVICE_URL": URL}
    for name, value in {**settings, "DATABASE": f"test-{uuid.uuid4().hex[:8]}"}.items():
        monkeypatch.setenv(name, value)
    yield monkeypatch
    clients.forget()
    service.default_ports.cache_clear()


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    logger = logging.getLogger("tpu_recovery")
    before = (logger.handlers, logger.level, logger.propagate)
    logger.handlers = []
    yield Lines(capsys)
    logger.handlers, logger.level, logger.propagate = before


class Lines:
    """What the service has written to standard output, one dictionary for each line."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]


def push(document: object) -> bytes:
    data = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return json.dumps({"message": {"data": base64.b64encode(data).decode(), "messageId": "1"}}).encode()


ENTRY = {
    "logName": "projects/demo-project/logs/cloudaudit.googleapis.com%2Fsystem_event",
    "timestamp": "2026-12-01T15:00:00Z",
    "insertId": "x",
    "protoPayload": {
        "methodName": "tpu.nodes.terminate",
        "resourceName": "projects/demo-project/locations/us-east5-b/nodes/nobody-g1",
    },
}
REPORT = {
    "version": 1, "job": "nobody", "uid": "u", "generation": 1, "launch": 1, "worker": 0, "boot": "b", "sequence": 1,
    "kind": "started", "at": "2026-12-01T15:00:00Z", "token": "guessed-secret",
}  # fmt: skip
COMMAND = {"id": "c", "job": "nobody", "kind": "apply", "at": "2026-12-01T15:00:00Z"}

REQUESTS = {
    "/event": (push(ENTRY), "ignored"),
    "/report": (push(REPORT), "ignored"),
    "/command": (push(COMMAND), "ignored"),
    "/timer": (b'{"job": "nobody", "uid": "u", "seq": 1}', "the job is gone"),
    "/create": (msgspec.json.encode(NO_JOB), "not wanted any more"),
    "/sweep": (b"", "looked at 0 of 0 jobs, removed 0 nodes"),
}


@pytest.mark.usefixtures("environment")
def test_what_the_store_will_never_take_is_acknowledged_and_told_as_an_error(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_ports: Ports, _body: bytes) -> str:
        raise Unstorable("the document would be too large")

    monkeypatch.setitem(service.ROUTES, "/sweep", refuse)
    assert service.serve("/sweep", b"").status == 200
    assert [(line["severity"], line["message"]) for line in lines.read()] == [
        ("ERROR", "the document would be too large")
    ]


@pytest.mark.usefixtures("environment")
class TestRoutes:
    def test_these_are_all_of_them(self) -> None:
        assert set(REQUESTS) == set(service.ROUTES)

    @pytest.mark.parametrize("slash", ["", "/"])
    @pytest.mark.parametrize("path", REQUESTS)
    def test_a_request_is_answered_by_what_its_path_names(self, path: str, slash: str) -> None:
        body, outcome = REQUESTS[path]
        assert service.serve(path + slash, body) == service.Reply(200, outcome)

    @pytest.mark.parametrize("path", ["", "/", "/events", "/event/x", "/EVENT", "/favicon.ico"])
    def test_another_path_is_not_found_and_told_what_there_is(self, path: str) -> None:
        reply = service.serve(path, b"")
        assert reply.status == 404
        assert reply.text == f"there is no {path}; there are {', '.join(service.ROUTES)}"

    def test_a_timer_may_do_nothing(self) -> None:
        assert service.serve("/timer", b'{"nothing": true}') == service.Reply(200, "timers arrive")


@pytest.mark.usefixtures("environment")
class TestWhatIsNotValid:
    @pytest.mark.parametrize("path", PUSHES.values())
    @pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"message": 7}', push(b"no json"), push([1])])
    def test_a_push_is_acknowledged_and_kept_with_the_reason(self, path: str, body: bytes) -> None:
        assert service.serve(path, body) == service.Reply(200, "ignored")
        store = FirestoreStore(service.default_ports().store._client)  # type: ignore[attr-defined]
        (stored,) = store.find("inbox")
        entry = from_document(dict(stored.fields), InboxEntry)
        assert entry.status is InboxStatus.IGNORED
        assert entry.reason

    @pytest.mark.parametrize("path", ["/timer", "/create"])
    @pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"seq": "x", "generation": "x"}'])
    def test_a_task_is_not_repeated_and_answered_with_what_is_wrong(self, path: str, body: bytes, lines: Lines) -> None:
        reply = service.serve(path, body)
        assert reply.status == 200
        assert "task: " in reply.text
        (line,) = lines.read()
        assert (line["severity"], line["message"], line["path"]) == ("ERROR", reply.text, path)


class TestWhatDoesNotAnswer:
    @pytest.mark.parametrize("path", set(REQUESTS) - {"/sweep"})
    def test_without_the_store_a_request_is_to_come_again(
        self, environment: pytest.MonkeyPatch, lines: Lines, path: str
    ) -> None:
        # The servers of the other services do not serve Firestore, and say so at once.
        environment.setenv("FIRESTORE_EMULATOR_HOST", os.environ[clients.TASKS_HOST])
        reply = service.serve(path, REQUESTS[path][0])
        assert reply.status == 500
        assert "Firestore does not answer" in reply.text
        (line,) = lines.read()
        assert line["severity"] == "WARNING"
        assert line["message"].endswith("; to be delivered again")

    def test_without_the_queue_a_sweep_is_to_come_again(self, environment: pytest.MonkeyPatch) -> None:
        environment.setenv("TIMERS_QUEUE", f"projects/{PROJECT}/locations/{REGION}/queues/nobody-made-this")
        reply = service.serve("/sweep", b"")
        assert reply.status == 500
        assert "Cloud Tasks does not take the task" in reply.text


REQUIRED = (
    "GOOGLE_CLOUD_PROJECT", "SERVICE_ACCOUNT", "REPORTS_TOPIC", "NOTIFICATIONS_TOPIC", "TIMERS_QUEUE", "CREATES_QUEUE",
    "SERVICE_URL", "TIMER_INVOKER",
)  # fmt: skip


class TestSettings:
    @pytest.mark.parametrize("name", REQUIRED)
    @pytest.mark.parametrize("value", [None, ""])
    def test_a_missing_one_is_named_and_nothing_is_acknowledged(
        self, environment: pytest.MonkeyPatch, lines: Lines, name: str, value: str | None
    ) -> None:
        if value is None:
            environment.delenv(name)
        else:
            environment.setenv(name, value)
        reply = service.serve("/timer", b'{"nothing": true}')
        assert reply.status == 500
        assert reply.text.startswith(f"{name}: '' is not valid; set this environment variable to ")
        (line,) = lines.read()
        assert (line["severity"], line["message"]) == ("CRITICAL", f"this function is not set up: {reply.text}")

    def test_once_it_is_there_requests_are_served(self, environment: pytest.MonkeyPatch) -> None:
        topic = os.environ["REPORTS_TOPIC"]
        environment.delenv("REPORTS_TOPIC")
        assert service.serve("/sweep", b"").status == 500
        environment.setenv("REPORTS_TOPIC", topic)
        assert service.serve("/sweep", b"").status == 200

    def test_the_runner_s_timing_may_be_set(self, environment: pytest.MonkeyPatch) -> None:
        environment.setenv("RUNNER_TIMING", '{"poll": 1.5}')
        assert service.default_ports().settings.timing == Timing(poll=1.5, alive=60)

    @pytest.mark.parametrize("text", ["no json", '{"poll": "often"}', "[]"])
    def test_a_timing_that_is_none_is_named(self, environment: pytest.MonkeyPatch, text: str) -> None:
        environment.setenv("RUNNER_TIMING", text)
        reply = service.serve("/sweep", b"")
        assert reply.status == 500
        assert reply.text.startswith("RUNNER_TIMING: ")
        assert 'write seconds as JSON, like {"poll": 5, "alive": 60}' in reply.text

    def test_tpus_may_be_in_another_project_than_the_function(
        self, environment: pytest.MonkeyPatch, lines: Lines
    ) -> None:
        environment.setenv("TPU_PROJECT", "tpus")
        assert service.default_ports().settings.project == "tpus"
        service.serve("/timer", b"no json", trace="abc/1;o=1")
        (line,) = lines.read()
        assert line["logging.googleapis.com/trace"] == f"projects/{PROJECT}/traces/abc"


class TestIdentity:
    def test_every_push_says_who_calls(self, stack: Stack, environment: pytest.MonkeyPatch) -> None:
        channel = clients.publisher_client().transport.grpc_channel
        subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        for topic, path in PUSHES.items():
            push_config = subscriber.get_subscription(
                subscription=f"projects/{PROJECT}/subscriptions/{topic}"
            ).push_config
            assert push_config.push_endpoint == f"{stack.function.url}{path}"
            assert push_config.oidc_token.service_account_email
            assert push_config.oidc_token.audience == stack.function.url

    @pytest.mark.usefixtures("environment")
    def test_every_task_says_who_calls(self) -> None:
        client = clients.tasks_client()
        for queue in ("timers", "creates"):
            name = f"projects/{PROJECT}/locations/{REGION}/queues/{queue}"
            client.pause_queue(name=name)
            timers = service.default_ports().timers
            now = service.default_ports().clock()
            timers.call_later("/timer", {"nothing": True}, key=uuid.uuid4().hex, at=now)
            timers.queue_create(NO_JOB, key=uuid.uuid4().hex, at=now)
            view = tasks_v2.Task.View.FULL
            tasks = list(client.list_tasks(request={"parent": name, "response_view": view}))
            assert tasks
            assert all(task.http_request.oidc_token.service_account_email for task in tasks)
            assert all(task.http_request.oidc_token.audience == URL for task in tasks)


class TestLog:
    """What the function's own process writes, as Cloud Logging would get it."""

    @pytest.fixture
    def job(self, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobState]:
        for name, value in stack.environment.items():
            monkeypatch.setenv(name, value)
        (state,) = start_running(stack, [f"train-{uuid.uuid4().hex[:6]}"])
        assert stack.pubsub.wait_idle(20)  # the entries about the node's creation have been looked at,
        assert stack.tasks.wait_idle(20)  # and nobody holds the job's lease any more
        yield state
        clients.forget()

    @staticmethod
    def report(job: JobState, token: str, kind: ReportKind, sequence: int) -> Report:
        return Report(
            job=job.job, uid=job.uid, generation=1, launch=1, worker=0, boot="boot", sequence=sequence, kind=kind,
            at=job.since, token=token, exit_code=1, reason="crash-loop", detail="last lines",
        )  # fmt: skip

    @staticmethod
    def post(stack: Stack, path: str, body: bytes, trace: str) -> None:
        headers = {"X-Cloud-Trace-Context": f"{trace}/1;o=1"}
        request = urllib.request.Request(f"{stack.function.url}{path}", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200

    @staticmethod
    def lines(stack: Stack, trace: str) -> list[dict[str, Any]]:
        """The lines of one request, and a check that no line of ours is anything but JSON."""
        text = stack.function.log.read_text()
        ours = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert not [line for line in text.splitlines() if "tpu_recovery" in line and not line.startswith("{")]
        name = f"projects/{PROJECT}/traces/{trace}"
        return [line for line in ours if line.get("logging.googleapis.com/trace") == name]

    def test_a_look_says_which_job_what_was_decided_and_for_which_request(self, stack: Stack, job: JobState) -> None:
        trace = uuid.uuid4().hex
        node = job.slices[0].name
        stack.tpu.set_state(node, state=Node.State.PREEMPTED)
        self.post(stack, "/event", push(node_event("tpu.nodes.terminate", node, time.time())), trace)
        (line,) = self.lines(stack, trace)
        assert (line["severity"], line["job"], line["generation"]) == ("INFO", job.job, 2)
        assert line["incident"] == f"{job.uid}-1"
        assert (line["phase"], line["actions"]) == ("RECOVERING", ["DeleteNode", "QueueCreate"])
        assert line["message"]
        assert job.token not in stack.function.log.read_text()

    def test_a_report_with_a_wrong_token_is_kept_and_its_token_is_nowhere_in_the_log(
        self, stack: Stack, job: JobState
    ) -> None:
        trace = uuid.uuid4().hex
        for sequence, kind in enumerate(ReportKind, 100):
            self.post(stack, "/report", push(self.report(job, "guessed-secret", kind, sequence)), trace)
        self.post(stack, "/report", push({**REPORT, "job": job.job, "kind": "no such kind"}), trace)
        self.post(stack, "/report", push({**REPORT, "job": job.job, "uid": "of another"}), trace)
        assert stack.tasks.wait_idle(20)  # a look that found another one under way is made up for
        store = FirestoreStore(clients.firestore_client(PROJECT, DATABASE))
        found = store.find("inbox", ("job", "==", job.job), ("kind", "==", "report"))
        entries = [from_document(dict(one.fields), InboxEntry) for one in found]
        assert {entry.status for entry in entries} == {InboxStatus.IGNORED}
        assert {entry.reason for entry in entries} == {"its token is not the one of this generation"}
        assert len(entries) == len(ReportKind)
        text = stack.function.log.read_text()
        assert self.lines(stack, trace)
        assert "guessed-secret" not in text
        assert job.token not in text
