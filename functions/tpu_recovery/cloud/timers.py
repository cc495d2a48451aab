"""The Timers port on Cloud Tasks: two queues, one for timers, one whose dispatch rate bounds creations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from google.api_core import exceptions

from tpu_recovery.cloud.clients import AGAIN, CALL_SECONDS
from tpu_recovery.errors import Unreadable

if TYPE_CHECKING:
    from google.cloud import tasks_v2

DISPATCH_DEADLINE = 90
"""Seconds; above the 60 s that an invocation may take."""

CREATE_PATH = "/create"


class TaskTimers:
    """Calls of this service by itself, with its own identity."""

    def __init__(
        self, client: tasks_v2.CloudTasksClient, *, timers_queue: str, creates_queue: str, url: str, invoker: str
    ) -> None:
        self._client = client
        self._timers_queue = timers_queue
        self._creates_queue = creates_queue
        self._url = url.rstrip("/")
        self._invoker = invoker

    def call_later(self, path: str, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """See Timers.call_later."""
        self._create(self._timers_queue, path, body, key=key, at=at)

    def queue_create(self, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """See Timers.queue_create."""
        self._create(self._creates_queue, CREATE_PATH, body, key=key, at=at)

    def _create(self, queue: str, path: str, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        task = {
            "name": f"{queue}/tasks/{key}",
            "schedule_time": at,
            "dispatch_deadline": {"seconds": DISPATCH_DEADLINE},
            "http_request": {
                "http_method": "POST",
                "url": f"{self._url}{path}",
                "headers": {"Content-Type": "application/json"},
                "body": msgspec.json.encode(body),
                "oidc_token": {"service_account_email": self._invoker, "audience": self._url},
            },
        }
        try:
            self._client.create_task(request={"parent": queue, "task": task}, retry=AGAIN, timeout=CALL_SECONDS)
        except exceptions.AlreadyExists:
            return  # the key names this very timer, so it is set, or has fired already
        except exceptions.GoogleAPIError as error:
            # NOT_FOUND too: a queue that dozed off after 30 idle days wakes up within minutes
            raise Unreadable(f"Cloud Tasks does not take the task: {error}") from error
