"""What the service relies on of Cloud Tasks, through the real client."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport
from tests.local.receiver import Receiver, receiving

from tpu_recovery.local.deliver import claims_of
from tpu_recovery.local.tasks import TasksServer

pytestmark = pytest.mark.contract

LOCATION = "projects/demo/locations/europe-west4"
TIMERS = f"{LOCATION}/queues/timers"


@pytest.fixture(params=["embedded"])
def client() -> Iterator[tasks_v2.CloudTasksClient]:
    server = TasksServer()
    channel = grpc.insecure_channel(f"127.0.0.1:{server.start()}")
    client = tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))
    quick = tasks_v2.RetryConfig(min_backoff=dt.timedelta(milliseconds=10))
    client.create_queue(parent=LOCATION, queue=tasks_v2.Queue(name=TIMERS, retry_config=quick))
    yield client
    channel.close()
    server.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def task_to(receiver: Receiver, *, name: str = "", later: float = 0, **fields: Any) -> tasks_v2.Task:
    """A task for a receiver, due in ``later`` seconds."""
    return tasks_v2.Task(
        {
            "name": f"{TIMERS}/tasks/{name}" if name else "",
            "http_request": {"url": f"{receiver.url}/timer"},
            "schedule_time": dt.datetime.fromtimestamp(time.time() + later, dt.UTC),
        }
        | fields
    )


class TestDispatch:
    def test_a_task_calls_its_handler(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        task = task_to(receiver, name="wake-train-1")
        task.http_request.body = b'{"job": "train"}'
        task.http_request.headers = {"Content-Type": "application/json"}
        client.create_task(parent=TIMERS, task=task)
        [request] = receiver.wait_for(1)
        assert (request.method, request.url, request.json) == ("POST", "/timer", {"job": "train"})
        assert request.headers["content-type"] == "application/json"
        assert request.headers["user-agent"] == "Google-Cloud-Tasks"
        assert request.headers["x-cloudtasks-queuename"] == "timers"
        assert request.headers["x-cloudtasks-taskname"] == "wake-train-1"
        assert request.headers["x-cloudtasks-taskretrycount"] == "0"
        assert float(request.headers["x-cloudtasks-tasketa"]) <= time.time()

    def test_a_task_calls_with_its_identity(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        task = task_to(receiver)
        task.http_request.oidc_token = tasks_v2.OidcToken(service_account_email="timers@demo.iam.gserviceaccount.com")
        client.create_task(parent=TIMERS, task=task)
        [request] = receiver.wait_for(1)
        claims = claims_of(request.headers["authorization"])
        assert claims["email"] == "timers@demo.iam.gserviceaccount.com"
        assert claims["aud"] == f"{receiver.url}/timer"

    def test_a_task_waits_for_its_time(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        client.create_task(parent=TIMERS, task=task_to(receiver, name="later", later=0.3))
        client.create_task(parent=TIMERS, task=task_to(receiver, name="now"))
        names = [request.headers["x-cloudtasks-taskname"] for request in receiver.wait_for(2)]
        assert names == ["now", "later"]

    def test_a_failed_task_is_tried_again(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        receiver.answer = lambda _request: 500 if len(receiver.requests) < 3 else 200
        client.create_task(parent=TIMERS, task=task_to(receiver))
        counts = [request.headers["x-cloudtasks-taskretrycount"] for request in receiver.wait_for(3)]
        assert counts == ["0", "1", "2"]
        assert receiver.requests[1].headers["x-cloudtasks-taskpreviousresponse"] == "500"

    def test_a_paused_queue_holds_its_tasks(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        assert client.pause_queue(name=TIMERS).state == tasks_v2.Queue.State.PAUSED
        client.create_task(parent=TIMERS, task=task_to(receiver))
        assert len(list(client.list_tasks(parent=TIMERS))) == 1
        assert not receiver.requests
        assert client.resume_queue(name=TIMERS).state == tasks_v2.Queue.State.RUNNING
        receiver.wait_for(1)

    def test_a_deleted_task_does_not_fire(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        client.create_task(parent=TIMERS, task=task_to(receiver, name="never", later=0.2))
        client.delete_task(name=f"{TIMERS}/tasks/never")
        client.create_task(parent=TIMERS, task=task_to(receiver, name="after", later=0.4))
        receiver.wait_for(1)
        assert [request.headers["x-cloudtasks-taskname"] for request in receiver.requests] == ["after"]


class TestNames:
    def test_a_pending_name_is_taken(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        client.create_task(parent=TIMERS, task=task_to(receiver, name="once", later=60))
        with pytest.raises(AlreadyExists, match="Requested entity already exists"):
            client.create_task(parent=TIMERS, task=task_to(receiver, name="once", later=90))

    def test_a_deleted_name_stays_taken(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        client.create_task(parent=TIMERS, task=task_to(receiver, name="once", later=60))
        client.delete_task(name=f"{TIMERS}/tasks/once")
        with pytest.raises(AlreadyExists, match="existed too recently"):
            client.create_task(parent=TIMERS, task=task_to(receiver, name="once", later=60))

    def test_unnamed_tasks_get_different_names(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        names = {client.create_task(parent=TIMERS, task=task_to(receiver, later=60)).name for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith(f"{TIMERS}/tasks/") for name in names)

    @pytest.mark.parametrize("task_id", ["with.dot", "a/b", "x" * 501, "ü"])
    def test_a_bad_id_is_refused(self, client: tasks_v2.CloudTasksClient, receiver: Receiver, task_id: str) -> None:
        with pytest.raises(InvalidArgument):
            client.create_task(parent=TIMERS, task=task_to(receiver, name=task_id))

    def test_a_task_of_another_queue_is_refused(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        task = task_to(receiver)
        task.name = f"{LOCATION}/queues/creates/tasks/x"
        with pytest.raises(InvalidArgument, match="must be the same"):
            client.create_task(parent=TIMERS, task=task)


class TestRefusals:
    def test_an_unknown_queue_is_not_found(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        with pytest.raises(NotFound, match="Queue does not exist"):
            client.create_task(parent=f"{LOCATION}/queues/none", task=task_to(receiver))

    def test_an_unknown_task_is_not_found(self, client: tasks_v2.CloudTasksClient) -> None:
        with pytest.raises(NotFound):
            client.get_task(name=f"{TIMERS}/tasks/none")
        with pytest.raises(NotFound):
            client.delete_task(name=f"{TIMERS}/tasks/none")

    @pytest.mark.parametrize(
        ("fields", "because"),
        [
            ({"later": 31 * 86_400}, "too far in the future"),
            ({"dispatch_deadline": dt.timedelta(seconds=14)}, "dispatchDeadline"),
            ({"dispatch_deadline": dt.timedelta(minutes=31)}, "dispatchDeadline"),
            ({"http_request": {"url": "ftp://example.com"}}, "must start with"),
            ({"http_request": {"url": "http://example.com/" + "x" * 2083}}, "at most 2083"),
            ({"http_request": {"url": "http://example.com", "body": b"x" * 1024 * 1024}}, "Task size too large"),
            ({"http_request": {"url": "http://example.com", "http_method": "GET", "body": b"x"}}, "not for GET"),
            ({"http_request": {"url": "http://example.com", "headers": {"A": "x" * 81_920}}}, "headers"),
        ],
    )
    def test_a_bad_task_is_refused(
        self, client: tasks_v2.CloudTasksClient, receiver: Receiver, fields: dict[str, Any], because: str
    ) -> None:
        with pytest.raises(InvalidArgument, match=because):
            client.create_task(parent=TIMERS, task=task_to(receiver, **fields))


class TestQueues:
    def test_a_queue_says_its_defaults(self, client: tasks_v2.CloudTasksClient) -> None:
        queue = client.get_queue(name=TIMERS)
        assert queue.state == tasks_v2.Queue.State.RUNNING
        assert queue.rate_limits.max_dispatches_per_second == 500
        assert queue.rate_limits.max_concurrent_dispatches == 1000
        assert queue.retry_config.max_attempts == 100
        assert queue.retry_config.max_doublings == 16

    def test_queues_are_listed(self, client: tasks_v2.CloudTasksClient) -> None:
        client.create_queue(parent=LOCATION, queue=tasks_v2.Queue(name=f"{LOCATION}/queues/creates"))
        assert [queue.name for queue in client.list_queues(parent=LOCATION)] == [f"{LOCATION}/queues/creates", TIMERS]

    def test_a_name_is_given_once(self, client: tasks_v2.CloudTasksClient) -> None:
        with pytest.raises(AlreadyExists):
            client.create_queue(parent=LOCATION, queue=tasks_v2.Queue(name=TIMERS))

    def test_a_deleted_queue_leaves_its_name_taken(self, client: tasks_v2.CloudTasksClient) -> None:
        client.delete_queue(name=TIMERS)
        with pytest.raises(NotFound):
            client.get_queue(name=TIMERS)
        with pytest.raises(FailedPrecondition):
            client.create_queue(parent=LOCATION, queue=tasks_v2.Queue(name=TIMERS))

    @pytest.mark.parametrize(
        "settings",
        [
            {"name": f"{LOCATION}/queues/with_underscore"},
            {"name": "projects/demo/locations/us-central1/queues/elsewhere"},
            {"rate_limits": {"max_dispatches_per_second": 501}},
            {"rate_limits": {"max_concurrent_dispatches": 5001}},
            {"retry_config": {"max_attempts": -2}},
            {"retry_config": {"max_doublings": -1}},
            {"retry_config": {"min_backoff": {"seconds": 10}, "max_backoff": {"seconds": 9}}},
        ],
    )
    def test_a_bad_queue_is_refused(self, client: tasks_v2.CloudTasksClient, settings: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument):
            client.create_queue(parent=LOCATION, queue=tasks_v2.Queue({"name": f"{LOCATION}/queues/other"} | settings))


class TestViews:
    def test_the_body_is_shown_only_in_full(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        task = task_to(receiver, name="secret", later=60)
        task.http_request.body = b"secret"
        created = client.create_task(parent=TIMERS, task=task)
        full = client.get_task(request={"name": created.name, "response_view": "FULL"})
        assert (created.http_request.body, full.http_request.body) == (b"", b"secret")

    def test_a_list_comes_in_pages(self, client: tasks_v2.CloudTasksClient, receiver: Receiver) -> None:
        for number in range(5):
            client.create_task(parent=TIMERS, task=task_to(receiver, name=f"task-{number}", later=60))
        listed = client.list_tasks(request={"parent": TIMERS, "page_size": 2})
        assert [task.name.rsplit("-", 1)[1] for task in listed] == ["0", "1", "2", "3", "4"]
