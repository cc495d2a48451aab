"""A command in a session of its own and with a mark, so that everything it starts can be stopped together."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence

from tpu_recovery.vm.log import log

_PROC = Path("/proc")
_KILL_PATIENCE = 10.0  # seconds for killed processes to vanish; one stuck in the kernel never does
_POLL = 0.1  # seconds
_MARK = "TPU_RECOVERY_LAUNCH_MARK"
"""A variable with another value at every start. It is inherited, so it tells who belongs to a command."""

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
        mark = uuid.uuid4().hex
        with output.open("ab") as out:
            self._leader = subprocess.Popen(
                list(arguments),
                cwd=str(directory),
                env={**environment, _MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._record = record
        self._wait = wait
        self._terminated = False
        self._group = _Group(self._leader.pid, mark)
        stat = _stat(self._leader.pid)
        left = {"session": self._leader.pid, "start": stat and stat.start, "boot": boot, "mark": mark}
        try:
            record.write_text(json.dumps(left))
        except OSError:  # nobody would find it after a crash of this runner
            self._group.signal(signal.SIGKILL)
            self._leader.wait()
            raise

    def exit_code(self) -> Optional[int]:
        """The command's exit code, as a shell would give it (143 for SIGTERM); None while it runs."""
        code = self._leader.poll()
        return 128 - code if code is not None and code < 0 else code

    def terminate(self) -> None:
        """Ask everything in the session to end, once: some programs take a second SIGTERM for "at once"."""
        if not self._terminated:
            self._terminated = True
            self._group.signal(signal.SIGTERM)

    def stop(self, grace: float) -> Optional[int]:
        """End everything: SIGTERM, ``grace`` seconds for all of it to end, SIGKILL. Returns the exit code.

        The command itself may be a shell that ends at once while the program below it still saves a checkpoint, so
        the session counts, not the command; so does what has made a session of its own.
        """
        self.terminate()
        self._group.end(grace, self._wait, lambda: self._leader.poll() is not None)
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
        session, start, left_boot, mark = int(left["session"]), left["start"], left["boot"], str(left["mark"])
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError) as error:
        log(f"{record} is damaged, nothing to clear: {error!r}")
    else:
        leader = _stat(session)
        # The number may belong to somebody else by now: after a boot, or when its leader began at another time.
        group = _Group(session if leader is None or leader.start == start else None, mark)
        if left_boot == boot and group.members():
            log(f"ending session {session}, which an earlier runner left behind")
            group.signal(signal.SIGTERM)
            group.end(grace, wait, lambda: True)
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


class _Group(NamedTuple):
    """Everything that a command has started: its session, and what left it (``setsid``) but kept the mark."""

    session: Optional[int]
    """None when the number belongs to somebody else by now."""
    mark: str

    def members(self) -> List[int]:
        """Processes that still run."""
        if not _PROC.is_dir():
            return []
        processes = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
        return [process for process in processes if self._holds(process)]

    def _holds(self, process: int) -> bool:
        stat = _stat(process)
        if stat is None or stat.state in "ZX":
            return False
        return (self.session is not None and stat.session == self.session) or _has_mark(process, self.mark)

    def signal(self, number: signal.Signals) -> None:
        """Send the signal to each of them once."""
        if self.session is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.session, number)
        for process in self.members():
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(process) != self.session:  # it made a process group of its own
                    os.kill(process, number)

    def end(self, grace: float, wait: Wait, leader_ended: Callable[[], bool]) -> None:
        """Wait that many seconds for all of them to end after a SIGTERM, then kill them."""
        if self._ends_within(grace, wait, leader_ended, lambda: None):
            return
        log(f"session {self.session} did not end within {grace} s after SIGTERM: killing it")
        # Again and again: a process may have come to life while the others were being killed.
        if not self._ends_within(_KILL_PATIENCE, wait, leader_ended, lambda: self.signal(signal.SIGKILL)):
            log(f"session {self.session} still has processes after SIGKILL: {self.members()}")

    def _ends_within(
        self, seconds: float, wait: Wait, leader_ended: Callable[[], bool], insist: Callable[[], None]
    ) -> bool:
        deadline = time.monotonic() + seconds
        while not (leader_ended() and not self.members()):
            if time.monotonic() >= deadline:
                return False
            insist()
            wait(_POLL)
        return True


def _has_mark(process: int, mark: str) -> bool:
    try:
        environment = (_PROC / str(process) / "environ").read_bytes()
    except OSError:  # it has ended, or it belongs to somebody whom this runner could not start
        return False
    return f"{_MARK}={mark}".encode() in environment.split(b"\0")


def _stat(process: int) -> Optional[_Stat]:
    try:
        text = (_PROC / str(process) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): the second field is the program's name in parentheses and may hold anything.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(state=fields[0], session=int(fields[3]), start=int(fields[19]))
