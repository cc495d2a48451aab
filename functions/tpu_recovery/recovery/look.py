"""The look: lease, read what waits, observe, decide, act, record, set the next timer.

The order is what makes it safe to stop anywhere (docs/design.md, rule 8): what is to be done is committed before it is
done, and everything that is done can be done again. The lease only keeps two looks from doing the same work.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from tpu_recovery.errors import AlreadyExists, Conflict, Unreadable
from tpu_recovery.model.decision import Decision, Notify
from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import Observed
from tpu_recovery.model.spec import Wishes
from tpu_recovery.model.state import JobState, Lease, Phase
from tpu_recovery.recovery import timers
from tpu_recovery.recovery.act import Result, act
from tpu_recovery.recovery.decide import decide
from tpu_recovery.recovery.letters import read_letters
from tpu_recovery.recovery.observe import Listing, observe
from tpu_recovery.recovery.ports import Ports, Write
from tpu_recovery.recovery.records import InboxEntry, Record, Records, put_incident, put_state, settle_entry
from tpu_recovery.recovery.results import with_results

log = logging.getLogger(__name__)

TRIES = 8
"""How often a commit is tried that finds the job changed by somebody else: a look, a create, or a late entry."""


class Outcome(StrEnum):
    """What became of the wish to look."""

    LOOKED = "looked"
    BUSY = "busy"
    UNKNOWN = "unknown"


def look(ports: Ports, name: str, listing: Listing | None = None) -> Outcome:
    """Look at a job once. Raises Unreadable when the store does not answer; nothing is lost then, try again."""
    records = Records(ports.store)
    record = _leased(ports, records, name)
    if record is None:
        return Outcome.UNKNOWN
    lease = record.job.state.lease
    if lease is None:
        return Outcome.BUSY
    entries = records.waiting(name)
    letters, unread = read_letters(entries, ports.settings.service_account)
    observed = observe(ports, record.job, tuple(letters), listing)
    _conclude(ports, records, Case(record, observed, entries, unread))
    if records.waiting(name):
        timers.look_soon(ports, name, record.job.state)
    return Outcome.LOOKED


def _leased(ports: Ports, records: Records, name: str) -> Record | None:
    """The job with its lease taken; with no lease when somebody else holds it; None when there is no such job."""
    for _ in range(TRIES):
        record = records.load(name)
        if isinstance(record, Wishes):
            record = _register(ports, records, name)
        if record is None:
            return None
        state, now = record.job.state, ports.clock()
        if state.lease is not None and state.lease.until > now:
            timers.look_after_lease(ports, state, state.lease)
            return record._replace(job=replace(record.job, state=replace(state, lease=None)))
        state = replace(state, lease=Lease(id=ports.fresh(), until=now + ports.settings.lease))
        try:
            (version,) = records.commit(put_state(state, record.state_version))
        except Conflict:
            continue
        state = replace(state, version=state.version + 1)
        return record._replace(job=replace(record.job, state=state), state_version=version)
    raise Unreadable(f"job {name} changes faster than its lease can be taken")


def _register(ports: Ports, records: Records, name: str) -> Record | None:
    """A specification without a state: begin one. Somebody else may just have done so."""
    now = ports.clock()
    state = JobState(job=name, uid=ports.fresh()[:12].lower(), phase=Phase.REGISTERED, since=now)
    try:
        records.commit(put_state(state, None))
    except AlreadyExists:
        log.info("job %s was registered by another invocation", name, extra={"job": name})
    found = records.load(name)
    return found if isinstance(found, Record) else None


class Case(NamedTuple):
    """What one look has in hand: the job, what was observed, the inbox entries read, and those that say nothing."""

    record: Record
    observed: Observed
    entries: list[InboxEntry]
    unread: dict[str, str]

    def settled(self, decision: Decision) -> tuple[Write, ...]:
        """The writes that mark every entry of this look as read or ignored."""
        ignored = {**self.unread, **decision.ignored}
        return tuple(settle_entry(entry.key, ignored.get(entry.key, "")) for entry in self.entries)


def _conclude(ports: Ports, records: Records, case: Case) -> None:
    """Decide, write the intent, act, write the result. Decides anew when the job was changed in the meantime."""
    record, observed = case.record, case.observed
    lease = record.job.state.lease
    for _ in range(TRIES):
        now = ports.clock()
        decision = _named(ports, record.job, decide(record.job, observed, now))
        calls = tuple(action for action in decision.actions if not isinstance(action, Notify))
        done = () if calls else case.settled(decision)
        state = timers.scheduled(record.job.state, decision.state, now)
        state = state if calls else replace(state, lease=None)
        try:
            versions = records.commit(*_writes(record, replace(decision, state=state)), *done)
        except (Conflict, AlreadyExists):
            again = records.load(record.job.state.job)
            if not isinstance(again, Record) or again.job.state.lease != lease:
                log.warning("another look has taken over", extra={"job": record.job.state.job})
                return
            record = again
            continue
        _tell_log(record.job, decision, observed)
        _set_timer(ports, record.job.state, state)
        if calls:
            committed = Record(
                replace(record.job, state=replace(state, version=state.version + 1), incident=decision.incident),
                versions[0],
                versions[1] if decision.incident is not None else None,
            )
            results = act(ports, committed.job, calls)
            _record(ports, records, committed, results, case.settled(decision))
        _notify(ports, record.job.state.job, decision)
        return
    raise Unreadable(f"job {record.job.state.job} changes faster than a decision can be written")


def _set_timer(ports: Ports, before: JobState, after: JobState) -> None:
    """A queue that does not answer keeps nothing from being done: the sweep finds jobs whose timer is missing."""
    try:
        timers.set_timer(ports, before, after)
    except Unreadable as problem:
        log.error("no timer could be set, the sweep will look: %s", problem, extra={"job": after.job})


def _writes(record: Record, decision: Decision) -> list[Write]:
    writes = [put_state(decision.state, record.state_version)]
    if decision.incident is not None:
        known = record.job.incident is not None and record.job.incident.id == decision.incident.id
        writes.append(put_incident(decision.incident, record.incident_version if known else None))
    return writes


def _record(ports: Ports, records: Records, record: Record, results: list[Result], done: tuple[Write, ...]) -> None:
    """Write the results, whatever has changed meanwhile: what was done outside is a fact and is never dropped."""
    lease = record.job.state.lease
    for _ in range(TRIES):
        now = ports.clock()
        state, incident = with_results(record.job.state, record.job.incident, results, now)
        if state.lease == lease:
            state = replace(state, lease=None)
        state = timers.scheduled(record.job.state, state, now)
        writes = [put_state(state, record.state_version)]
        if incident is not None:
            writes.append(put_incident(incident, record.incident_version))
        try:
            records.commit(*writes, *done)
        except Conflict:
            again = records.load(record.job.state.job)
            if not isinstance(again, Record):
                return
            record = again
            continue
        _set_timer(ports, record.job.state, state)
        return
    raise Unreadable(f"job {record.job.state.job} changes faster than results can be written")


def _named(ports: Ports, job: Job, decision: Decision) -> Decision:
    """A new generation gets its secret here, where randomness is at hand; it is committed before it is used."""
    if decision.state.generation == job.state.generation:
        return decision
    return replace(decision, state=replace(decision.state, token=ports.fresh()))


def _notify(ports: Ports, job: str, decision: Decision) -> None:
    for action in decision.actions:
        if isinstance(action, Notify):
            try:
                ports.notifier.tell(job, action)
            except Unreadable as error:
                log.error("people could not be told: %s", error, extra={"job": job})


def _tell_log(job: Job, decision: Decision, observed: Observed) -> None:
    log.info(
        "%s",
        decision.why,
        extra={
            "job": job.state.job,
            "row": decision.row,
            "phase": decision.state.phase.value,
            "generation": decision.state.generation,
            "incident": decision.incident.id if decision.incident else "",
            "letters": len(observed.letters),
            "actions": [type(action).__name__ for action in decision.actions],
        },
    )
