"""The user's own scripts: run once per boot, each with a deadline and a log of its own."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Callable, List, Mapping

from tpu_recovery.vm import output
from tpu_recovery.vm.failures import SetupFailed
from tpu_recovery.vm.log import log
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.process import Session, Wait
from tpu_recovery.vm.state import State, StateFile

_POLL = 1.0  # seconds; the end of the script ends the wait early
_STOP_GRACE = 5.0  # seconds


class Scripts:
    """Runs scripts that have not succeeded in this boot yet. A changed text is another script."""

    def __init__(self, places: Places, boot: str, state: State, file: StateFile, wait: Wait) -> None:
        self._places = places
        self._boot = boot
        self._state = state
        self._file = file
        self._wait = wait

    def run(
        self,
        name: str,
        text: str,
        *,
        deadline: float,
        directory: Path,
        environment: Mapping[str, str],
        pause: Callable[[float], None],
    ) -> None:
        """Run ``startup-script`` or ``setup``. Raises SetupFailed with the script's last lines, and Interrupted."""
        mark = f"{self._boot} {hashlib.sha256(text.encode()).hexdigest()}"
        if self._state.scripts.get(name) == mark:
            return
        log(f"running {name}")
        log_file = self._places.log(name)
        try:
            session = Session(
                _arguments(self._write(name, text), text),
                directory=directory,
                environment=environment,
                output=log_file,
                record=self._places.session,
                boot=self._boot,
                wait=self._wait,
            )
        except OSError as error:
            raise SetupFailed(name, f"{name} cannot be started: {error}") from error
        try:
            problem = _problem(session, deadline, pause, log_file)
        finally:
            if session.exit_code() is None:
                session.stop(_STOP_GRACE)
        session.forget()
        if problem:
            raise SetupFailed(name, f"{name} {problem}; its last lines:\n{output.last_lines(log_file)}")
        self._state.scripts[name] = mark
        self._file.save(self._state)

    def _write(self, name: str, text: str) -> Path:
        path = self._places.scripts / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o700)
        return path


def _arguments(path: Path, text: str) -> List[str]:
    return [str(path)] if text.startswith("#!") else ["sh", str(path)]


def _problem(session: Session, deadline: float, pause: Callable[[float], None], log_file: Path) -> str:
    end = time.monotonic() + deadline
    while session.exit_code() is None:
        if time.monotonic() >= end:
            return f"did not end within {deadline:g} s"
        pause(min(_POLL, deadline))
        output.bound(log_file)
    return f"ended with exit code {session.exit_code()}" if session.exit_code() else ""
