"""What must hold after every step, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tpu_recovery.model.names import node_id
from tpu_recovery.model.state import FINAL

Read = Callable[[str], Mapping[str, Any] | None]
"""What is known about a job: its stored document."""


class Broken(AssertionError):
    """An invariant does not hold. Which one, about which job, and what was seen."""

    def __init__(self, invariant: str, job: str, what: str) -> None:
        super().__init__(f"{invariant} (job {job}): {what}")
        self.invariant = invariant
        self.job = job


class Invariants:
    """Told of everything that matters; raises Broken."""

    def __init__(self, read: Read, now: Callable[[], datetime], tell: Callable[[str, str], None]) -> None:
        self._read = read
        self._now = now
        self._tell = tell
        self._requests: dict[str, str] = {}
        self._resumed: dict[str, int] = {}
        self.creates: list[datetime] = []
        self.stood_down: dict[str, int] = {}
        """Jobs whose node a person deleted, with the entry received: the generation that must not be followed."""

    # The platform tells

    def created(self, job: str, name: str, request_id: str) -> None:
        """A create call of ours was accepted."""
        self._tell(job, f"API: create {_short(name)}")
        if self._requests.setdefault(name, request_id) != request_id:
            raise Broken("a name is never used twice", job, f"{name} was created with two request ids")
        state = self._read(job)
        if state is None:
            raise Broken("no create without recorded intent", job, name)
        self.creates.append(self._now())

    def deleted(self, job: str, name: str, *, training: bool) -> None:
        """A delete call of ours was accepted."""
        self._tell(job, f"API: delete {_short(name)}{' (it trains)' if training else ''}")
        if not job:
            raise Broken("nothing of another owner is touched", job, f"{name} was deleted")
        state = self._read(job)
        if state is None:
            raise Broken("no delete without a record", job, name)
        generation = int(name.rsplit("-g", 1)[1])
        recorded = name in {leftover["name"] for leftover in state["leftovers"]}
        if not recorded and generation >= state["generation"]:
            raise Broken("no destructive call without a recorded reason", job, f"{name} is current")
        if training and state["phase"] not in FINAL and self._is_newest(state, name):
            raise Broken("what trains is not deleted", job, f"{name} trains")

    def starts(self, job: str, name: str, step: int | None, others: list[str]) -> None:
        """A program starts."""
        self._tell(job, f"VM {_short(name)}: training starts from {step}")
        if others:
            raise Broken("two generations never train", job, f"{name} starts while {others} train")
        if (step or 0) < self._resumed.get(job, 0):
            raise Broken("a resume is never older than the one before", job, f"{name} starts from {step}")
        self._resumed[job] = step or 0

    # The store tells

    def written(self, path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        """A document was written."""
        collection, _, name = path.rpartition("/")
        if collection == "jobs":
            self._state_written(name, before, after)
        elif collection.endswith("/incidents"):
            self._incident_written(after["job"], before, after)

    def _state_written(self, job: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        if before is None:
            return
        if before["phase"] in FINAL and after["phase"] != before["phase"]:
            raise Broken("final phases never change", job, f"{before['phase']} became {after['phase']}")
        if after["generation"] < before["generation"]:
            raise Broken("generations only grow", job, f"{before['generation']} became {after['generation']}")
        for word, one in before["spending"].items():
            if after["spending"].get(word, {"spent": -1})["spent"] < one["spent"]:
                raise Broken("budgets only grow", job, word)
        if after["generation"] > before["generation"]:
            self._new_generation(job, before, after)
        if after["phase"] == "HELD" and not (after["hold"] and after["hold"]["reason"] and after["hold"]["needs"]):
            raise Broken("a hold says why and what to do", job, str(after["hold"]))
        if after["phase"] != before["phase"]:
            self._tell(job, f"phase {before['phase']} → {after['phase']} {(after['hold'] or {}).get('reason', '')}")

    def _new_generation(self, job: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self._tell(job, f"generation {after['generation']} is intended, launch {after['launch']}")
        known = {leftover["name"] for leftover in after["leftovers"]}
        lost = [one["name"] for one in before["slices"] if one["name"] not in known]
        if lost:
            raise Broken("every older generation has a recorded delete", job, f"{lost} are in no record")
        if after["slices"][0]["name"].rsplit("/", 1)[1] != node_id(job, after["generation"]):
            raise Broken("names carry the generation", job, str(after["slices"]))
        if self.stood_down.get(job) == before["generation"]:
            raise Broken("what a person took down stays down", job, f"generation {after['generation']} is intended")

    def _incident_written(self, job: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        if before is not None and before["outcome"] != "open" and after["outcome"] != before["outcome"]:
            raise Broken("a closed incident stays closed", job, f"{before['outcome']} became {after['outcome']}")

    @staticmethod
    def _is_newest(state: Mapping[str, Any], name: str) -> bool:
        return any(one["name"] == name for one in state["slices"])


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]
