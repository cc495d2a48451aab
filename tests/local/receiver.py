"""What the tests of Pub/Sub and Cloud Tasks deliver to, and the clock that they move."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ManualClock:
    """Stands still until it is moved. Begins on 1 December 2026."""

    now: float = 1_796_083_200.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True)
class Received:
    """One request as the handler got it. Header names are in lower case."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes
    timeout: float | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Handler:
    """A handler without a network in between: a Post that answers as the test says and remembers what it got."""

    answer: Callable[[Received], int | None] = lambda _received: 204
    requests: list[Received] = field(default_factory=list)

    def __call__(
        self, url: str, *, body: bytes, headers: Mapping[str, str], timeout: float, method: str = "POST"
    ) -> int | None:
        received = Received(url, method, {name.lower(): value for name, value in headers.items()}, body, timeout)
        self.requests.append(received)
        return self.answer(received)


class Receiver(ThreadingHTTPServer):
    """A handler behind HTTP on loopback."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _RequestHandler)
        self.answer: Callable[[Received], int] = lambda _received: 204
        self.requests: list[Received] = []
        self._arrived = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def receive(self, received: Received) -> int:
        with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()
        return self.answer(received)

    def wait_for(self, count: int) -> list[Received]:
        """The first ``count`` requests, once they are there."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, timeout=20), (
                f"{len(self.requests)} of {count} requests came"
            )
            return self.requests[:count]


class _RequestHandler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _receive(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = self.server.receive(Received(self.path, self.command, headers, body))
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        if 300 <= status < 400:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = _receive  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that is up for the length of a test."""
    receiver = Receiver()
    threading.Thread(target=receiver.serve_forever, args=(0.02,), daemon=True).start()
    yield receiver
    receiver.shutdown()
    receiver.server_close()
