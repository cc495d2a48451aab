"""The sweep: the backstop of everything that can be lost on the way.

It reads each zone with jobs once, compares it with what is stored, and looks only at jobs that differ, are due, or have
waiting inbox entries. Nodes of ours that no job claims are deleted when their job is known to be past them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tpu_recovery.errors import NotFound, Refused, Unreadable
from tpu_recovery.model.names import JOB_NAME, LABEL_GENERATION, LABEL_JOB, LABEL_UID, ResourceName, node_id
from tpu_recovery.model.observed import NodeReading
from tpu_recovery.model.state import FINAL, JobState, Phase
from tpu_recovery.recovery import timers
from tpu_recovery.recovery.look import look
from tpu_recovery.recovery.observe import Listing
from tpu_recovery.recovery.ports import Ports
from tpu_recovery.recovery.records import Records

log = logging.getLogger(__name__)

_AT_REST = frozenset({Phase.HELD, Phase.PAUSED, Phase.STOOD_DOWN, Phase.WATCHED})
"""Phases in which a change of the node is no reason to look."""


def sweep(ports: Ports, after: str = "") -> str:
    """Look at every job that needs it, by name, from the one after `after`; gives what was done, in words.

    Raises Unreadable when the store does not answer.
    """
    records, began = Records(ports.store), ports.clock()
    pauses = records.pauses()
    if not after:
        timers.prove_path(ports)
        _register_new(ports, records, sorted(pauses))
    waiting = records.waiting_jobs()
    states = _to_care_about(records, waiting)
    listing = _list(ports, _zones(states))
    looked = 0
    for state in states:
        missed = pauses.get(state.job, False) != (state.phase is Phase.PAUSED) and state.phase not in FINAL
        if state.job <= after or not (missed or _needs_look(ports, state, listing, waiting)):
            continue
        if looked and ports.clock() - began > ports.settings.sweep_budget:
            timers.go_on_sweeping(ports, max(one.job for one in states if one.job < state.job))
            return f"looked at {looked} jobs; going on by timer"
        _look(ports, state.job, listing)
        looked += 1
    removed = _remove_unclaimed(ports, records, listing.nodes.values())
    return f"looked at {looked} of {len(states)} jobs, removed {removed} nodes"


def zone_look(ports: Ports, zone: str) -> str:
    """The same for one zone. Raises Unreadable when the store or the zone does not answer; a refusal to list the zone
    is final, its jobs have their own timers and the sweep."""
    states = [state for state in Records(ports.store).unfinished() if zone in _zones([state])]
    if not states:
        return f"no job is in {zone}"
    try:
        nodes = ports.capacity.list_nodes(ports.settings.project, zone)
    except Refused as problem:
        log.error("zone %s cannot be listed: %s", zone, problem)
        return f"{zone} cannot be listed"
    listing = Listing(frozenset({zone}), {node.name: node for node in nodes})
    looked = [state.job for state in states if _needs_look(ports, state, listing, set())]
    for job in looked:
        _look(ports, job, listing)
    return f"looked at {len(looked)} of {len(states)} jobs in {zone}"


def _look(ports: Ports, job: str, listing: Listing | None = None) -> None:
    """One job that cannot be looked at just now must not keep the others from it; the next sweep finds it again."""
    try:
        look(ports, job, listing)
    except Unreadable as problem:
        log.error("job %s could not be looked at: %s", job, problem, extra={"job": job})
    except Exception:  # what is wrong with one job cannot be foreseen, and this is every job's backstop
        log.exception("job %s could not be looked at", job, extra={"job": job})


def _register_new(ports: Ports, records: Records, names: list[str]) -> None:
    """Specifications whose command was lost on the way."""
    known = records.registered(names)
    for name in names:
        if name not in known:
            _look(ports, name)


def _to_care_about(records: Records, waiting: set[str]) -> list[JobState]:
    """All jobs that are not over, by name, and those over about which something has come in that nobody has read."""
    states = {state.job: state for state in records.unfinished()}
    states |= records.registered(sorted(waiting - states.keys()))
    return [states[job] for job in sorted(states)]


def _zones(states: Iterable[JobState]) -> set[str]:
    names = [name for state in states for name in _node_names(state)]
    return {parsed.zone for name in names if (parsed := ResourceName.parse(name))}


def _node_names(state: JobState) -> list[str]:
    """Nodes that are ours or lately were: a create that froze may still make one of those that are over."""
    return [one.name for one in state.slices] + [one.name for one in state.leftovers] + list(state.resources)


def _list(ports: Ports, zones: set[str]) -> Listing:
    """All nodes of these zones. A zone that cannot be listed leaves its jobs to their own timers."""
    listed: set[str] = set()
    nodes: dict[str, NodeReading] = {}
    for zone in sorted(zones):
        try:
            nodes.update({node.name: node for node in ports.capacity.list_nodes(ports.settings.project, zone)})
            listed.add(zone)
        except (Refused, Unreadable) as problem:
            log.warning("zone %s cannot be listed: %s", zone, problem)
    return Listing(frozenset(listed), nodes)


def _needs_look(ports: Ports, state: JobState, listing: Listing, waiting: set[str]) -> bool:
    if state.job in waiting or timers.is_due(state, ports.clock()) or _has_loose_ends(state):
        return True
    return state.phase not in _AT_REST | FINAL and any(
        _differs(one.state, listing.reading(one.name)) for one in state.slices
    )


def _has_loose_ends(state: JobState) -> bool:
    """Leftovers are followed until they are confirmed absent, in every phase."""
    return bool(state.leftovers) or state.phase is Phase.REGISTERED


def _differs(known: str, node: NodeReading | None) -> bool:
    """Whether the list says something else than what is stored; a zone that was not listed says nothing."""
    return node is not None and node.state != known


def _remove_unclaimed(ports: Ports, records: Records, nodes: Iterable[NodeReading]) -> int:
    """Delete nodes that carry our labels and whose job is past them; report those whose job is unknown."""
    ours = [node for node in nodes if JOB_NAME.fullmatch(node.labels.get(LABEL_JOB, "")) and node.labels.get(LABEL_UID)]
    jobs = records.registered(sorted({node.labels[LABEL_JOB] for node in ours}))
    removed = 0
    for node in ours:
        state = jobs.get(node.labels[LABEL_JOB])
        if state is None or state.uid != node.labels[LABEL_UID]:
            log.warning("node %s carries our labels but no job claims it", node.name)
        elif _is_past(state, node) and node.state != "DELETING":
            removed += _delete(ports, node.name)
    return removed


def _is_past(state: JobState, node: NodeReading) -> bool:
    """Whether the job needs this node no more, which then must go: by label and by name alike."""
    generation = node.labels.get(LABEL_GENERATION, "")
    if not generation.isdecimal() or not node.name.endswith(f"/{node_id(state.job, int(generation))}"):
        return False
    released = state.phase in FINAL and not state.slices
    newest_past = state.generation if released else state.generation - 1
    followed = {leftover.name for leftover in state.leftovers}
    return int(generation) <= newest_past and node.name not in followed


def _delete(ports: Ports, name: str) -> int:
    try:
        ports.capacity.delete(name)
    except (NotFound, Refused, Unreadable) as problem:
        log.warning("unclaimed node %s could not be deleted: %s", name, problem)
        return 0
    log.warning("unclaimed node %s of an earlier generation was deleted", name)
    return 1
