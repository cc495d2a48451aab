"""What must hold after every step: the part that shows in the documents the service writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.invariants import Broken, Invariant, Invariants
from tests.simulation.platform import STOPPED_BY_PERSON, Platform
from tests.simulation.store import SimulatedStore
from tests.simulation.vms import Vms

from tpu_recovery.model.names import node_id
from tpu_recovery.model.state import FINAL
from tpu_recovery.recovery.resumes import CLOCKS_DIFFER
from tpu_recovery.recovery.situation import ABOUT_OLDER_CHECKPOINTS

Fields = Mapping[str, Any]

SKEW = timedelta(minutes=2)
"""By so much an instance's clock may be wrong."""

SETTLED = timedelta(minutes=3)
"""A program that has run for this long is known to run: the service looks and decides within minutes."""


class Documents:
    """Watches the store; raises Broken."""

    def __init__(
        self, store: SimulatedStore, platform: Platform, vms: Vms, invariants: Invariants, now: Callable[[], datetime]
    ) -> None:
        self.stood_down: dict[str, int] = {}
        """Jobs whose node a person deleted, with the entry received: the generation that must not be followed."""
        self.resumed: dict[str, datetime] = {}
        """When a person has last sent a resume for a job."""
        self.spoken: set[str] = set()
        """Nodes about whose end the platform, or a forger in its name, has said something."""
        self._store, self._platform, self._vms, self._invariants = store, platform, vms, invariants
        self._now = now
        store.watchers.append(self.written)

    def written(self, path: str, before: Fields | None, after: Fields) -> None:
        """A document was written."""
        collection, _, name = path.rpartition("/")
        if collection == "jobs" and before is not None:
            self._growth(name, before, after)
            self._phase(name, before, after)
            self._budgets(name, before, after)
            if after["generation"] > before["generation"]:
                self._generation(name, before, after)
        elif collection.endswith("/incidents") and before is not None:
            self._incident(before, after)

    def _incident(self, before: Fields, after: Fields) -> None:
        if before["outcome"] != "open" and after["outcome"] != before["outcome"]:
            what = f"{after['id']}: {before['outcome']} became {after['outcome']}"
            raise Broken(Invariant.INCIDENT_CLOSED, after["job"], what)

    def _growth(self, job: str, before: Fields, after: Fields) -> None:
        if after["version"] != before["version"] + 1:
            raise Broken(Invariant.NO_LOST_WRITE, job, f"version {before['version']} became {after['version']}")
        if after["generation"] < before["generation"]:
            raise Broken(Invariant.GENERATIONS_GROW, job, f"{before['generation']} became {after['generation']}")
        known, step = (state["progress"]["checkpoint_step"] or 0 for state in (before, after))
        if step < known:
            if not (before["hold"] and before["hold"]["row"] in ABOUT_OLDER_CHECKPOINTS):
                raise Broken(Invariant.NEVER_OLDER, job, f"step {known} was seen and is forgotten")
            self._invariants.seen[job, before["generation"]] = None

    def _phase(self, job: str, before: Fields, after: Fields) -> None:
        if after["phase"] == before["phase"]:
            return
        hold = after["hold"] or {"reason": "", "needs": "", "row": ""}
        self._invariants.tell(job, f"phase {before['phase']} → {after['phase']} {hold['reason']}".rstrip())
        if before["phase"] in FINAL:
            raise Broken(Invariant.FINAL_STAYS, job, f"{before['phase']} became {after['phase']}")
        if after["phase"] == "SUCCEEDED" and job not in self._vms.finished:
            raise Broken(Invariant.FINISHED_FIRST, job, "the program has not finished")
        if after["phase"] == "HELD" and not (hold["reason"] and hold["needs"]):
            raise Broken(Invariant.HOLD_EXPLAINED, job, str(hold))
        if hold["row"] == "a person deleted the node" and before["phase"] != "PAUSED":
            self._believed(job, after["slices"][0]["name"])

    def _believed(self, job: str, name: str) -> None:
        if name in self._platform.nodes:
            raise Broken(Invariant.GONE_FIRST, job, f"{name} is {self._platform.nodes[name].state}")
        if name not in self._platform.claimed:
            raise Broken(Invariant.REFUSED_CALL, job, f"nobody says that {name} was deleted")

    def _budgets(self, job: str, before: Fields, after: Fields) -> None:
        for word, one in before["spending"].items():
            if after["spending"].get(word, {"spent": -1})["spent"] < one["spent"]:
                raise Broken(Invariant.BUDGETS_GROW, job, word)
        for word, one in after["spending"].items():
            grown = one["spent"] - before["spending"].get(word, {"spent": 0})["spent"]
            outside_incident = word == "setup" and not before["incident"] and after["launch"] > before["launch"]
            if grown and not outside_incident and not self._is_explained(job, word, before, after):
                raise Broken(Invariant.BUDGETS_EXPLAINED, job, f"{grown} of {word}")

    def _is_explained(self, job: str, word: str, before: Fields, after: Fields) -> bool:
        """Whether the open incident says that it has used up as many attempts since it began."""
        incident = self._store.read(f"jobs/{job}/incidents/{after['incident'] or before['incident']}")
        return incident is not None and word in incident.fields["spent"]

    def _generation(self, job: str, before: Fields, after: Fields) -> None:
        number = after["generation"]
        self._invariants.tell(job, f"generation {number} is intended, launch {after['launch']}")
        self._invariants.seen[job, number] = after["progress"]["checkpoint_step"]
        if after["slices"][0]["name"].rsplit("/", 1)[1] != node_id(job, number):
            raise Broken(Invariant.NAME_OF_GENERATION, job, str(after["slices"]))
        known = {leftover["name"] for leftover in after["leftovers"]}
        lost = [one["name"] for one in before["slices"] if one["name"] not in known]
        if lost:
            raise Broken(Invariant.ALL_RECORDED, job, f"{lost} are in no record")
        if self.stood_down.get(job) == before["generation"] and not self._is_excused(job, before):
            raise Broken(Invariant.STANDS_DOWN, job, f"generation {number} is intended")
        if before["slices"]:
            self._replaced(job, before, after)

    def _is_excused(self, job: str, before: Fields) -> bool:
        """Somebody else has spoken about the node's end; or a resume of an earlier hold came in after the delete; or
        one was sent so shortly before the hold that, for all the service can know, it is about it."""
        spoken = any(one["name"] in self.spoken for one in before["slices"])
        resumed, hold = self.resumed.get(job), before["hold"]
        just_before = resumed is not None and hold is not None and hold["since"] - resumed < CLOCKS_DIFFER + SKEW
        return spoken or before["going_on"] or just_before

    def _replaced(self, job: str, before: Fields, after: Fields) -> None:
        """A generation gives way to another: its end must be known, recorded, and true."""
        name, resumed = before["slices"][0]["name"], before["phase"] == "HELD" or before["going_on"]
        operation = self._platform.of_operation(name)
        failed = bool(before["create"]["error"] or (operation and operation.code))
        incident = self._store.read(f"jobs/{job}/incidents/{after['incident']}")
        if not failed and not resumed and (incident is None or not incident.fields["evidence"]):
            raise Broken(Invariant.EVIDENCE_FIRST, job, f"nothing recorded says why {name} is replaced")
        accepted = before["create"]["accepted"] is not None
        if accepted and operation is not None and operation.ended is None and not resumed:
            raise Broken(Invariant.UNFINISHED_IS_NO_LOSS, job, f"{name} is still being created")
        node = self._platform.nodes.get(name)
        if node is not None and node.state in STOPPED_BY_PERSON and not resumed:
            raise Broken(
                Invariant.STANDS_DOWN, job, f"{name} is {node.state}, generation {after['generation']} follows"
            )
        since = self._vms.since.get(name)
        if name in self._vms.training and since is not None and self._now() - since > SETTLED:
            raise Broken(Invariant.TRAINING_IS_KEPT, job, f"{name} trains since {since}")
