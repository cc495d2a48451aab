"""A command in a session of its own, so that everything it starts can be stopped together."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence

from tpu_recovery.vm.log import log

_PROC = Path("/proc")
_KILL_PATIENCE = 10.0  # seconds for killed processes to vanish; one stuck in the kernel never does
_POLL = 0.1  # seconds

Wait = Callable[[float], None]
"""Waits up to that many seconds; may end early."""


class Session:
    """A started command. Its id goes to a record at once, for a runner that comes after a crash of this one."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        output: Path,
        record: Path,
        boot: str,
        wait: Wait,
    ) -> None:
        """Start it. Raises OSError when it cannot be started, for example without the directory."""
        output.parent.mkdir(parents=True, exist_ok=True)
        record.parent.mkdir(parents=True, exist_ok=True)
        with output.open("ab") as out:
            self._leader = subprocess.Popen(
                list(arguments),
                cwd=str(directory),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._record = record
        self._wait = wait
        self._terminated = False
        stat = _stat(self._leader.pid)
        record.write_text(json.dumps({"session": self._leader.pid, "start": stat and stat.start, "boot": boot}))

    def exit_code(self) -> Optional[int]:
        """The command's exit code, as a shell would give it (143 for SIGTERM); None while it runs."""
        code = self._leader.poll()
        return 128 - code if code is not None and code < 0 else code

    def terminate(self) -> None:
        """Ask everything in the session to end, once: some programs take a second SIGTERM for "at once"."""
        if not self._terminated:
            self._terminated = True
            _signal(self._leader.pid, signal.SIGTERM)

    def stop(self, grace: float) -> Optional[int]:
        """End the session: SIGTERM, ``grace`` seconds for all of it to end, SIGKILL. Returns the exit code.

        The command itself may be a shell that ends at once while the program below it still saves a checkpoint, so
        the session counts, not the command.
        """
        self.terminate()
        _end(self._leader.pid, grace, self._wait, lambda: self._leader.poll() is not None)
        self.forget()
        return self.exit_code()

    def forget(self) -> None:
        """Remove the record: what the command has put into the background may stay."""
        with contextlib.suppress(FileNotFoundError):
            self._record.unlink()


def clear_leftovers(record: Path, libtpu_lock: Path, boot: str, grace: float, wait: Wait) -> None:
    """End what an earlier runner started and left behind, and only then remove libtpu's stale lock file."""
    try:
        left = json.loads(record.read_text())
        session, start, left_boot = int(left["session"]), left["start"], left["boot"]
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError) as error:
        log(f"{record} is damaged, nothing to clear: {error!r}")
    else:
        leader = _stat(session)
        # The number may belong to somebody else by now: after a boot, or when its leader began at another time.
        if left_boot == boot and (leader is None or leader.start == start) and _members(session):
            log(f"ending session {session}, which an earlier runner left behind")
            _signal(session, signal.SIGTERM)
            _end(session, grace, wait, lambda: True)
        record.unlink()
    with contextlib.suppress(FileNotFoundError):
        libtpu_lock.unlink()


def as_user(arguments: Sequence[str], user_id: int, group_id: int) -> List[str]:
    """The command run by another user. setpriv is part of util-linux and replaces itself, so signals arrive."""
    return ["setpriv", f"--reuid={user_id}", f"--regid={group_id}", "--init-groups", "--", *arguments]


class _Stat(NamedTuple):
    state: str
    session: int
    start: int


def _end(session: int, grace: float, wait: Wait, leader_ended: Callable[[], bool]) -> None:
    if not _wait_until_empty(session, grace, wait, leader_ended):
        log(f"session {session} did not end within {grace} s after SIGTERM: killing it")
        _signal(session, signal.SIGKILL)
        if not _wait_until_empty(session, _KILL_PATIENCE, wait, leader_ended):
            log(f"session {session} still has processes after SIGKILL: {_members(session)}")


def _wait_until_empty(session: int, seconds: float, wait: Wait, leader_ended: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (leader_ended() and not _members(session)):
        if time.monotonic() >= deadline:
            return False
        wait(_POLL)
    return True


def _signal(session: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, number)
    for process in _members(session):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process) != session:  # it made a process group of its own
                os.kill(process, number)


def _members(session: int) -> List[int]:
    if not _PROC.is_dir():
        return []
    processes = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    stats = [(process, _stat(process)) for process in processes]
    return [process for process, stat in stats if stat and stat.session == session and stat.state not in "ZX"]


def _stat(process: int) -> Optional[_Stat]:
    try:
        text = (_PROC / str(process) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): the second field is the program's name in parentheses and may hold anything.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(state=fields[0], session=int(fields[3]), start=int(fields[19]))
