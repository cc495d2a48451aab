"""The HTTP headers with which Cloud Tasks calls a handler."""

from __future__ import annotations

from tpu_recovery.local.deliver import bearer
from tpu_recovery.local.served import Message

REPLACED = ("host", "content-length", "user-agent", "x-google-", "x-appengine-", "x-cloudtasks-")
"""Beginnings of header names that Cloud Tasks sets itself: a task's own are dropped."""


def headers_of(task: Message, previous_status: int | None) -> dict[str, str]:
    """The headers of the task's next attempt; ``previous_status`` is what the attempt before was answered with.

    Without an audience of its own the token is for the task's URL.
    """
    request = task.http_request
    queue, _, task_id = task.name.partition("/tasks/")
    headers = {name: value for name, value in request.headers.items() if not name.lower().startswith(REPLACED)}
    headers |= {
        "User-Agent": "Google-Cloud-Tasks",
        "X-CloudTasks-QueueName": queue.rsplit("/", 1)[1],
        "X-CloudTasks-TaskName": task_id,
        "X-CloudTasks-TaskRetryCount": str(task.dispatch_count),
        "X-CloudTasks-TaskExecutionCount": str(task.response_count),
        "X-CloudTasks-TaskETA": f"{task.schedule_time.ToMicroseconds() / 1e6:.6f}",
    }
    if previous_status is not None:
        headers["X-CloudTasks-TaskPreviousResponse"] = str(previous_status)
    if request.HasField("oidc_token"):
        token = request.oidc_token
        headers["Authorization"] = bearer(token.service_account_email, token.audience or request.url)
    return headers
