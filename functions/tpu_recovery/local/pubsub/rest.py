"""Pub/Sub's publish call over REST: what a runner on a TPU VM, which has no client library, sends its reports with."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.pubsub_v1 import types

from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.served import Message, invalid

Publish = Callable[[str, Sequence[Message]], list[str]]
"""Publishes messages to a topic and gives their ids."""

_PATH = re.compile(r"/v1/(projects/[^/]+/topics/[^/:]+):publish")
_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}


class RestServer(ThreadingHTTPServer):
    """Answers ``POST /v1/{topic}:publish`` on loopback. Port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, port: int, publish: Publish) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.publish = publish


class _Handler(BaseHTTPRequestHandler):
    server: RestServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else headers and body, sent apart, meet the client's delayed acknowledgement

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self._answer(200, {"messageIds": self._publish(body)})
        except Refusal as refusal:
            status = _HTTP_STATUS[refusal.code]
            error = {"code": status, "message": refusal.message, "status": refusal.code.name}
            self._answer(status, {"error": error})

    def _publish(self, body: bytes) -> list[str]:
        path = _PATH.fullmatch(self.path)
        if not path:
            raise Refusal(grpc.StatusCode.UNIMPLEMENTED, f"the local stack does not serve POST {self.path}")
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            raise Refusal(grpc.StatusCode.UNAUTHENTICATED, "Request is missing required authentication credential.")
        return self.server.publish(path[1], messages_of(body))

    def _answer(self, status: int, content: object) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: a request that is refused tells its sender."""


def messages_of(body: bytes) -> list[Message]:
    """The messages in the JSON of a publish request; refused when it is not as the real API wants it."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error
    if not isinstance(request, dict) or request.keys() - {"messages"}:
        raise invalid(f"Invalid JSON payload received. The request has one field, messages; this is {request!r:.200}")
    messages = request.get("messages", [])
    if not isinstance(messages, list):
        raise invalid(f"Invalid JSON payload received. messages is a list, not {messages!r:.200}")
    return [_message(f"messages[{position}]", message) for position, message in enumerate(messages)]


def _message(where: str, message: object) -> Message:
    if not isinstance(message, dict) or message.keys() - {"data", "attributes", "orderingKey"}:
        raise invalid(f"Invalid value at '{where}': a message has data, attributes and orderingKey, not {message!r}")
    attributes = message.get("attributes", {})
    texts = attributes.items() if isinstance(attributes, dict) else [(None, attributes)]
    if not all(isinstance(text, str) for pair in texts for text in pair):
        raise invalid(f"Invalid value at '{where}.attributes': an object of strings, not {attributes!r}")
    data = message.get("data", "")
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise invalid(f"Invalid value at '{where}.data' (TYPE_BYTES): Base64 decoding failed for {data!r}") from error
    return types.PubsubMessage.pb()(
        data=decoded, attributes=attributes, ordering_key=str(message.get("orderingKey", ""))
    )
