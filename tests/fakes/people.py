"""The two small ports: what the checkpoint location holds, and what people are told."""

from __future__ import annotations

from msgspec.structs import replace
from tests.fakes.wire import Wire

from tpu_recovery.errors import Unreadable
from tpu_recovery.model.decision import Notify
from tpu_recovery.model.observed import CheckpointFinding, CheckpointReading
from tpu_recovery.model.spec import Checkpoints

EMPTY = CheckpointReading(finding=CheckpointFinding.EMPTY, why="nothing was ever saved")


class FakeCheckpoints:
    """A CheckpointReader that finds what a test has put there, by path."""

    def __init__(self, wire: Wire) -> None:
        self.found: dict[str, CheckpointReading] = {}
        self._wire = wire

    def save(self, path: str, step: int) -> None:
        """A complete checkpoint of this step is there now."""
        self.found[path] = CheckpointReading(
            finding=CheckpointFinding.FOUND, step=step, path=f"{path}/{step}", why=f"step {step} is complete"
        )

    def newest(self, checkpoints: Checkpoints, seen_step: int | None) -> CheckpointReading:
        """See CheckpointReader.newest."""
        try:
            return self._wire.carry(
                "checkpoints", "newest", checkpoints.path, lambda: self._judged(checkpoints.path, seen_step)
            )
        except Unreadable as problem:
            return CheckpointReading(finding=CheckpointFinding.UNREADABLE, why=str(problem))

    def _judged(self, path: str, seen_step: int | None) -> CheckpointReading:
        reading = self.found.get(path, EMPTY)
        if seen_step is not None and (reading.step or 0) < seen_step:
            return replace(reading, finding=CheckpointFinding.OLDER, why=f"step {seen_step} was there")
        return reading


class FakeNotifier:
    """A Notifier that remembers."""

    def __init__(self, wire: Wire) -> None:
        self.told: list[tuple[str, Notify]] = []
        self._wire = wire

    def tell(self, job: str, notice: Notify) -> None:
        """See Notifier.tell."""
        self._wire.carry("notifier", "tell", job, lambda: self.told.append((job, notice)))
