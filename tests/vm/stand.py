"""A test stand for one worker: what surrounds it on the platform, and the real startup script run by a real shell."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

Json = dict[str, Any]

PATIENCE = 20.0  # seconds until a test gives up waiting
SECRET = "s3cret-of-this-generation"
HOSTNAME = "t1v-n-0a1b2c3d-w-0"
_BASE = "/computeMetadata/v1/"


class Platform:
    """The metadata server and Pub/Sub's publish call on one port. ``silent``: neither answers anything useful."""

    def __init__(self) -> None:
        self.silent = False
        self.pubsub_fails = 0
        self.values: dict[str, str] = {
            "instance/name": HOSTNAME,
            "instance/attributes/agent-worker-number": "0",
            "instance/service-accounts/default/token": '{"access_token": "ya29", "expires_in": 3600}',
        }
        self.said: list[Json] = []
        """Reports written to the guest attribute `report`, oldest first."""
        self.alive: list[Json] = []
        self.published: list[Json] = []
        self.changed = threading.Condition()
        platform = self

        class Handler(_Handler):
            stand = platform

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def hand_off(self, handoff: Json | str) -> None:
        """Write the node metadata key that the runner reads."""
        with self.changed:
            text = handoff if isinstance(handoff, str) else json.dumps(handoff)
            self.values["instance/attributes/tpu-recovery"] = text
            self.changed.notify_all()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    stand: Platform

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        name = parts.path.removeprefix(_BASE)
        with self.stand.changed:
            if "wait_for_change" in query:
                self.stand.changed.wait_for(
                    lambda: _etag(self.stand.values.get(name)) != query["last_etag"], float(query["timeout_sec"])
                )
            value = self.stand.values.get(name)
        if self.stand.silent or self.headers["Metadata-Flavor"] != "Google":
            self._answer(503 if self.stand.silent else 403, "")
        elif value is None:
            self._answer(404, "")
        else:
            self._answer(200, value, _etag(value))

    def do_PUT(self) -> None:
        report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.stand.silent or self.headers["Metadata-Flavor"] != "Google":
            self._answer(503, "")
            return
        key = self.path.removeprefix(f"{_BASE}instance/guest-attributes/tpu-recovery/")
        {"report": self.stand.said, "alive": self.stand.alive}[key].append(report)
        self._answer(200, "")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.stand.silent or self.stand.pubsub_fails > 0:
            self.stand.pubsub_fails -= 1
            self._answer(503, "")
            return
        assert self.path == "/v1/projects/p/topics/reports:publish"
        assert self.headers["Authorization"] == "Bearer ya29"
        for message in request["messages"]:
            self.stand.published.append({**json.loads(base64.b64decode(message["data"])), **message["attributes"]})
        self._answer(200, "{}")

    def _answer(self, status: int, text: str, etag: str = "") -> None:
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


def _etag(value: str | None) -> str:
    return hashlib.sha256((value or "").encode()).hexdigest()[:16]


