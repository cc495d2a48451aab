"""What the runner remembers over its own restarts and over boots: one small JSON file, never a token."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional

from tpu_recovery.vm.handoff import Launch
from tpu_recovery.vm.log import log

NEVER = Launch(0, 0)


class Settled(NamedTuple):
    """A launch that is over on this VM, and the report that said so."""

    launch: Launch
    boot: str
    """The boot in which that report was last made."""
    kind: str
    reason: Optional[str] = None
    detail: Optional[str] = None
    exit_code: Optional[int] = None


@dataclass
class JobState:
    """What belongs to one registration of a job (its uid)."""

    uid: str = ""
    beacon_boot: str = ""
    """The boot in which `booted` was reported."""
    seen: Launch = NEVER
    """The newest launch seen in any hand-off; lower ones are ignored."""
    started: Launch = NEVER
    """The newest launch whose program was started on this VM."""
    settled: Optional[Settled] = None
    crashes: int = 0
    """Crashes of the newest launch in a row without progress."""
    best_step: Optional[int] = None
    """The newest step that the program had written by its last crash in this launch."""
    best_checkpoint: Optional[int] = None
    """The newest complete checkpoint known at the last start or crash in this launch."""

    def see(self, launch: Launch) -> None:
        """Remember a newer launch; its crashes are counted from none."""
        self.seen = launch
        self.crashes, self.best_step, self.best_checkpoint = 0, None, None


@dataclass
class State:
    """The content of the file."""

    sequence: int = 0
    """Of the last report made on this VM."""
    scripts: Dict[str, str] = field(default_factory=dict)
    """For each of the user's scripts the boot and the digest of its last success."""
    job: JobState = field(default_factory=JobState)


class StateFile:
    """Reads and replaces the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> State:
        """The state kept, or a new one. A damaged file counts as missing: at worst scripts and reports repeat."""
        try:
            return _state(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return State()
        except (ValueError, TypeError, KeyError) as error:
            log(f"{self._path} is damaged, starting anew: {error!r}")
            return State()

    def save(self, state: State) -> None:
        """Replace the file at once, so that a reader or a power loss never sees half of it.

        A full disk is no reason to stop a program that trains: the state is kept in memory, and saved the next time.
        """
        try:
            self._replace(state)
        except OSError as error:
            log(f"{self._path} cannot be saved, going on without: {error}")

    def _replace(self, state: State) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(asdict(state), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)


def _state(data: Dict[str, Any]) -> State:
    job = dict(data["job"])
    settled = job["settled"]
    job.update(
        seen=Launch(*job["seen"]),
        started=Launch(*job["started"]),
        settled=Settled(Launch(*settled[0]), *settled[1:]) if settled else None,
    )
    return State(int(data["sequence"]), dict(data["scripts"]), JobState(**job))
