"""One queue: its tasks, when they are due, and their dispatch within the queue's limits."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import partial

from google.cloud import tasks_v2

from tpu_recovery.local.deliver import Post
from tpu_recovery.local.schedule import Alarm, Clock, Schedule
from tpu_recovery.local.served import Message, seconds
from tpu_recovery.local.tasks import rules
from tpu_recovery.local.tasks.request import headers_of
from tpu_recovery.local.tasks.retry import TokenBucket, backoff, given_up


@dataclass
class Pending:
    """A task that is not done. It waits for its time (an alarm), or for its turn, or is being dispatched."""

    task: Message
    alarm: Alarm | None = None
    previous_status: int | None = None


def seen(task: Message, view: int) -> Message:
    """A copy of the task as a caller asked to see it: without its body, unless the view is FULL."""
    copy = tasks_v2.Task.pb()()
    copy.CopyFrom(task)
    copy.view = view or tasks_v2.Task.View.BASIC
    if copy.view == tasks_v2.Task.View.BASIC:
        copy.http_request.ClearField("body")
    return copy


class Queue:
    """Dispatches every task at least once, until it succeeds or its retries are used up.

    ``settings`` is the Queue message, checked and with its defaults.
    """

    def __init__(
        self, settings: Message, *, clock: Clock, schedule: Schedule, post: Post, tombstone_seconds: float
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._schedule = schedule
        self._post = post
        self._tombstone_seconds = tombstone_seconds
        self._lock = threading.RLock()
        self._tasks: dict[str, Pending] = {}
        self._gone: dict[str, float] = {}
        """When a task of that name was done or deleted: its name is not free again at once."""
        self._ready: deque[Pending] = deque()
        self._dispatching = 0
        limits = settings.rate_limits
        self._bucket = TokenBucket(limits.max_dispatches_per_second, limits.max_burst_size, clock())
        self._next_token: Alarm | None = None

    def create(self, given: Message, view: int) -> Message:
        """Add a task; refused when its name is or was lately in use, or it is not as Cloud Tasks wants it."""
        now = self._clock()
        task = rules.task_with_defaults(self.settings.name, given, now)
        with self._lock:
            if task.name in self._tasks:
                raise rules.task_pending()
            if now < self._gone.get(task.name, float("-inf")) + self._tombstone_seconds:
                raise rules.task_existed()
            pending = self._tasks[task.name] = Pending(task)
            self._wait_until(pending, task.schedule_time.ToMicroseconds() / 1e6)
            return seen(task, view)

    def task(self, name: str, view: int) -> Message:
        """The pending task of that full name."""
        with self._lock:
            return seen(self._pending(name).task, view)

    def tasks(self, view: int) -> list[Message]:
        """All pending tasks."""
        with self._lock:
            return [seen(pending.task, view) for pending in self._tasks.values()]

    def delete(self, name: str) -> None:
        """Forget a pending task. If it is being dispatched, its handler is not stopped."""
        with self._lock:
            self._remove(self._pending(name))

    def pause(self) -> None:
        """Dispatch nothing until resumed."""
        with self._lock:
            self.settings.state = tasks_v2.Queue.State.PAUSED

    def resume(self) -> None:
        """Dispatch again."""
        with self._lock:
            self.settings.state = tasks_v2.Queue.State.RUNNING
            self._dispatch_ready()

    def close(self) -> None:
        """Forget all tasks: the queue was deleted."""
        with self._lock:
            for name in list(self._tasks):
                self.delete(name)

    def fire_now(self) -> None:
        """Make every pending task due now."""
        with self._lock:
            waiting = [pending for pending in self._tasks.values() if pending.alarm]
            for pending in waiting:
                self._wait_until(pending, self._clock())

    def _pending(self, name: str) -> Pending:
        if name not in self._tasks:
            raise rules.task_not_found()
        return self._tasks[name]

    def _wait_until(self, pending: Pending, due: float) -> None:
        self._stop_waiting(pending)
        pending.task.schedule_time.FromMicroseconds(int(due * 1e6))
        if due > self._clock():
            pending.alarm = self._schedule.at(due, partial(self._come_due, pending))
        else:
            self._ready.append(pending)
            self._dispatch_ready()

    def _stop_waiting(self, pending: Pending) -> None:
        if pending.alarm:
            self._schedule.cancel(pending.alarm)
            pending.alarm = None

    def _come_due(self, pending: Pending) -> None:
        with self._lock:
            if pending.alarm is None or pending.alarm.due > self._clock():
                return  # deleted, fired or even tried again while the alarm was going off
            pending.alarm = None
            self._ready.append(pending)
            self._dispatch_ready()

    def _dispatch_ready(self) -> None:
        """Dispatch what is due, as far as the queue's state and limits allow."""
        running = self.settings.state == tasks_v2.Queue.State.RUNNING
        most = self.settings.rate_limits.max_concurrent_dispatches
        while running and self._ready and self._dispatching < most and self._next_token is None:
            now = self._clock()
            wait = self._bucket.take(now)
            if wait:
                self._next_token = self._schedule.at(now + wait, self._token_came)
                return
            self._dispatching += 1
            self._schedule.soon(partial(self._dispatch, self._ready.popleft()))

    def _token_came(self) -> None:
        with self._lock:
            self._next_token = None
            self._dispatch_ready()

    def _dispatch(self, pending: Pending) -> None:
        task = pending.task
        with self._lock:
            headers = headers_of(task, pending.previous_status)
            now = round(self._clock() * 1e6)
            task.dispatch_count += 1
            if not task.HasField("first_attempt"):
                task.first_attempt.dispatch_time.FromMicroseconds(now)
            task.last_attempt.Clear()
            task.last_attempt.schedule_time.CopyFrom(task.schedule_time)
            task.last_attempt.dispatch_time.FromMicroseconds(now)
        status = self._post(
            task.http_request.url,
            method=tasks_v2.HttpMethod(task.http_request.http_method).name,
            body=task.http_request.body,
            headers=headers,
            timeout=seconds(task.dispatch_deadline),
        )
        with self._lock:
            self._dispatching -= 1
            if self._tasks.get(task.name) is pending:
                self._settle(pending, status)
            self._dispatch_ready()

    def _settle(self, pending: Pending, status: int | None) -> None:
        task, now = pending.task, self._clock()
        pending.previous_status = status
        if status is not None:
            task.response_count += 1
            task.last_attempt.response_time.FromMicroseconds(round(now * 1e6))
        config = self.settings.retry_config
        if (status is not None and 200 <= status < 300) or given_up(
            config,
            attempts=task.dispatch_count,
            created=task.create_time.seconds,
            first_attempt=task.first_attempt.dispatch_time.ToMicroseconds() / 1e6,
            now=now,
        ):
            self._remove(pending)
        else:
            self._wait_until(pending, now + backoff(config, task.dispatch_count))

    def _remove(self, pending: Pending) -> None:
        self._stop_waiting(pending)
        del self._tasks[pending.task.name]
        self._gone[pending.task.name] = self._clock()
        if pending in self._ready:
            self._ready.remove(pending)
