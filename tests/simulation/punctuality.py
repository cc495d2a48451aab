"""What has to happen in time: entries read, looks made, nodes recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.faults import DELAYING, Fault
from tests.simulation.hub import Hub
from tests.simulation.invariants import Broken, Invariant
from tests.simulation.platform import Platform
from tests.simulation.store import SimulatedStore

from tpu_recovery.model.state import FINAL

SWEEPS = 8
"""So many sweeps to the end see to everything that was lost on the way, whatever may go wrong in each of them."""

UNDELAYED = timedelta(minutes=15)
"""Where nothing is delayed or lost, no sweep is needed: everything is done by then."""

READ_UNDELAYED = timedelta(minutes=1)
"""The same for an entry that was received. It is less than a lease: nobody has to wait for one to run out."""


class Punctuality:
    """Watches the inbox, and is asked to check the rest every few minutes; raises Broken.

    Time is counted in sweeps, because they may be missed for hours. Only when no fault is on that delays wakes or loses
    them, it is counted in minutes.
    """

    def __init__(self, hub: Hub, store: SimulatedStore, platform: Platform, rates: Mapping[Fault, float]) -> None:
        self._hub, self._store, self._platform = hub, store, platform
        self._delayed = any(rates.get(fault) for fault in DELAYING)
        self._sweeps = 0
        self._since: dict[str, tuple[int, datetime]] = {}
        self._received: dict[str, datetime] = {}
        store.watchers.append(self._watch)

    def swept(self, success: bool) -> None:
        """A sweep has come to its end."""
        self._sweeps += success

    def _watch(self, path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        if self._delayed or not path.startswith("inbox/"):
            return
        if before is None and after["status"] == "waiting":
            self._received[path] = self._hub.now
        elif path in self._received:
            waited = self._hub.now - self._received.pop(path)
            if waited > READ_UNDELAYED:
                raise Broken(Invariant.OUTCOME_IN_TIME, after["job"], f"{path} waited for {waited.seconds} s")

    def check(self) -> None:
        """What is outstanding since the last checks, and for too long?"""
        outstanding = {key: (invariant, job) for key, invariant, job in self._outstanding()}
        self._since = {key: self._since.get(key, (self._sweeps, self._hub.now)) for key in outstanding}
        for key, (sweeps, since) in self._since.items():
            late = self._sweeps - sweeps > SWEEPS if self._delayed else self._hub.now - since > UNDELAYED
            if late:
                invariant, job = outstanding[key]
                raise Broken(invariant, job, f"{key}, since {since:%d %H:%M} and {self._sweeps - sweeps} sweeps")

    def _outstanding(self) -> Iterator[tuple[str, Invariant, str]]:
        for stored in self._store.find("inbox", ("status", "==", "waiting")):
            yield f"{stored.path} waits", Invariant.OUTCOME_IN_TIME, stored.fields["job"]
        states = {stored.fields["job"]: stored.fields for stored in self._store.find("jobs")}
        for job, state in states.items():
            wake_at = state["wake_at"]
            if wake_at is not None and wake_at < self._hub.now and state["phase"] not in FINAL:
                yield f"{job} should have been looked at {wake_at}", Invariant.LOOK_IN_TIME, job
        for node in self._platform.nodes.values():
            if node.job in states and node.state != "DELETING":
                state = states[node.job]
                recorded = {one["name"] for one in (*state["slices"], *state["leftovers"])}
                if node.name not in recorded:
                    yield f"{node.name} is in no record", Invariant.ALL_RECORDED, node.job
