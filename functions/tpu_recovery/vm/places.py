"""Where the runner keeps things on the VM. Everything it writes lies below one root directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Places(NamedTuple):
    """Paths below the root, which is ``/`` on a TPU VM and some directory on the local stack."""

    root: Path

    @property
    def data(self) -> Path:
        """What the runner remembers over restarts and boots."""
        return self.root / "var/lib/tpu-recovery"

    @property
    def state(self) -> Path:
        """The runner's own state, see `state`."""
        return self.data / "state.json"

    @property
    def lock(self) -> Path:
        """Held for as long as a runner is at work."""
        return self.data / "lock"

    @property
    def session(self) -> Path:
        """Which session the runner started last, see `process`."""
        return self.data / "session.json"

    @property
    def programs(self) -> Path:
        """Unpacked programs, one directory for each digest."""
        return self.data / "programs"

    @property
    def scripts(self) -> Path:
        """The user's scripts, written out to be run."""
        return self.data / "scripts"

    @property
    def exchange(self) -> Path:
        """The one directory that the program may write to."""
        return self.data / "exchange"

    @property
    def progress(self) -> Path:
        """Where the program writes its current step ($TPU_RECOVERY_PROGRESS)."""
        return self.exchange / "progress"

    def log(self, name: str) -> Path:
        """The output of the program or of one of the user's scripts."""
        return self.root / "var/log/tpu-recovery" / f"{name}.log"

    @property
    def libtpu_lock(self) -> Path:
        """Left behind by a killed program; the next one would take the TPU for busy (jax issue 10192)."""
        return self.root / "tmp/libtpu_lockfile"

    @property
    def boot_id(self) -> Path:
        """The kernel's name for this boot. The local stack writes its own below its root."""
        return self.root / "proc/sys/kernel/random/boot_id"
