"""A job as one look sees it: what people wish, what we know, and the incident that is open."""

from __future__ import annotations

import msgspec

from tpu_recovery.model.incident import Incident
from tpu_recovery.model.names import ResourceName, node_id
from tpu_recovery.model.spec import CapacityKind, JobSpec, Placement, Wishes
from tpu_recovery.model.state import JobState


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one job that deciding needs."""

    state: JobState
    wishes: Wishes | None
    """None: the specification is gone or cannot be read."""
    incident: Incident | None = None

    @property
    def spec(self) -> JobSpec:
        """The specification. Raises LookupError when there is none."""
        if self.wishes is None:
            raise LookupError(f"job {self.state.job} has no specification")
        return self.wishes.spec

    @property
    def placement(self) -> Placement:
        """The placement that the current generation was asked for in (the first one before any was)."""
        return self.state.create.where if self.state.create else placement_of(self.spec, 0)

    @property
    def is_spot(self) -> bool:
        """Whether the current generation's capacity can be taken away at any time."""
        return self.placement.capacity is CapacityKind.SPOT

    @property
    def node_name(self) -> str:
        """Full name of the current generation's node; empty when no capacity was ever asked for."""
        return self.state.slices[0].name if self.state.slices else ""


def placement_of(spec: JobSpec, number: int) -> Placement:
    """The placement with the given number. An edited list may be shorter than the number: it wraps around."""
    return spec.placements[number % len(spec.placements)]


def node_name(project: str, zone: str, job: str, generation: int) -> str:
    """Full name of the node that is created for a generation of a job."""
    return str(ResourceName.node(project, zone, node_id(job, generation)))
