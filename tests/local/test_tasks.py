from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.cloud import tasks_v2
from tests.local.receiver import Handler, ManualClock, Received, Receiver, receiving

from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.schedule import Schedule
from tpu_recovery.local.served import Message, bare
from tpu_recovery.local.tasks import TasksServer
from tpu_recovery.local.tasks.queue import Queue
from tpu_recovery.local.tasks.retry import TokenBucket, backoff, given_up
from tpu_recovery.local.tasks.rules import queue_with_defaults, task_with_defaults

LOCATION = "projects/demo/locations/europe-west4"
TIMERS = f"{LOCATION}/queues/timers"
URL = "https://recover.example/timer"
BASIC = 1


def queue_settings(**settings: Any) -> Message:
    return queue_with_defaults(LOCATION, bare(tasks_v2.Queue({"name": TIMERS, **settings})))


def retry_config(**settings: Any) -> Message:
    return queue_settings(retry_config=settings).retry_config


def task(name: str = "", **fields: Any) -> Message:
    full_name = f"{TIMERS}/tasks/{name}" if name else ""
    return bare(tasks_v2.Task({"name": full_name, "http_request": {"url": URL}, **fields}))


@dataclass
class Bench:
    """A queue with a clock that stands still and a handler without a network."""

    settings: dict[str, Any] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    handler: Handler = field(default_factory=Handler)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.clock, name="test")
        self.queue = Queue(
            queue_settings(**self.settings),
            clock=self.clock,
            schedule=self.schedule,
            post=self.handler,
            tombstone_seconds=86_400,
        )
        self.schedule.start()

    def create(self, name: str = "", *, later: float = 0, **fields: Any) -> Message:
        scheduled = {"seconds": int(self.clock.now + later)}
        return self.queue.create(task(name, schedule_time=scheduled, **fields), BASIC)

    def dispatches(self) -> int:
        """How often the handler has been called, once nothing more is due."""
        assert self.schedule.wait_idle(10)
        return len(self.handler.requests)

    def dispatches_after(self, seconds: float) -> int:
        self.clock.move(seconds)
        return self.dispatches()


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(getattr(request, "param", {}))
    yield bench
    bench.schedule.stop()


class TestBackoff:
    @pytest.mark.parametrize(
        ("shortest", "longest", "doublings", "expected"),
        [
            (10, 300, 3, [10, 20, 40, 80, 160, 240, 300, 300]),  # the example in the API's documentation
            (1, 3600, 16, [1, 2, 4, 8, 16, 32]),
            (5, 5, 16, [5, 5, 5]),
            (2, 7, 1, [2, 4, 7, 7]),
        ],
    )
    def test_it_doubles_then_grows_by_the_last_step(
        self, shortest: int, longest: int, doublings: int, expected: list[float]
    ) -> None:
        config = retry_config(
            min_backoff={"seconds": shortest}, max_backoff={"seconds": longest}, max_doublings=doublings
        )
        assert [backoff(config, failures) for failures in range(1, len(expected) + 1)] == expected

    def test_thousands_of_failures_are_no_problem(self) -> None:
        assert backoff(retry_config(), 100_000) == 3600

    @pytest.mark.parametrize(
        ("max_attempts", "max_duration", "attempts", "age", "expected"),
        [
            (3, 0, 2, 1e6, False),
            (3, 0, 3, 0, True),
            (3, 600, 3, 599, False),
            (3, 600, 2, 600, False),
            (3, 600, 3, 600, True),
            (-1, 600, 1000, 599, False),
            (-1, 600, 1, 600, True),
            (-1, 0, 1000, 30 * 86_400, False),
            (-1, 0, 1, 31 * 86_400, True),
        ],
    )
    def test_a_task_is_given_up_when_all_limits_that_are_set_are_reached(
        self, max_attempts: int, max_duration: int, attempts: int, age: float, expected: bool
    ) -> None:
        config = retry_config(max_attempts=max_attempts, max_retry_duration={"seconds": max_duration})
        assert given_up(config, attempts=attempts, created=0, first_attempt=0, now=age) is expected


class TestTokenBucket:
    def test_a_full_bucket_lets_a_burst_through_and_then_its_rate(self) -> None:
        bucket = TokenBucket(rate=10, size=2, now=100)
        assert [bucket.take(100), bucket.take(100)] == [0, 0]
        assert bucket.take(100) == pytest.approx(0.1)
        assert bucket.take(100.1) == 0
        assert bucket.take(100.1) > 0

    def test_a_long_pause_earns_no_more_than_a_burst(self) -> None:
        bucket = TokenBucket(rate=10, size=2, now=0)
        assert [bucket.take(3600) == 0 for _ in range(3)] == [True, True, False]

    def test_a_clock_that_goes_back_costs_nothing(self) -> None:
        bucket = TokenBucket(rate=1, size=1, now=100)
        assert bucket.take(50) == 0
        assert bucket.take(50) == pytest.approx(1)


