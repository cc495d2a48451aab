"""The two calls to Google's APIs that the runner makes, by plain HTTP."""

from __future__ import annotations

import base64
import json
import urllib.parse
import urllib.request
from http.client import HTTPResponse
from typing import Callable, Mapping, cast

_TIMEOUT = 10.0  # seconds without a byte, not for a whole download


class GoogleApi:
    """``token`` gives an access token and may raise OSError, as every call may."""

    def __init__(self, token: Callable[[], str], storage_url: str, pubsub_url: str) -> None:
        self._token = token
        self._storage_url = storage_url.rstrip("/")
        self._pubsub_url = pubsub_url.rstrip("/")

    def open_object(self, path: str) -> HTTPResponse:
        """Start reading an object, ``gs://bucket/name``. Raises OSError; urllib's HTTPError for a refusal."""
        bucket, _, name = path[len("gs://") :].partition("/")
        quoted = [urllib.parse.quote(part, safe="") for part in (bucket, name)]
        return self._open(
            urllib.request.Request("{}/storage/v1/b/{}/o/{}?alt=media".format(self._storage_url, *quoted))
        )

    def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish one message to ``projects/P/topics/T``. Raises OSError."""
        message = {"data": base64.b64encode(data).decode("ascii"), "attributes": attributes}
        request = urllib.request.Request(
            f"{self._pubsub_url}/v1/{topic}:publish",
            data=json.dumps({"messages": [message]}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with self._open(request) as response:
            response.read()

    def _open(self, request: urllib.request.Request) -> HTTPResponse:
        request.add_header("Authorization", f"Bearer {self._token()}")
        return cast("HTTPResponse", urllib.request.urlopen(request, timeout=_TIMEOUT))
