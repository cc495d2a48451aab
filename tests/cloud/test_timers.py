from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.cloud import tasks_v2
from tests.cloud.served import FAILURES, TASKS, ServedApi
from tests.local.receiver import ManualClock, Receiver, receiving

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.timers import TaskTimers
from tpu_recovery.errors import Unreadable
from tpu_recovery.local.tasks import TasksServer

LOCATION = "projects/demo/locations/us-east5"
TIMERS, CREATES = f"{LOCATION}/queues/timers", f"{LOCATION}/queues/creates"
CALLER = "caller@demo.iam.gserviceaccount.com"


def task_timers(url: str = "https://recover.example") -> TaskTimers:
    return TaskTimers(clients.tasks_client(), timers_queue=TIMERS, creates_queue=CREATES, url=url, invoker=CALLER)


class Queues:
    """The two queues with a clock that the test moves, and what they call."""

    def __init__(self, server: TasksServer, clock: ManualClock, receiver: Receiver) -> None:
        self.server, self.clock, self.receiver = server, clock, receiver
        self.client = clients.tasks_client()
        for name in (TIMERS, CREATES):
            self.client.create_queue(request={"parent": LOCATION, "queue": {"name": name}})

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now, UTC)

    def tasks(self, queue: str) -> list[Any]:
        view = tasks_v2.Task.View.FULL
        return list(self.client.list_tasks(request={"parent": queue, "response_view": view}))


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    clock = ManualClock()
    server = TasksServer(clock)
    monkeypatch.setenv(clients.TASKS_HOST, f"127.0.0.1:{server.start()}")
    with receiving() as receiver:
        yield Queues(server, clock, receiver)
        server.stop()


def test_a_timer_calls_the_service_when_it_is_due_with_its_own_identity(queues: Queues) -> None:
    timers = task_timers(f"{queues.receiver.url}/")
    timers.call_later("/timer", {"job": "train", "seq": 7}, key="k1", at=queues.now + timedelta(seconds=60))
    queues.clock.move(59)
    assert queues.server.wait_idle(10)
    assert queues.receiver.requests == []
    queues.clock.move(1)
    queues.server.tick()
    (call,) = queues.receiver.wait_for(1)
    assert (call.method, call.url, call.json) == ("POST", "/timer", {"job": "train", "seq": 7})
    assert call.headers["content-type"] == "application/json"
    assert call.headers["authorization"].startswith("Bearer ")


def test_every_task_says_who_calls_and_for_whom_and_how_long_it_may_take(queues: Queues) -> None:
    timers, at = task_timers(), queues.now + timedelta(seconds=60, microseconds=123456)
    timers.call_later("/timer", {"job": "train"}, key="k1", at=at)
    timers.queue_create({"job": "train"}, key="k2", at=at)
    (timer,), (create,) = queues.tasks(TIMERS), queues.tasks(CREATES)
    assert (timer.name, create.name) == (f"{TIMERS}/tasks/k1", f"{CREATES}/tasks/k2")
    assert timer.http_request.url == "https://recover.example/timer"
    assert create.http_request.url == "https://recover.example/create"
    for task in (timer, create):
        token = task.http_request.oidc_token
        assert (token.service_account_email, token.audience) == (CALLER, "https://recover.example")
        assert task.dispatch_deadline == timedelta(seconds=90)
        assert task.schedule_time == at


def test_the_same_timer_again_is_success_and_fires_once(queues: Queues) -> None:
    timers = task_timers(queues.receiver.url)
    for _ in range(3):
        timers.call_later("/timer", {"job": "train"}, key="k1", at=queues.now)
        assert queues.server.wait_idle(10)
    assert len(queues.receiver.wait_for(1)) == len(queues.receiver.requests) == 1


def test_a_queue_that_is_not_there_is_tried_again_later(queues: Queues) -> None:
    queues.client.delete_queue(name=TIMERS)
    with pytest.raises(Unreadable, match="Cloud Tasks does not take the task"):
        task_timers().call_later("/timer", {}, key="k1", at=queues.now)


LASTING = [
    code
    for code in FAILURES
    if code not in (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
]


@pytest.mark.parametrize("code", LASTING)
def test_every_refusal_is_unreadable(serve: Callable[[ServedApi, str], None], code: grpc.StatusCode) -> None:
    api = ServedApi(*TASKS)
    api.answers = [code]
    serve(api, clients.TASKS_HOST)
    with pytest.raises(Unreadable, match="because the test says so"):
        task_timers().queue_create({}, key="k1", at=datetime.now(UTC))
    assert api.calls == ["CreateTask"]


def test_a_service_that_is_away_for_a_moment_is_asked_again(serve: Callable[[ServedApi, str], None]) -> None:
    api = ServedApi(*TASKS)
    api.answers = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.ALREADY_EXISTS]
    serve(api, clients.TASKS_HOST)
    task_timers().call_later("/timer", {}, key="k1", at=datetime.now(UTC))
    assert api.calls == ["CreateTask"] * 3
