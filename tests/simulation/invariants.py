"""What must hold after every step, whatever goes wrong: the part that the platform, the VMs and people tell of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from enum import StrEnum
from typing import Any

from tests.simulation.hub import Invocation

from tpu_recovery.model.state import FINAL

Read = Callable[[str], Mapping[str, Any] | None]
"""What the service has stored about a job."""


class Invariant(StrEnum):
    """What must hold, in words."""

    ONE_TRAINS = "two generations never train"
    NAME_ONCE = "a name is never used twice"
    NAME_OF_GENERATION = "names carry the generation"
    INTENT_FIRST = "nothing is created without a recorded intent"
    BY_QUEUE = "creates leave through the queue only, one for each request"
    OTHERS_UNTOUCHED = "nothing of another owner is touched"
    DELETE_RECORDED = "nothing is deleted that is not recorded as over"
    EVIDENCE_FIRST = "no generation is replaced without recorded evidence"
    UNFINISHED_IS_NO_LOSS = "an unfinished create is no loss"
    TRAINING_IS_KEPT = "what trains is not replaced"
    ALL_RECORDED = "every node of ours is in a record or being deleted"
    STANDS_DOWN = "what a person took down stays down"
    GONE_FIRST = "a person's delete is believed only once the node is gone"
    REFUSED_CALL = "a call that failed stands nothing down"
    FINAL_STAYS = "final phases never change"
    FINISHED_FIRST = "a job succeeds only when its program has finished"
    GENERATIONS_GROW = "generations only grow"
    BUDGETS_GROW = "budgets only grow"
    BUDGETS_EXPLAINED = "every unit of budget is explained"
    NO_LOST_WRITE = "no write is lost"
    HOLD_EXPLAINED = "a hold says why and what to do"
    INCIDENT_CLOSED = "a closed incident stays closed"
    CHECKPOINT_COMPLETE = "the checkpoint that is handed over is complete"
    NEVER_OLDER = "no program starts from a checkpoint older than one that was seen, unless a person accepts it"
    KEPT_BEFORE_ANSWERED = "what is acknowledged is in the inbox"
    NO_SURPRISE = "no request ends in an error that nobody expects"
    OUTCOME_IN_TIME = "every entry has an outcome in time"
    LOOK_IN_TIME = "a look that is due is made in time"
    ALL_TRAIN = "every job that should run trains exactly once"


class Broken(AssertionError):
    """An invariant does not hold. Which one, about which job, and what was seen."""

    def __init__(self, invariant: Invariant, job: str, what: str) -> None:
        super().__init__(f"{invariant} (job {job}): {what}")
        self.invariant = invariant
        self.job = job


class Invariants:
    """Told of everything that happens outside the service; raises Broken."""

    def __init__(self, read: Read, tell: Callable[[str, str], None]) -> None:
        self.tell = tell
        """Adds a line to the story of a job."""
        self.seen: dict[tuple[str, int], int | None] = {}
        """The newest checkpoint known when a generation of a job was decided; None: an older one is accepted."""
        self._read = read
        self._requests: dict[str, str] = {}
        self._used: set[int] = set()

    # The platform tells

    def asks(self, job: str, name: str, request_id: str, invocation: Invocation | None) -> None:
        """A create call has arrived."""
        if invocation is None or invocation.label != "/create" or invocation.number in self._used:
            raise Broken(Invariant.BY_QUEUE, job, f"{name} is asked for by {invocation and invocation.label}")
        self._used.add(invocation.number)
        if self._requests.setdefault(name, request_id) != request_id:
            raise Broken(Invariant.NAME_ONCE, job, f"{name} is asked for with two request ids")

    def creates(self, job: str, name: str, resume: Mapping[str, Any] | None, complete: Set[int]) -> None:
        """A create call was accepted, and makes a node."""
        self.tell(job, f"API: create {_short(name)}")
        state = self._read(job)
        if state is None or state["generation"] < _generation(name):
            raise Broken(Invariant.INTENT_FIRST, job, name)
        if resume is not None and resume["step"] not in complete:
            raise Broken(Invariant.CHECKPOINT_COMPLETE, job, f"{name} is to resume from {resume['step']}")

    def deletes(self, job: str, name: str) -> None:
        """A delete call was accepted."""
        self.tell(job, f"API: delete {_short(name)}")
        if not job:
            raise Broken(Invariant.OTHERS_UNTOUCHED, job, f"{name} is deleted")
        state = self._read(job)
        if state is None:
            raise Broken(Invariant.DELETE_RECORDED, job, name)
        recorded = name in {leftover["name"] for leftover in state["leftovers"]}
        over = state["phase"] in FINAL and not state["slices"]
        if not recorded and not over and _generation(name) >= state["generation"]:
            raise Broken(Invariant.DELETE_RECORDED, job, f"{name} is current")

    def updates(self, job: str, name: str) -> None:
        """A node's metadata is written."""
        self.tell(job, f"API: write the hand-off of {_short(name)}")
        if not job:
            raise Broken(Invariant.OTHERS_UNTOUCHED, job, f"{name} is updated")

    # The VMs tell

    def starts(self, job: str, name: str, step: int | None, others: list[str]) -> None:
        """A program starts."""
        if others:
            raise Broken(Invariant.ONE_TRAINS, job, f"{name} starts while {others} train")
        seen = self.seen.get((job, _generation(name))) or 0
        if (step or 0) < seen:
            raise Broken(Invariant.NEVER_OLDER, job, f"{name} starts from {step}, but {seen} was seen")


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _generation(name: str) -> int:
    _, found, number = name.rpartition("-g")
    return int(number) if found and number.isdecimal() else 0
