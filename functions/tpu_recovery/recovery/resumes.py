"""A person's resume: whether one has come in, and whether it is about the hold that there is now."""

from __future__ import annotations

from datetime import timedelta

from tpu_recovery.model.messages import Command, CommandKind
from tpu_recovery.model.observed import Letter
from tpu_recovery.model.state import JobState

CLOCKS_DIFFER = timedelta(minutes=5)
"""By so much the clock of a person's machine may be behind ours, and a resume still counts."""


def asks_to_go_on(state: JobState, letters: tuple[Letter, ...]) -> bool:
    """Whether a person wants the job to go on."""
    return any(
        letter.command and letter.command.kind is CommandKind.RESUME and not is_late(state, letter.command)
        for letter in letters
    )


def is_late(state: JobState, command: Command) -> bool:
    """Whether a resume was sent before the job was held. It can arrive late or again, when its own hold is long over,
    and must not release one that the person has never seen."""
    if command.kind is not CommandKind.RESUME or state.hold is None:
        return False
    return command.at < state.hold.since - CLOCKS_DIFFER
