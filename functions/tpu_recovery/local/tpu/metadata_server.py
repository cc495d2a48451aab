"""The metadata server of one VM: the part of it that a TPU VM's programs use here.

Paths, header and query parameters are those of Compute Engine (cloud.google.com/compute/docs/metadata). Whatever is not
there is answered with 404, as the real server does, so a program that needs more of it fails and is noticed.
"""

from __future__ import annotations

import hashlib
import math
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = "/computeMetadata/v1/"
ATTRIBUTES = "instance/attributes/"
GUEST_ATTRIBUTES = "instance/guest-attributes/"
PREEMPTED = "instance/preempted"

_FLAVOR = ("Metadata-Flavor", "Google")


class MetadataServer:
    """Serves values by path (below ``computeMetadata/v1/``) on loopback, from its construction until :meth:`stop`."""

    def __init__(
        self,
        facts: Mapping[str, str],
        attributes: Mapping[str, str],
        set_guest_attribute: Callable[[str, str, str], None],
    ) -> None:
        """``facts``: the values that stay; ``attributes``: the node's metadata.

        ``set_guest_attribute`` is called with namespace, key and value of what a program on the VM writes.
        """
        self._facts = dict(facts)
        self._attributes = dict(attributes)
        self._set_guest_attribute = set_guest_attribute
        self._guest_attributes: dict[str, str] = {}
        self._preempted = False
        self._stopped = False
        self._changed = threading.Condition()
        self._http = _HttpServer(self)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def address(self) -> str:
        """Host and port, as GCE_METADATA_HOST wants them."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    @property
    def attributes(self) -> dict[str, str]:
        """The node's metadata as the VM sees it."""
        with self._changed:
            return dict(self._attributes)

    def stop(self) -> None:
        """Serve no more; who waits for a change is cut off."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()

    def update(self, attributes: Mapping[str, str]) -> None:
        """Replace the node's metadata."""
        with self._changed:
            self._attributes = dict(attributes)
            self._changed.notify_all()

    def set_preempted(self) -> None:
        """Say that the VM is being preempted."""
        with self._changed:
            self._preempted = True
            self._changed.notify_all()

    def read(self, path: str) -> str | None:
        """The value at a path; None where there is none."""
        with self._changed:
            if path == PREEMPTED:
                return "TRUE" if self._preempted else "FALSE"
            if path.startswith(GUEST_ATTRIBUTES):
                return self._guest_attributes.get(path.removeprefix(GUEST_ATTRIBUTES))
            if path in self._facts:
                return self._facts[path]
            return self._attributes.get(path.removeprefix(ATTRIBUTES)) if path.startswith(ATTRIBUTES) else None

    def wait_for_change(self, path: str, last_etag: str | None, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until the value is not the one of ``last_etag`` (not given: the present one).

        Returns False when the server was stopped meanwhile.
        """
        with self._changed:
            known = etag_of(self.read(path)) if last_etag is None else last_etag
            self._changed.wait_for(
                lambda: self._stopped or etag_of(self.read(path)) != known,
                timeout=None if math.isinf(timeout) else timeout,
            )
            return not self._stopped

    def write_guest_attribute(self, namespace: str, key: str, value: str) -> None:
        """Set a guest attribute, here and at the platform."""
        with self._changed:
            self._guest_attributes[f"{namespace}/{key}"] = value
        self._set_guest_attribute(namespace, key, value)


def etag_of(value: str | None) -> str:
    """What stands for a value; ``0`` for none, as the real server has it for a client that knows nothing yet."""
    return "0" if value is None else hashlib.sha256(value.encode()).hexdigest()[:16]


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, metadata: MetadataServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.metadata = metadata

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a VM's programs are killed in the middle of calls
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body in one packet: two would wait 40 ms for each other on a kept connection
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Read a value, at once or when it changes."""
        path, query = self._target()
        if path is None:
            return
        if query.get("wait_for_change", "").lower() == "true":
            if self.server.metadata.read(path) is None:
                self._answer(HTTPStatus.NOT_FOUND, "not found")
                return
            try:
                timeout = float(query.get("timeout_sec", "inf"))
            except ValueError:
                self._answer(HTTPStatus.BAD_REQUEST, f"timeout_sec={query['timeout_sec']}: expected seconds")
                return
            if not self.server.metadata.wait_for_change(path, query.get("last_etag"), timeout):
                self.close_connection = True
                return
        value = self.server.metadata.read(path)
        if value is None:
            self._answer(HTTPStatus.NOT_FOUND, "not found")
        else:
            self._answer(HTTPStatus.OK, value, etag_of(value))

    def do_PUT(self) -> None:
        """Write a guest attribute."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _ = self._target()
        if path is None:
            return
        namespace, _, key = path.removeprefix(GUEST_ATTRIBUTES).partition("/")
        if not path.startswith(GUEST_ATTRIBUTES) or not namespace or not key or "/" in key:
            self._answer(HTTPStatus.NOT_FOUND, "not found")
            return
        self.server.metadata.write_guest_attribute(namespace, key, body.decode())
        self._answer(HTTPStatus.OK, "")

    def _target(self) -> tuple[str | None, dict[str, str]]:
        """Path below the root and query; the path is None when the request has been refused."""
        if self.headers.get(_FLAVOR[0]) != _FLAVOR[1]:
            self._answer(HTTPStatus.FORBIDDEN, f'Missing required header "{_FLAVOR[0]}": "{_FLAVOR[1]}"')
            return None, {}
        url = urlsplit(self.path)
        if not url.path.startswith(ROOT):
            self._answer(HTTPStatus.NOT_FOUND, "not found")
            return None, {}
        return unquote(url.path.removeprefix(ROOT)), {key: values[-1] for key, values in parse_qs(url.query).items()}

    def _answer(self, status: HTTPStatus, text: str, etag: str | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header(*_FLAVOR)
        self.send_header("Content-Type", "application/text")
        self.send_header("Content-Length", str(len(body)))
        if etag is not None:
            self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: programs poll."""