class Worker:
    """One VM below a directory. What is asked for with ``until`` is waited for."""

    def __init__(self, root: Path, platform: Platform, script: Path, storage_url: str) -> None:
        self.root = root
        self.platform = platform
        self.checkpoints = root / "disk"
        self._script = script
        self._storage_url = storage_url
        self._runner: subprocess.Popen[bytes] | None = None
        (root / "tmp").mkdir(parents=True)
        self.new_boot("boot-1")

    def new_boot(self, name: str) -> None:
        boot_id = self.root / "proc/sys/kernel/random/boot_id"
        boot_id.parent.mkdir(parents=True, exist_ok=True)
        boot_id.write_text(name + "\n")

    def boot(self, python: str = sys.executable) -> None:
        """Run the startup script, as the guest agent does."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PYTHON": python,
            "GCE_METADATA_HOST": self.platform.address,
            "TPU_RECOVERY_PUBSUB_URL": f"http://{self.platform.address}",
            "STORAGE_EMULATOR_HOST": self._storage_url,
            "TPU_RECOVERY_ROOT": str(self.root),
            "TPU_RECOVERY_SUPERVISOR": "foreground",
        }
        with (self.root / "console").open("ab") as console:
            self._runner = subprocess.Popen(
                ["/bin/sh", str(self._script)], env=environment, stdout=console, stderr=console, start_new_session=True
            )

    def sigterm(self) -> int:
        """SIGTERM to the runner, as at a preemption; returns its exit code once it has ended."""
        assert self._runner is not None
        self._runner.send_signal(signal.SIGTERM)
        return self._runner.wait(PATIENCE)

    def boot_again_meanwhile(self) -> int:
        """Run the startup script while a runner is at work; returns its exit code."""
        first = self._runner
        self.boot()
        assert self._runner is not None
        second, self._runner = self._runner, first
        return second.wait(PATIENCE)

    def kill_runner(self) -> None:
        """The runner itself crashes; what it started goes on."""
        assert self._runner is not None
        self._runner.kill()
        self._runner.wait()

    def close(self) -> None:
        if self._runner is not None and self._runner.poll() is None:
            self.sigterm()
        record = self.root / "var/lib/tpu-recovery/session.json"
        if record.exists():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(record.read_text())["session"], signal.SIGKILL)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError(f"waited in vain for {what}\nsaid: {self.kinds()}\nconsole:\n{self.console}")

    def until_said(self, kind: str, count: int = 1) -> Json:
        """The latest report of that kind once there are so many."""

        def found() -> Json | None:
            reports = [report for report in self.platform.said if report["kind"] == kind]
            return reports[-1] if len(reports) >= count else None

        report: Json = self.until(found, f"report {kind}, {count} times")
        return report

    def until_logged(self, words: str) -> None:
        self.until(lambda: words in self.console, f"{words!r} in the log")

    def until_file(self, name: str) -> str:
        path = self.root / name
        text: str = self.until(lambda: path.exists() and path.read_text(), f"file {name}")
        return text

    def kinds(self) -> list[str]:
        return [report["kind"] for report in self.platform.said]

    @property
    def console(self) -> str:
        return (self.root / "console").read_text()

    @property
    def output(self) -> str:
        return (self.root / "var/log/tpu-recovery/program.log").read_text()

    def save_step(self, name: str) -> None:
        """A checkpoint on the VM's disk; complete unless its name is a temporary one."""
        (self.checkpoints / name / "state").mkdir(parents=True)

    def handoff(self, command: str, launch: int = 1, **changes: Any) -> Json:
        """A hand-off with the program on the VM already, checkpoints on its disk, and quick timing."""
        return {
            "version": 1,
            "job": "train",
            "uid": "k3v",
            "generation": 2,
            "launch": launch,
            "launch_before": None,
            "wanted": "run",
            "token": SECRET,
            "program": {"none": True},
            "startup_script": None,
            "setup": None,
            "command": command,
            "user": None,
            "working_directory": None,
            "environment": {},
            "checkpoints": {"path": str(self.checkpoints), "format": "orbax", "seen_step": None},
            "resume": None,
            "reports": {"topic": "projects/p/topics/reports"},
            "deadlines": {"startup_script": 10, "setup": 10, "stop": 5},
            "crashes": {"limit": 3, "first_backoff": 0.02, "longest_backoff": 0.05},
            "timing": {"poll": 0.05, "alive": 0.1},
            **changes,
        }


class Bucket:
    """One bucket of the local object store, by plain HTTP."""

    def __init__(self, storage_url: str, name: str) -> None:
        self.path = f"gs://{name}"
        self._upload = f"{storage_url}/upload/storage/v1/b/{name}/o?uploadType=media&name="
        body = json.dumps({"name": name}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{storage_url}/storage/v1/b", body, headers)).close()

    def put(self, name: str, content: bytes = b"x") -> None:
        urllib.request.urlopen(urllib.request.Request(self._upload + quote(name, safe=""), content)).close()

    def put_archive(self, name: str, files: Mapping[str, str]) -> Json:
        """Upload a program; returns the hand-off's field for it."""
        content = archive(files)
        self.put(name, content)
        return {"archive": f"{self.path}/{name}", "sha256": hashlib.sha256(content).hexdigest()}


def archive(files: Mapping[str, str]) -> bytes:
    """A .tar.gz of text files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


TRAINS = 'echo 41 > "$TPU_RECOVERY_PROGRESS"; while :; do sleep 0.05; done'
"""A program that makes a step and goes on until it is stopped."""
