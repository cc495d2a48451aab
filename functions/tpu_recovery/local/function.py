"""The function `recover` in a process of its own, served by functions-framework as Cloud Functions does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "main.py"
READY_SECONDS = 30.0
STOP_SECONDS = 10.0


class FunctionDidNotStart(Exception):
    """The function's process ended or did not answer; the message holds what it printed."""


class FunctionProcess:
    """Started on a free loopback port; its log goes to a file in the given directory."""

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        self._environment = dict(environment)
        self.log = directory / "function.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> str:
        """Start it and wait until it answers; gives its URL, the same every time. Raises FunctionDidNotStart."""
        self.url = self.url or f"http://127.0.0.1:{_free_port()}"
        port = self.url.rsplit(":", 1)[1]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            *(sys.executable, "-m", "functions_framework"),
            *("--target", "recover", "--source", str(SOURCE), "--host", "127.0.0.1", "--port", port),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**self._environment, "SERVICE_URL": self.url, "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_it_answers()
        return self.url

    def stop(self) -> None:
        """Stop it and its workers."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)  # gunicorn then does not wait for idle connections to close
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process = process
            self.kill()

    def kill(self) -> None:
        """Kill it and its workers in the middle of whatever they do."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def post(self, path: str, body: bytes = b"") -> str:
        """POST to the function. Raises urllib.error.URLError, also for an answer that is no success."""
        request = urllib.request.Request(f"{self.url}{path}", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=90) as response:
            text: str = response.read().decode()
            return text

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                self.post("/")
            except urllib.error.HTTPError as answer:
                if answer.code == HTTPStatus.NOT_FOUND:
                    return  # it serves; there is nothing at /
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self.stop()
        raise FunctionDidNotStart(f"the function did not answer within {READY_SECONDS:.0f} s:\n{self.log.read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
