"""What the demo shows while it runs: what arrived, what was decided, what was called, what the VM did."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

_STYLES = {"demo": "bold", "platform": "magenta", "decided": "cyan", "called": "yellow", "on the VM": "green"}


class Feed:
    """Prints one line for each thing that happens, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.last = ""

    def say(self, who: str, text: str) -> None:
        """Print one line."""
        with self._lock:
            line = Text(f"{time.monotonic() - self._began:6.2f} s  ")
            line.append(f"{who:>9}  ", style=_STYLES.get(who, ""))
            line.append(text)
            self._console.print(line, soft_wrap=True)

    def entry(self, entry: dict[str, Any]) -> None:
        """A log entry of the platform, on its way through the log sink."""
        payload = entry.get("protoPayload", {})
        resource = str(payload.get("resourceName", "")).rsplit("/", 1)[-1]
        operation = entry.get("operation", {})
        part = "" if operation.get("first") and operation.get("last") else _part(operation)
        self.say("platform", f"log entry {payload.get('methodName')}{part} about {resource}")


def _part(operation: dict[str, Any]) -> str:
    if operation.get("first"):
        return " (begun)"
    return " (ended)" if operation.get("last") else ""


class Tail:
    """Follows files and lists in a thread of its own and feeds what is new."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._sources: list[Callable[[], None]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Read what is there once more, then end."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def follow_decisions(self, log: Path) -> None:
        """Decisions from the function's own log, which is one JSON line for each."""
        lines = _new_lines(log)

        def read() -> None:
            for line in lines():
                self._decision(line)

        self._sources.append(read)

    def follow_calls(self, calls: list[tuple[str, str]]) -> None:
        """Calls that arrive at the TPU API, reading ones left out."""
        seen = 0

        def read() -> None:
            nonlocal seen
            for method, name in calls[seen:]:
                seen += 1
                if not method.startswith(("Get", "List")):
                    self._feed.say("called", f"TPU API {method} {name.rsplit('/', 1)[-1]}")

        self._sources.append(read)

    def follow_vms(self, directory: Path) -> None:
        """What the runners and the programs on all VMs print."""
        readers: dict[Path, Callable[[], list[str]]] = {}

        def read() -> None:
            logs = [*directory.glob("*/console.log"), *directory.glob("*/var/log/tpu-recovery/program.log")]
            for log in sorted(logs):
                reader = readers.setdefault(log, _new_lines(log))
                worker = log.relative_to(directory).parts[0]
                for line in reader():
                    if line.strip() and ("console" in log.name or "saved" not in line):
                        self._feed.say("on the VM", f"{worker}: {line.removeprefix('tpu-recovery: ')}")

        self._sources.append(read)

    def _decision(self, line: str) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            return  # the web server's own lines are no JSON
        if "row" in record:
            actions = ", ".join(record.get("actions", []))
            then = f" → {actions}" if actions else ""
            self._feed.say("decided", f"{record['message']}{then}; phase {record['phase']}")

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            for source in self._sources:
                source()
        for source in self._sources:
            source()


def _new_lines(file: Path) -> Callable[[], list[str]]:
    """A function that gives the lines written to a file since it was called last."""
    position = 0

    def read() -> list[str]:
        nonlocal position
        if not file.exists():
            return []
        with file.open("rb") as opened:
            opened.seek(position)
            whole, newline, _rest = opened.read().rpartition(b"\n")
        position += len(whole) + len(newline)
        return whole.decode(errors="replace").splitlines()

    return read
