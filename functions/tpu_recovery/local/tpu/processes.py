"""Finding and ending all processes of a VM, whatever they have become."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_LONGEST_WAIT = 10.0  # seconds


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int
    environment: frozenset[bytes]


def kill_all(session: int, mark: str) -> None:
    """Kill every process of the session, every one with ``mark`` (NAME=value) in its environment, and all below them.

    The mark finds what has left the session, the descent what has a cleaned environment as well; only an orphan with
    both escapes. Without /proc (macOS) only the process group is killed. Raises TimeoutError when a process stays.
    """
    if not (_PROC / "self/stat").exists():
        _kill_group(session)
        return
    deadline = time.monotonic() + _LONGEST_WAIT
    while pids := find_all(session, mark):  # again: a process may have forked meanwhile
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {sorted(pids)} are still there {_LONGEST_WAIT:.0f} s after SIGKILL")
        for pid in pids:
            _kill(pid)
        time.sleep(0.005)


def find_all(session: int, mark: str) -> set[int]:
    """The living processes that :func:`kill_all` would kill; needs /proc."""
    processes = list(_living())
    found = {process.pid for process in processes if process.session == session or mark.encode() in process.environment}
    while below := {process.pid for process in processes if process.parent in found} - found:
        found |= below
    return found


def _living() -> Iterator[_Process]:
    for directory in _PROC.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            # pid (command) state parent group session ...; the command may hold spaces and brackets
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if fields[0] not in {"Z", "X"}:
            yield _Process(int(directory.name), int(fields[1]), int(fields[3]), _environment(directory))


def _environment(directory: Path) -> frozenset[bytes]:
    try:
        return frozenset((directory / "environ").read_bytes().split(b"\0"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return frozenset()  # it has ended, or belongs to somebody else


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        return