class TestTimes:
    def test_a_task_fires_at_its_time_and_not_before(self, bench: Bench) -> None:
        bench.create(later=1200)
        assert [bench.dispatches(), bench.dispatches_after(1199), bench.dispatches_after(1)] == [0, 0, 1]

    def test_a_failed_task_follows_the_retry_settings(self) -> None:
        bench = Bench({"retry_config": {"min_backoff": {"seconds": 1}, "max_attempts": 4}})
        bench.handler.answer = lambda _request: 500
        bench.create()
        assert [bench.dispatches()] + [bench.dispatches_after(seconds) for seconds in (1, 2, 4, 8)] == [1, 2, 3, 4, 4]
        assert bench.queue.tasks(BASIC) == []
        bench.schedule.stop()

    @pytest.mark.parametrize(("status", "again"), [(200, 1), (204, 1), (299, 1), (302, 2), (404, 2), (None, 2)])
    def test_any_2xx_is_success_and_nothing_else(self, bench: Bench, status: int | None, again: int) -> None:
        bench.handler.answer = lambda _request: status
        bench.create()
        assert bench.dispatches() == 1
        assert bench.dispatches_after(0.1) == again

    def test_the_handler_has_as_long_as_the_dispatch_deadline(self, bench: Bench) -> None:
        bench.create(dispatch_deadline={"seconds": 90})
        bench.create()
        assert bench.dispatches() == 2
        assert sorted(request.timeout or 0 for request in bench.handler.requests) == [90, 600]

    def test_all_tasks_can_be_made_due_now(self, bench: Bench) -> None:
        bench.create("soon", later=10)
        bench.create("later", later=1e6)
        assert bench.dispatches() == 0
        bench.queue.fire_now()
        assert bench.dispatches() == 2
        assert bench.dispatches_after(1e6) == 2

    def test_a_deleted_task_never_fires(self, bench: Bench) -> None:
        created = bench.create(later=10)
        bench.queue.delete(created.name)
        assert bench.dispatches_after(10) == 0

    def test_a_task_that_is_deleted_while_it_runs_is_not_tried_again(self, bench: Bench) -> None:
        def delete_and_fail(_request: Received) -> int:
            bench.queue.delete(f"{TIMERS}/tasks/running")
            return 500

        bench.handler.answer = delete_and_fail
        bench.create("running")
        assert [bench.dispatches(), bench.dispatches_after(3600)] == [1, 1]

    def test_a_deleted_queue_fires_nothing(self, bench: Bench) -> None:
        bench.create(later=10)
        bench.queue.close()
        assert bench.dispatches_after(10) == 0

    def test_attempts_are_counted(self, bench: Bench) -> None:
        answers = iter([None, 500, 500])
        bench.handler.answer = lambda _request: next(answers)
        created = bench.create()
        for _ in range(3):
            bench.dispatches_after(60)
        headers = bench.handler.requests[2].headers
        assert headers["x-cloudtasks-taskretrycount"] == "2"
        assert headers["x-cloudtasks-taskexecutioncount"] == "1"
        pending = bench.queue.task(created.name, BASIC)
        assert (pending.dispatch_count, pending.response_count) == (3, 2)


class TestNames:
    def test_a_name_is_free_again_when_its_tombstone_is_gone(self, bench: Bench) -> None:
        bench.create("once")
        assert bench.dispatches() == 1
        bench.clock.move(86_399)
        with pytest.raises(Refusal, match="existed too recently"):
            bench.create("once")
        bench.clock.move(1)
        bench.create("once")
        assert bench.dispatches() == 2


