"""The program while it runs: its session, its output, how far it has got."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Callable, Optional

from tpu_recovery.vm import output
from tpu_recovery.vm.command import Account, Resume, account, arguments, environment
from tpu_recovery.vm.failures import SetupFailed
from tpu_recovery.vm.handoff import Checkpoints, Handoff, Launch
from tpu_recovery.vm.machine import Machine
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.process import Session, clear_leftovers
from tpu_recovery.vm.progress import read_step
from tpu_recovery.vm.signals import Signals
from tpu_recovery.vm.watch import CheckpointWatch

_LEFTOVER_GRACE = 25.0  # seconds, when no hand-off is known yet


class Trainer:
    """Starts and stops the program; at most one runs at any time."""

    def __init__(
        self,
        places: Places,
        machine: Machine,
        signals: Signals,
        newest_step: Callable[[Optional[Checkpoints]], Optional[int]],
    ) -> None:
        self.launch: Optional[Launch] = None
        """The launch that was started and not stopped or cleaned up since."""
        self.resume = Resume()
        """What it was started from."""
        self.progress_said = False
        self._places = places
        self._machine = machine
        self._signals = signals
        self._newest_step = newest_step
        self._session: Optional[Session] = None
        self._checkpoints: Optional[Checkpoints] = None
        self._watch: Optional[CheckpointWatch] = None
        self._newest: Optional[int] = None

    def clear(self, grace: float = _LEFTOVER_GRACE) -> None:
        """End what an earlier runner has left behind on this VM; ``grace`` is in seconds."""
        clear_leftovers(self._places.session, self._places.libtpu_lock, self._machine.boot, grace, self._signals.wait)

    def start(self, handoff: Handoff, directory: Path, resume: Resume) -> None:
        """Start the command. Raises SetupFailed when it cannot even be started."""
        who = account(handoff.user)
        self.clear(handoff.deadlines.stop)
        self._make_exchange(who)
        self._write_header(handoff, resume)
        try:
            session = Session(
                arguments(handoff.command, resume, who),
                directory=directory,
                environment=environment(handoff, resume, self._machine.worker, who, self._places),
                output=self._log,
                record=self._places.session,
                boot=self._machine.boot,
                wait=self._signals.wait,
            )
        except OSError as error:
            raise SetupFailed("setup", f"the command cannot be started in {directory}: {error}") from error
        self._signals.pass_on = session.terminate
        if self._signals.terminating:  # the signal came before there was anything to pass it on to
            session.terminate()
        self._session, self.launch, self.resume, self.progress_said = session, handoff.key, resume, False
        self._begin_watch(handoff, resume)

    def exit_code(self) -> Optional[int]:
        """The program's exit code once it has ended."""
        return self._session.exit_code() if self._session else None

    def stop(self, grace: float) -> Optional[int]:
        """End it and everything it started, within ``grace`` seconds or by force; returns its exit code."""
        if self._session is None:
            return None
        exit_code = self._session.stop(grace)
        if self._watch is not None:
            self._newest = self._watch.newest
            self._watch.stop()
        self._signals.pass_on = self._session = self._watch = self.launch = None
        return exit_code

    def keep_output_bounded(self) -> None:
        """To be called now and then while it runs."""
        output.bound(self._log)

    @property
    def last_lines(self) -> str:
        """The end of its output."""
        return output.last_lines(self._log)

    @property
    def step(self) -> Optional[int]:
        """The step it has written last."""
        return read_step(self._places.progress)

    @property
    def checkpoint_step(self) -> Optional[int]:
        """The newest complete checkpoint known without asking anybody."""
        return self._watch.newest if self._watch is not None else self._newest

    def look_for_checkpoint(self) -> Optional[int]:
        """Ask for the newest complete checkpoint, which may take seconds; what was known stays when nobody can tell."""
        newest = self._newest_step(self._checkpoints)
        if newest is not None:
            self._newest = newest
        return self.checkpoint_step

    @property
    def progressed(self) -> bool:
        """Whether it has got further than where it started from."""
        start = -1 if self.resume.step is None else self.resume.step
        return any(step is not None and step > start for step in (self.step, self.checkpoint_step))

    @property
    def _log(self) -> Path:
        return self._places.log("program")

    def _make_exchange(self, who: Account) -> None:
        if self._places.exchange.is_symlink() or not self._places.exchange.is_dir():
            _remove(self._places.exchange)
        self._places.exchange.mkdir(parents=True, exist_ok=True)
        if who.user_id is not None and who.group_id is not None:
            os.chown(str(self._places.exchange), who.user_id, who.group_id)
        _remove(self._places.progress)  # an older run's step is no progress of this one

    def _write_header(self, handoff: Handoff, resume: Resume) -> None:
        start = "from scratch" if resume.step is None else f"from step {resume.step}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"--- {handoff.key}, {start} ---\n")

    def _begin_watch(self, handoff: Handoff, resume: Resume) -> None:
        checkpoints = self._checkpoints = handoff.checkpoints
        self._newest = resume.step
        # One worker's look at a bucket is enough for all, and costs as little as it can.
        if checkpoints is not None and (self._machine.worker == 0 or not checkpoints.on_bucket):
            self._watch = CheckpointWatch(
                lambda: self._newest_step(checkpoints), handoff.timing.alive, newest=resume.step
            )


def _remove(path: Path) -> None:
    """Remove whatever is there: the program may have made a directory or a pipe of it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    elif os.path.lexists(str(path)):
        path.unlink()
