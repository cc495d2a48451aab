"""What a row of the decision table is made of."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from tpu_recovery.model.incident import Cause
from tpu_recovery.model.state import Phase


class Section(StrEnum):
    """The parts of the table, in the order in which they are asked."""

    PERSON = "person"
    CAPACITY = "capacity"
    CHECKPOINT = "checkpoint"
    RUNNER = "runner"


class Clock(StrEnum):
    """Whether the row's concern has waited for longer than it may."""

    WITHIN = "within"
    OVERDUE = "overdue"


class Budget(StrEnum):
    """Whether the row's cause may use another attempt."""

    LEFT = "left"
    SPENT = "spent"


class Move(StrEnum):
    """What is done; tpu_recovery.recovery.moves has one function for each."""

    KEEP = "keep"
    WAIT = "wait"
    PAUSE = "pause"
    HOLD = "hold"
    CREATE = "create"
    REPEAT_CREATE = "repeat-create"
    HAND_OFF = "hand-off"
    RELAUNCH = "relaunch"
    LAUNCHED = "launched"
    RESUMED = "resumed"
    DISMISS = "dismiss"
    SUCCEED = "succeed"


class Row(NamedTuple):
    """One row: when it applies, and what follows."""

    name: str
    section: Section
    when: dict[str, frozenset[str]]
    """Column of Situation, or `clock` or `budget` -> the values that fit."""
    move: Move | None = None
    """None: the row only sends the question on."""
    next: Section | None = None
    phase: Phase | None = None
    """The phase after the move, where the move does not fix it itself."""
    cause: Cause | None = None
    concern: str = ""
    """What is being waited for: a field of Deadlines, or a key of FIXED_PATIENCE."""
    again: float = 0
    """Seconds until the next look while waiting; 0: only the concern's deadline."""
    budget: str = ""
    """The field of Attempts that the move uses up, or that `budget` asks about."""
    needs: str = ""
    """For a hold: what a person has to do."""
    keeps_wish: bool = False
    """For a wait: what a person's resume asks for cannot be done before this is over, and is not forgotten."""


FIXED_PATIENCE: dict[str, float] = {
    "confirmation": 3600,  # the second NOT_FOUND comes after 20 s; an hour covers an API that stops answering
    "vanished": 60,  # who deleted it? Entries arrive 3 to 6 s after the fact, rarely later than this
    "suspicion": 600,  # an entry announced the loss of a node that reads READY; worker events lead by up to 6 minutes
    "answer": 3600,  # creates wait in a queue behind those of other jobs
    "siblings": 120,  # workers of a preempted slice crash first, the cloud says why a little later
    "stopped": 600,  # the runner was told to stop; the reason shows up in the API
    "hand-off": 1800,  # the API does not take the hand-off that lets the program start
    "leftover": 3600,  # an older generation still exists and must stop before the new one may start
}
"""Seconds that a concern may wait, for concerns that are the service's own and not the job's."""


def when(**columns: StrEnum | tuple[StrEnum, ...]) -> dict[str, frozenset[str]]:
    """The `when` of a row: each column with the value or values that fit."""
    return {column: frozenset(values if isinstance(values, tuple) else (values,)) for column, values in columns.items()}


GO_ON = "tpu-recovery resume JOB"
"""The command that releases a hold."""


class Answer(NamedTuple):
    """The rows that led to the answer, the last of which has the move."""

    path: tuple[Row, ...]

    @property
    def row(self) -> Row:
        """The row that answers."""
        return self.path[-1]

    @property
    def cause(self) -> Cause | None:
        """The cause that the rows on the way name."""
        return next((row.cause for row in reversed(self.path) if row.cause), None)

    @property
    def concerns(self) -> tuple[str, ...]:
        """What the rows on the way have been waiting for."""
        return tuple(row.concern for row in self.path if row.concern)

    @property
    def attempts(self) -> tuple[str, ...]:
        """The kinds of attempt that the move uses up, one for each row on the way that asks about one."""
        return tuple(row.budget for row in self.path if row.budget)
