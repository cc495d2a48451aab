"""The hand-off: what the service tells the runner, as JSON in one key of the node's metadata.

The runner on the VM reads it with its own standard-library code (tpu_recovery.vm.handoff); a test keeps the two alike.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

Interval = Annotated[float, msgspec.Meta(gt=0)]
"""Seconds; none would be a loop without a pause."""


class Wanted(StrEnum):
    """Whether the program should run."""

    RUN = "run"
    STOP = "stop"


class HandoffProgram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the runner has to fetch."""

    archive: str = ""
    sha256: str = ""
    none: bool = False


class HandoffCheckpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where the runner finds checkpoints, and the newest complete step that was ever seen there."""

    path: str
    format: str
    seen_step: int | None = None


class ResumeAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """The step the service would resume from. The runner chooses anew at every start."""

    step: int
    path: str


class HandoffReports(msgspec.Struct, frozen=True, kw_only=True):
    """Where reports go beside the guest attributes."""

    topic: str


class HandoffDeadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    startup_script: float
    setup: float
    stop: float


class CrashPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often a crashed program is started again on the same VM without progress, and after how many seconds."""

    limit: int
    first_backoff: float = 10
    longest_backoff: float = 300


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How often the runner reads its hand-off and progress, and how often it says that it is alive. Seconds."""

    poll: Interval = 5
    alive: Interval = 60


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a fresh VM needs to start, or not to start, the program."""

    job: str
    uid: str
    generation: int
    launch: int
    launch_before: datetime | None
    wanted: Wanted
    token: str
    program: HandoffProgram
    command: str
    reports: HandoffReports
    deadlines: HandoffDeadlines
    crashes: CrashPolicy
    timing: Timing
    startup_script: str | None = None
    setup: str | None = None
    user: str | None = None
    working_directory: str | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    checkpoints: HandoffCheckpoints | None = None
    resume: ResumeAdvice | None = None
    version: Literal[1] = 1


def encode_handoff(handoff: Handoff) -> str:
    """The metadata value: JSON with sorted keys, so that the same hand-off is the same text."""
    return msgspec.json.encode(handoff, order="deterministic").decode()
