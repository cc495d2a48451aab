"""Read what one decision needs, and no more: every read here is a call that somebody pays for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tpu_recovery.errors import Invalid, Unreadable
from tpu_recovery.events.reports import parse_report
from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import Report, ReportKind
from tpu_recovery.model.names import ResourceName
from tpu_recovery.model.observed import (
    NOT_READ,
    CheckpointReading,
    Letter,
    NodeReading,
    Observed,
    OperationReading,
    Presence,
)
from tpu_recovery.model.state import Leftover
from tpu_recovery.recovery.decide import asks_for_checkpoint
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.situation import Standing, Wish, accepts_older, standing_of, wish_of


class Listing(NamedTuple):
    """The nodes of some zones by full name, from one list call each."""

    zones: frozenset[str]
    """The zones that could be listed; about the others nothing is known."""
    nodes: Mapping[str, NodeReading]

    def reading(self, name: str) -> NodeReading | None:
        """What the list says about a node; None when its zone was not listed."""
        parsed = ResourceName.parse(name)
        if parsed is None or parsed.zone not in self.zones:
            return None
        return self.nodes.get(name, NodeReading(name=name, presence=Presence.ABSENT))


_ENOUGH = frozenset(
    {ReportKind.STARTED, ReportKind.PROGRESS, ReportKind.CRASHED, ReportKind.STOPPING, ReportKind.STOPPED}
)
"""Reports after which guest attributes need no reading: the report carries the generation's token, and nothing that
cannot be undone follows from it."""

_UNFINISHED = frozenset({"", "CREATING"})
"""Node states in which the create's operation may still be running."""


def observe(ports: Ports, job: Job, letters: tuple[Letter, ...], listing: Listing | None = None) -> Observed:
    """One look at a job. Errors of the API become readings; nothing is raised for them."""
    observed = Observed(project=ports.settings.project, letters=letters)
    observed = replace(observed, leftovers=_leftovers(ports, job, listing))
    if not _is_to_run(job, observed):
        return observed
    if job.state.slices:
        node = ports.capacity.describe(job.node_name)
        observed = replace(observed, node=node, operation=_operation(ports, job, node))
        if node.state == "READY" and _needs_attributes(job, letters):
            observed = _with_attributes(ports, job, observed)
    if asks_for_checkpoint(job, observed, ports.clock()):
        observed = replace(observed, checkpoint=_checkpoint(ports, job, observed))
    return observed


def _is_to_run(job: Job, observed: Observed) -> bool:
    """Whether the answer depends on the capacity at all; a held or paused job costs no calls."""
    standing, wish = standing_of(job), wish_of(job, observed)
    if standing in (Standing.OVER, Standing.WATCHED) or wish in (Wish.PAUSE, Wish.UNKNOWN):
        return False
    return standing in (Standing.ACTIVE, Standing.PAUSED) or wish is Wish.RESUME


def _leftovers(ports: Ports, job: Job, listing: Listing | None) -> tuple[NodeReading, ...]:
    """Older generations. Those that may still be running are read afresh, because the launch of the current one hangs
    on it and a list may be older than the node; the others are only followed, as far as a list is at hand."""

    def reading(leftover: Leftover) -> NodeReading | None:
        if not leftover.stopped:
            return ports.capacity.describe(leftover.name)
        return listing.reading(leftover.name) if listing is not None else None

    return tuple(one for one in map(reading, job.state.leftovers) if one is not None)


def _operation(ports: Ports, job: Job, node: NodeReading) -> OperationReading | None:
    create = job.state.create
    if create is None or not create.operation or create.error or node.state not in _UNFINISHED:
        return None
    return None if node.presence is Presence.UNREADABLE else ports.capacity.describe_operation(create.operation)


def _needs_attributes(job: Job, letters: tuple[Letter, ...]) -> bool:
    """Whether to ask the workers: for their host names once, and whenever their word decides and is not at hand."""
    if not any(one.hostnames for one in job.state.slices):
        return True
    reports = [letter.report for letter in letters if letter.report and letter.report.token == job.state.token]
    if reports:
        return any(report.kind not in _ENOUGH for report in reports)
    return not any(letter.event for letter in letters)


def _with_attributes(ports: Ports, job: Job, observed: Observed) -> Observed:
    try:
        attributes = ports.capacity.attributes(job.node_name)
    except Unreadable:
        # Organisations may switch guest attributes off; reports by Pub/Sub then have to do.
        return replace(observed, attributes_unreadable=True)
    reports = tuple(report for text in attributes.reports if (report := _report(text)))
    return replace(observed, hostnames=attributes.hostnames, reports=reports)


def _report(text: str) -> Report | None:
    try:
        return parse_report(text.encode())
    except Invalid:
        return None  # anything on the VM can write guest attributes; what is no report says nothing


def _checkpoint(ports: Ports, job: Job, observed: Observed) -> CheckpointReading:
    where = job.spec.checkpoints
    if where is None:
        return msgspec.structs.replace(NOT_READ, why="the job saves no checkpoints: training starts from the beginning")
    if not where.in_bucket:
        return msgspec.structs.replace(NOT_READ, why=f"not verified before creation: {where.path} lies on the VM")
    seen_step = None if accepts_older(job, observed) else job.state.progress.checkpoint_step
    return ports.checkpoints.newest(where, seen_step)
