"""The Cloud Tasks server: the queues behind gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import grpc
from google.cloud import tasks_v2
from google.protobuf import empty_pb2

from tpu_recovery.local import rpc
from tpu_recovery.local.deliver import Poster
from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.schedule import Clock, Schedule
from tpu_recovery.local.served import Message, handlers, page
from tpu_recovery.local.tasks import rules
from tpu_recovery.local.tasks.queue import Queue

SERVICE = "google.cloud.tasks.v2.CloudTasks"
QUEUE_TOMBSTONE_SECONDS = 3 * 86_400


class TasksServer:
    """Cloud Tasks on loopback: ``TPU_RECOVERY_TASKS_HOST=127.0.0.1:{port}``.

    Everything is in memory. ``tombstone_seconds``: how long the name of a task that was done or deleted stays taken;
    published is "up to 24 hours". Not served, and refused as UNIMPLEMENTED: App Engine targets, OAuth tokens,
    updates, purge, run, batches, and routing or retry settings of a single task. A queue neither dozes after 30 idle
    days nor slows down as a whole when handlers answer 429 or 503, and Retry-After is not read.
    """

    def __init__(self, clock: Clock = time.time, tombstone_seconds: float = 86_400) -> None:
        self.port = 0
        self._clock = clock
        self._tombstone_seconds = tombstone_seconds
        self._poster = Poster()
        self._schedule = Schedule(clock, name="tasks")
        self._grpc: grpc.Server | None = None
        self._lock = threading.Lock()
        self._queues: dict[str, Queue] = {}
        self._deleted: dict[str, float] = {}

    def start(self, port: int = 0) -> int:
        """Serve; port 0 takes a free one. Returns the port."""
        calls = rpc.calls_of(
            "google.cloud.tasks_v2.services.cloud_tasks.transports.grpc", "CloudTasksGrpcTransport", SERVICE
        )
        self._schedule.start()
        self._grpc, self.port = rpc.serve({SERVICE: handlers(calls, self._calls())}, port=port)
        return self.port

    def stop(self) -> None:
        """Stop serving and dispatching. A dispatch that is under way is not waited for."""
        if self._grpc:
            self._grpc.stop(None).wait()
        self._schedule.stop()
        self._poster.close()

    def tick(self) -> None:
        """Notice at once that the clock was moved."""
        self._schedule.tick()

    def wait_idle(self, timeout: float, *, within: float = 0.0) -> bool:
        """Wait until no task is being dispatched or due; False when that took more than ``timeout`` real seconds.

        With ``within``, tasks and retries due in the next so many seconds are waited for as well (``math.inf``: all).
        What a paused queue holds back is not waited for.
        """
        return self._schedule.wait_idle(timeout, within=within)

    def fire_now(self) -> None:
        """Make every pending task due now. Its queue's state and limits hold as ever."""
        for queue in self._found(""):
            queue.fire_now()

    def _calls(self) -> dict[str, Callable[[Message], Message]]:
        return {
            "CreateQueue": self._create_queue,
            "GetQueue": lambda request: self._queue(request.name).settings,
            "ListQueues": self._list_queues,
            "PauseQueue": self._pause_queue,
            "ResumeQueue": self._resume_queue,
            "DeleteQueue": self._delete_queue,
            "CreateTask": self._create_task,
            "GetTask": self._get_task,
            "ListTasks": self._list_tasks,
            "DeleteTask": self._delete_task,
        }

    def _queue(self, name: str) -> Queue:
        queue = self._queues.get(name)
        if queue is None:
            raise rules.queue_not_found()
        return queue

    def _queue_of(self, task: str) -> Queue:
        return self._queue(task.partition("/tasks/")[0])

    def _found(self, parent: str) -> list[Queue]:
        with self._lock:
            return [queue for name, queue in sorted(self._queues.items()) if name.startswith(parent)]

    def _create_queue(self, request: Message) -> Message:
        settings = rules.queue_with_defaults(request.parent, request.queue)
        with self._lock:
            if settings.name in self._queues:
                raise Refusal(grpc.StatusCode.ALREADY_EXISTS, "Queue already exists")
            if self._clock() < self._deleted.get(settings.name, float("-inf")) + QUEUE_TOMBSTONE_SECONDS:
                raise Refusal(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    "The queue cannot be created because a queue with this name existed too recently.",
                )
            self._queues[settings.name] = Queue(
                settings,
                clock=self._clock,
                schedule=self._schedule,
                post=self._poster,
                tombstone_seconds=self._tombstone_seconds,
            )
        return settings

    def _list_queues(self, request: Message) -> Message:
        if request.filter:
            raise Refusal(grpc.StatusCode.UNIMPLEMENTED, "the local stack does not serve ListQueuesRequest.filter")
        settings = [queue.settings for queue in self._found(f"{request.parent}/queues/")]
        queues, token = page(settings, request.page_size, request.page_token)
        return tasks_v2.ListQueuesResponse.pb()(queues=queues, next_page_token=token)

    def _pause_queue(self, request: Message) -> Message:
        queue = self._queue(request.name)
        queue.pause()
        return queue.settings

    def _resume_queue(self, request: Message) -> Message:
        queue = self._queue(request.name)
        queue.resume()
        return queue.settings

    def _delete_queue(self, request: Message) -> Message:
        with self._lock:
            self._queue(request.name).close()
            del self._queues[request.name]
            self._deleted[request.name] = self._clock()
        return empty_pb2.Empty()

    def _create_task(self, request: Message) -> Message:
        return self._queue(request.parent).create(request.task, request.response_view)

    def _get_task(self, request: Message) -> Message:
        return self._queue_of(request.name).task(request.name, request.response_view)

    def _list_tasks(self, request: Message) -> Message:
        pending = self._queue(request.parent).tasks(request.response_view)
        tasks, token = page(pending, request.page_size, request.page_token)
        return tasks_v2.ListTasksResponse.pb()(tasks=tasks, next_page_token=token)

    def _delete_task(self, request: Message) -> Message:
        self._queue_of(request.name).delete(request.name)
        return empty_pb2.Empty()