class TestLimits:
    @pytest.mark.parametrize("bench", [{"rate_limits": {"max_dispatches_per_second": 1}}], indirect=True)
    def test_a_queue_dispatches_no_faster_than_its_rate(self, bench: Bench) -> None:
        for _ in range(5):
            bench.create()
        assert [bench.dispatches()] + [bench.dispatches_after(1) for _ in range(5)] == [1, 2, 3, 4, 5, 5]

    @pytest.mark.parametrize(("rate", "burst"), [(500, 100), (10, 2), (1, 1), (0.5, 1)])
    def test_a_queue_says_its_burst(self, rate: float, burst: int) -> None:
        assert queue_settings(rate_limits={"max_dispatches_per_second": rate}).rate_limits.max_burst_size == burst

    @pytest.mark.parametrize("bench", [{"rate_limits": {"max_concurrent_dispatches": 2}}], indirect=True)
    def test_no_more_than_so_many_are_dispatched_at_once(self, bench: Bench) -> None:
        at_work = threading.Semaphore(0)
        go_on = threading.Semaphore(0)
        busy: list[int] = []
        most: list[int] = []

        def work(_request: Received) -> int:
            busy.append(1)
            most.append(len(busy))
            at_work.release()
            go_on.acquire()
            busy.pop()
            return 200

        bench.handler.answer = work
        for _ in range(5):
            bench.create()
        for _ in range(5):
            assert at_work.acquire(timeout=10)
            go_on.release()
        assert bench.dispatches() == 5
        assert max(most) <= 2


class TestHeaders:
    def test_a_task_cannot_set_what_cloud_tasks_sets(self, bench: Bench) -> None:
        own = {"X-CloudTasks-TaskName": "forged", "User-Agent": "me", "X-Google-Secret": "x", "X-Job": "train"}
        bench.create("real", http_request={"url": URL, "headers": own})
        assert bench.dispatches() == 1
        headers = bench.handler.requests[0].headers
        assert headers["x-cloudtasks-taskname"] == "real"
        assert headers["user-agent"] == "Google-Cloud-Tasks"
        assert headers["x-job"] == "train"
        assert "x-google-secret" not in headers

    def test_without_an_identity_there_is_no_token(self, bench: Bench) -> None:
        bench.create()
        assert bench.dispatches() == 1
        assert "authorization" not in bench.handler.requests[0].headers


class TestRefusals:
    @pytest.mark.parametrize(
        "fields",
        [
            {"app_engine_http_request": {"relative_uri": "/"}},
            {"retry_config": {"max_attempts": 1}},
            {"http_request": {"url": URL, "oauth_token": {"service_account_email": "a@b"}}},
        ],
    )
    def test_what_is_not_served_is_refused_loudly(self, fields: dict[str, Any]) -> None:
        with pytest.raises(Refusal, match="does not serve") as refused:
            task_with_defaults(TIMERS, task(**fields), now=0)
        assert refused.value.code is grpc.StatusCode.UNIMPLEMENTED

    def test_an_identity_needs_an_account(self) -> None:
        with pytest.raises(Refusal, match="serviceAccountEmail"):
            task_with_defaults(TIMERS, task(http_request={"url": URL, "oidc_token": {"audience": URL}}), now=0)

    def test_queue_settings_that_are_not_served_are_refused_loudly(self) -> None:
        with pytest.raises(Refusal, match="stackdriver_logging_config"):
            queue_settings(stackdriver_logging_config={"sampling_ratio": 1.0})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


class TestServer:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def server(self, clock: ManualClock) -> Iterator[TasksServer]:
        server = TasksServer(clock, tombstone_seconds=3600)
        server.start()
        yield server
        server.stop()

    @pytest.fixture
    def channel(self, server: TasksServer) -> Iterator[grpc.Channel]:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield channel

    def call(self, channel: grpc.Channel, method: str, request: Any) -> bytes:
        send = channel.unary_unary(f"/google.cloud.tasks.v2.CloudTasks/{method}")
        answer: bytes = send(bare(request).SerializeToString(), timeout=10)
        return answer

    def test_tests_move_its_clock(
        self, server: TasksServer, clock: ManualClock, channel: grpc.Channel, receiver: Receiver
    ) -> None:
        queue = tasks_v2.Queue(name=TIMERS)
        self.call(channel, "CreateQueue", tasks_v2.CreateQueueRequest(parent=LOCATION, queue=queue))
        for later in (60, 3600):
            scheduled = {"seconds": int(clock.now + later)}
            due = tasks_v2.Task({"http_request": {"url": receiver.url}, "schedule_time": scheduled})
            self.call(channel, "CreateTask", tasks_v2.CreateTaskRequest(parent=TIMERS, task=due))
        clock.move(60)
        server.tick()
        assert server.wait_idle(10)
        assert len(receiver.requests) == 1
        server.fire_now()
        assert server.wait_idle(10)
        assert len(receiver.requests) == 2

    @pytest.mark.parametrize("method", ["UpdateQueue", "PurgeQueue", "RunTask", "BatchCreateTasks"])
    def test_other_calls_are_refused_loudly(self, channel: grpc.Channel, method: str) -> None:
        with pytest.raises(grpc.RpcError, match=f"does not serve {method}") as refused:
            self.call(channel, method, tasks_v2.Queue())
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
