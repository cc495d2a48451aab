"""The one pure decision: a job and what was read of it -> what to do. No I/O, no clock, no randomness."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from tpu_recovery.model.decision import Decision
from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import Observed
from tpu_recovery.model.state import Patience, Spending
from tpu_recovery.recovery import leftovers, moves
from tpu_recovery.recovery.absorb import absorb
from tpu_recovery.recovery.situation import Capacity, Situation, situation_of
from tpu_recovery.recovery.table import TABLE
from tpu_recovery.recovery.table.columns import FIXED_PATIENCE, Answer, Budget, Clock, Row, Section


def decide(job: Job, observed: Observed, now: datetime) -> Decision:
    """What to do about a job, given one fresh look at it."""
    job, ignored = absorb(job, observed, now)
    observed = replace(observed, letters=tuple(one for one in observed.letters if one.key not in ignored))
    situation = situation_of(job, observed, now)
    answer = look_up(job, situation, now)
    going_on = job.state.going_on and answer.row.keeps_wish
    patience = _patience(job, situation, answer, now)
    job = replace(job, state=replace(job.state, going_on=going_on, patience=patience))
    decision = moves.make(job, observed, situation, answer, now)
    deletes = leftovers.deletes(decision.state, observed.leftovers, now)
    state = replace(decision.state, why=decision.why)
    return replace(decision, state=state, actions=(*deletes, *decision.actions), ignored=ignored)


def asks_for_checkpoint(job: Job, observed: Observed, now: datetime) -> bool:
    """Whether the answer depends on what the checkpoint location holds, so that it has to be read first."""
    job, _ = absorb(job, observed, now)
    path = look_up(job, situation_of(job, observed, now), now).path
    return any(row.section is Section.CHECKPOINT for row in path)


def look_up(job: Job, situation: Situation, now: datetime) -> Answer:
    """Follow the table from its first section to the row that has a move.

    Raises LookupError when no row fits: the table has a hole, which a test rules out.
    """
    path: tuple[Row, ...] = ()
    section: Section | None = Section.PERSON
    while section is not None:
        row = next((row for row in TABLE[section] if fits(row, job, situation, now)), None)
        if row is None:
            raise LookupError(f"no row of section {section} fits {situation}")
        path = (*path, row)
        section = row.next
    return Answer(path)


def fits(row: Row, job: Job, situation: Situation, now: datetime) -> bool:
    """Whether all columns that the row names have one of its values."""
    values = {"clock": clock_of(row, job, now), "budget": budget_of(row, job)}
    return all(
        (values[column] if column in values else getattr(situation, column)) in allowed
        for column, allowed in row.when.items()
    )


def clock_of(row: Row, job: Job, now: datetime) -> Clock:
    """Whether the row's concern has been waited for until its deadline."""
    patience = job.state.patience.get(row.concern)
    return Clock.OVERDUE if patience is not None and now >= patience.until else Clock.WITHIN


def budget_of(row: Row, job: Job) -> Budget:
    """Whether the row's kind of attempt has one left."""
    if not row.budget or job.wishes is None:
        return Budget.LEFT
    limit: int = getattr(job.spec.attempts, row.budget)
    return Budget.LEFT if job.state.spending.get(row.budget, Spending()).counted < limit else Budget.SPENT


def _patience(job: Job, situation: Situation, answer: Answer, now: datetime) -> dict[str, Patience]:
    """Concerns on the way keep their deadline or get one; of the others those that are not settled by this answer."""
    unsettled = {word: one for word, one in job.state.patience.items() if _goes_on(word, situation)}
    on_the_way = {
        concern: job.state.patience.get(concern) or Patience(since=now, until=now + patience_for(job, concern))
        for concern in answer.concerns
    }
    return {**unsettled, **on_the_way}


def _goes_on(concern: str, situation: Situation) -> bool:
    """Whether a concern is still waited for although the answer is about something else, so that going back and forth
    between two answers does not put off both deadlines.

    A reading that says nothing settles nothing. The search for capacity is one concern over all its attempts, until a
    node is READY; the wait for progress is one over all crashes and reboots of that node.
    """
    if situation.capacity in (Capacity.UNREADABLE, Capacity.UNRECOGNIZED):
        return True
    ready = situation.capacity is Capacity.READY
    return (concern == "capacity" and not ready) or (concern == "progress" and ready)


def patience_for(job: Job, concern: str) -> timedelta:
    """How long a concern may wait."""
    if concern in FIXED_PATIENCE:
        return timedelta(seconds=FIXED_PATIENCE[concern])
    deadlines = job.spec.deadlines
    if concern == "start":
        return deadlines.startup_script + deadlines.setup + deadlines.beacon
    if concern == "progress":
        return 2 * job.spec.checkpoints.every if job.spec.checkpoints else timedelta(hours=2)
    length: timedelta = getattr(deadlines, concern)
    return length
