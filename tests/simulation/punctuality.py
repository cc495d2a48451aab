"""What has to happen in time: entries read, looks made, older nodes recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tests.simulation.faults import WAKE_LOSING, Fault
from tests.simulation.hub import Hub
from tests.simulation.invariants import Broken, Invariant
from tests.simulation.platform import Platform
from tests.simulation.store import SimulatedStore

from tpu_recovery.model.state import FINAL

SWEEPS = 8
"""So many sweeps to the end see to everything that was lost on the way, whatever may go wrong in each of them."""

WITHOUT_SWEEPS = timedelta(minutes=15)
"""Where no wake-up can get lost, sweeps are not needed: everything is done by then."""


class Punctuality:
    """Checked every few minutes; raises Broken.

    Time is counted in sweeps, because they may be missed for hours. Only when none of the faults is on that make a
    sweep necessary, it is counted in minutes.
    """

    def __init__(self, hub: Hub, store: SimulatedStore, platform: Platform, rates: Mapping[Fault, float]) -> None:
        self._hub, self._store, self._platform = hub, store, platform
        self._by_sweeps = any(rates.get(fault) for fault in WAKE_LOSING)
        self._sweeps = 0
        self._since: dict[str, tuple[int, datetime]] = {}

    def swept(self, success: bool) -> None:
        """A sweep has come to its end."""
        self._sweeps += success

    def check(self) -> None:
        """What is outstanding since the last checks, and for too long?"""
        outstanding = {key: (invariant, job) for key, invariant, job in self._outstanding()}
        self._since = {key: self._since.get(key, (self._sweeps, self._hub.now)) for key in outstanding}
        for key, (sweeps, since) in self._since.items():
            late = self._sweeps - sweeps > SWEEPS if self._by_sweeps else self._hub.now - since > WITHOUT_SWEEPS
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
                    yield f"{node.name} is in no record", Invariant.LEFTOVERS_RECORDED, node.job
