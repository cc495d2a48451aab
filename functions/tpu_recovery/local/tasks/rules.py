"""What Cloud Tasks refuses, and the defaults it fills in. The refusals are in its own words where they are known."""

from __future__ import annotations

import math
import random
import re

import grpc
from google.cloud import tasks_v2

from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.served import Message, invalid, refuse_unserved, seconds

LARGEST_TASK = 1024 * 1024
LARGEST_HEADERS = 80 * 1024
LONGEST_URL = 2083
FURTHEST_SCHEDULE = 30 * 86_400
SHORTEST_DEADLINE, DEFAULT_DEADLINE, LONGEST_DEADLINE = 15, 600, 1800

_QUEUE = re.compile(r"projects/[A-Za-z0-9.:-]+/locations/[a-z0-9-]+/queues/[A-Za-z0-9-]{1,100}")
_TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,500}")

QUEUE_FIELDS = frozenset({"name", "rate_limits", "retry_config", "state"})
TASK_FIELDS = frozenset({"name", "http_request", "schedule_time", "create_time", "dispatch_deadline", "view"})
HTTP_FIELDS = frozenset({"url", "http_method", "headers", "body", "oidc_token"})

_Method = tasks_v2.HttpMethod
_WITH_BODY = frozenset({_Method.POST, _Method.PUT, _Method.PATCH})


def queue_with_defaults(parent: str, given: Message) -> Message:
    """A queue as Cloud Tasks would make it of what the caller gave; refused if Cloud Tasks would refuse it."""
    refuse_unserved(given, QUEUE_FIELDS)
    if not _QUEUE.fullmatch(given.name):
        raise invalid(
            'Queue name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>".'
        )
    if not given.name.startswith(f"{parent}/queues/"):
        raise invalid(f"{given.name} must begin with {parent}.")
    queue = tasks_v2.Queue.pb()()
    queue.CopyFrom(given)
    queue.state = tasks_v2.Queue.State.RUNNING
    _complete_rate_limits(queue.rate_limits)
    _complete_retry_config(queue.retry_config)
    return queue


def task_with_defaults(parent: str, given: Message, now: float) -> Message:
    """A task as Cloud Tasks would make it of what the caller gave; refused if Cloud Tasks would refuse it."""
    refuse_unserved(given, TASK_FIELDS)
    _check_task_name(parent, given.name)
    if given.ByteSize() > LARGEST_TASK:
        raise invalid("Task size too large")
    if given.schedule_time.ToNanoseconds() / 1e9 > now + FURTHEST_SCHEDULE:
        raise invalid(
            f"The Task.scheduleTime, {given.schedule_time.ToJsonString()}, is too far in the future. "
            "Schedule time must be no more than 720h in the future."
        )
    task = tasks_v2.Task.pb()()
    task.CopyFrom(given)
    task.name = given.name or f"{parent}/tasks/{random.randrange(10**18, 10**19)}"
    task.create_time.FromSeconds(int(now))
    if task.schedule_time.ToNanoseconds() / 1e9 < now:
        task.schedule_time.FromMicroseconds(int(now * 1e6))
    if not task.HasField("dispatch_deadline"):
        task.dispatch_deadline.FromSeconds(DEFAULT_DEADLINE)
    if not SHORTEST_DEADLINE <= seconds(task.dispatch_deadline) <= LONGEST_DEADLINE:
        raise invalid("Task.dispatchDeadline must be between [15s, 30m].")
    _complete_http_request(task.http_request)
    return task


def queue_not_found() -> Refusal:
    """The refusal of a queue that is not there, also of one that is not there yet."""
    return Refusal(
        grpc.StatusCode.NOT_FOUND,
        "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize.",
    )


def task_not_found() -> Refusal:
    """The refusal of a task that never was or has been done."""
    return Refusal(grpc.StatusCode.NOT_FOUND, "Requested entity was not found.")


def task_pending() -> Refusal:
    """The refusal of a second task of the same name."""
    return Refusal(grpc.StatusCode.ALREADY_EXISTS, "Requested entity already exists")


def task_existed() -> Refusal:
    """The refusal of the name of a task that was done or deleted a short time ago."""
    return Refusal(
        grpc.StatusCode.ALREADY_EXISTS,
        "The task cannot be created because a task with this name existed too recently. For more information about "
        "task de-duplication see https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks/"
        "create#body.request_body.FIELDS.task.",
    )


def _complete_rate_limits(limits: Message) -> None:
    if not 0 <= limits.max_dispatches_per_second <= 500:
        raise invalid(f"RateLimits.maxDispatchesPerSecond is 0 to 500, not {limits.max_dispatches_per_second:g}")
    if not 0 <= limits.max_concurrent_dispatches <= 5000:
        raise invalid(f"RateLimits.maxConcurrentDispatches is 0 to 5000, not {limits.max_concurrent_dispatches}")
    limits.max_dispatches_per_second = limits.max_dispatches_per_second or 500
    limits.max_concurrent_dispatches = limits.max_concurrent_dispatches or 1000
    # Chosen by Cloud Tasks, by no published rule: a fifth of a second's worth gives the 100 it has for the default.
    limits.max_burst_size = math.ceil(limits.max_dispatches_per_second / 5)


def _complete_retry_config(config: Message) -> None:
    if config.max_attempts < -1:
        raise invalid(f"RetryConfig.maxAttempts must be greater or equal to -1, not {config.max_attempts}")
    if config.max_doublings < 0:
        raise invalid(f"RetryConfig.maxDoublings cannot be negative, as {config.max_doublings} is")
    config.max_attempts = config.max_attempts or 100
    config.max_doublings = config.max_doublings or 16
    if not config.HasField("min_backoff"):
        config.min_backoff.FromMilliseconds(100)
    if not config.HasField("max_backoff"):
        config.max_backoff.FromSeconds(3600)
    if not 0 <= seconds(config.min_backoff) <= seconds(config.max_backoff):
        raise invalid("RetryConfig.minBackoff must be less than or equal to RetryConfig.maxBackoff.")


def _check_task_name(parent: str, name: str) -> None:
    if not name:
        return
    queue, _, task_id = name.partition("/tasks/")
    if not _QUEUE.fullmatch(queue):
        raise invalid(
            "Task name must be formatted: "
            '"projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>/tasks/<TASK_ID>"'
        )
    if queue != parent:
        raise invalid(
            f"The queue name from request ('{parent}') must be the same as "
            f"the queue name in the named task ('{queue}')."
        )
    if not _TASK_ID.fullmatch(task_id):
        raise invalid(
            f'Task ID "{task_id}" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or '
            "underscores (_). Task ID must between 1 and 500 characters."
        )


def _complete_http_request(request: Message) -> None:
    refuse_unserved(request, HTTP_FIELDS)
    if not re.match(r"https?://[^/]", request.url):
        raise invalid(f"HttpTarget.url must start with 'http://' or 'https://', not {request.url!r}")
    if len(request.url) > LONGEST_URL:
        raise invalid(f"HttpTarget.url has at most {LONGEST_URL} characters, this one has {len(request.url)}")
    if sum(len(name) + len(value) for name, value in request.headers.items()) > LARGEST_HEADERS:
        raise invalid(f"HttpRequest.headers has at most {LARGEST_HEADERS} bytes")
    request.http_method = request.http_method or _Method.POST
    if request.body and request.http_method not in _WITH_BODY:
        raise invalid(f"HttpRequest.body is for POST, PUT and PATCH, not for {_Method(request.http_method).name}")
    if request.HasField("oidc_token") and not request.oidc_token.service_account_email:
        raise invalid("HttpRequest.oidcToken.serviceAccountEmail is missing")
