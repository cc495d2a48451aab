"""What the simulator must find: for every invariant a mistake that breaks it, and the world in which it shows.

A mutation is caught when one of the seeds 1, 2, 3 … up to `within` breaks the invariant that it says.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pytest
from tests.simulation import mistakes
from tests.simulation.faults import HOUR, Fault
from tests.simulation.invariants import Invariant
from tests.simulation.plan import Plan
from tests.simulation.run import Failure, run

USUAL: Mapping[Fault, float] = {Fault.PREEMPTED: 3 * HOUR, Fault.NO_CAPACITY: 0.25}
"""What happens in every world: nodes are taken, and there is not always another one."""

NO_SWEEPS: Mapping[Fault, float] = {**USUAL, Fault.SWEEP_MISSED: 1.0}
SILENCE: Mapping[Fault, float] = {**USUAL, Fault.VM_SILENT: 0.4}


class Mutation(NamedTuple):
    """One mistake."""

    words: str
    breaks: Invariant
    make: Callable[[pytest.MonkeyPatch], None]
    rates: Mapping[Fault, float] = USUAL
    jobs: int = 3
    days: float = 1.0
    within: int = 3
    """Seeds of which one must find it."""

    def run(self, seed: int) -> Failure | None:
        """What breaks in this world, with the code as it is at this moment."""
        return run(Plan(seed=seed, jobs=self.jobs, days=self.days, rates=dict(self.rates))).failure

    def caught(self) -> int | None:
        """The seed that finds the mistake; None when none does."""
        with pytest.MonkeyPatch.context() as patch:
            self.make(patch)
            for seed in range(1, self.within + 1):
                failure = self.run(seed)
                if failure is not None and failure.invariant is self.breaks:
                    return seed
        return None


MUTATIONS = (
    Mutation(
        "the last read of the inbox before a look ends is left out",
        Invariant.OUTCOME_IN_TIME,
        mistakes.drop_the_last_read,
        {**NO_SWEEPS, Fault.PREEMPTED: 0.5 * HOUR},
    ),
    Mutation(
        "timers are named without their number",
        Invariant.LOOK_IN_TIME,
        mistakes.name_timers_without_number,
        NO_SWEEPS,
    ),
    Mutation(
        "a message is answered before it is written", Invariant.KEPT_BEFORE_ANSWERED, mistakes.answer_before_writing
    ),
    Mutation("a new job is never registered", Invariant.OUTCOME_IN_TIME, mistakes.never_register, jobs=1, days=0.1),
    Mutation("names are used again", Invariant.NAME_OF_GENERATION, mistakes.reuse_names),
    Mutation(
        "states are written whatever has changed meanwhile, by whoever had the lease once",
        Invariant.NO_LOST_WRITE,
        mistakes.write_without_version,
        {**USUAL, Fault.DUPLICATED: 1.0, Fault.FREEZE_BEFORE: 0.01},
    ),
    Mutation(
        "every create call has a request id of its own",
        Invariant.NAME_ONCE,
        mistakes.fresh_request_ids,
        {**USUAL, Fault.SERVED_TWICE: 1.0},
    ),
    Mutation("a create call goes out before its intent is written", Invariant.INTENT_FIRST, mistakes.create_ahead),
    Mutation("the look creates by itself", Invariant.BY_QUEUE, mistakes.create_in_the_look),
    Mutation("generations are counted back", Invariant.GENERATIONS_GROW, mistakes.count_generations_back),
    Mutation(
        "a launch is permitted before the older generation is gone",
        Invariant.ONE_TRAINS,
        mistakes.launch_at_once,
        {**USUAL, Fault.VM_LATE: 0.7, Fault.API_DENIES: 0.1},
        jobs=10,
        within=10,
    ),
    Mutation("an older generation is forgotten", Invariant.ALL_RECORDED, mistakes.forget_leftovers),
    Mutation(
        "nodes that no job claims are left alone",
        Invariant.ALL_RECORDED,
        mistakes.never_remove_what_nobody_claims,
        {
            Fault.PREEMPTED: 0.5 * HOUR,
            Fault.SERVED_TWICE: 0.5,
            Fault.FREEZE_BEFORE: 0.02,
            Fault.REQUEST_FORGOTTEN: 1.0,
        },
        jobs=5,
        within=10,
    ),
    Mutation(
        "the node of a job that has succeeded is forgotten",
        Invariant.ALL_RECORDED,
        mistakes.keep_nodes_of_jobs_that_are_over,
        jobs=10,
    ),
    Mutation(
        "labels are not looked at",
        Invariant.OTHERS_UNTOUCHED,
        mistakes.ignore_labels,
        {**USUAL, Fault.FOREIGN_NODE: 1.0},
    ),
    Mutation("the sweep removes what is current", Invariant.DELETE_RECORDED, mistakes.remove_what_is_current),
    Mutation(
        "NOT_FOUND while a create is under way is a loss",
        Invariant.UNFINISHED_IS_NO_LOSS,
        mistakes.absence_after_create_is_a_loss,
        {**USUAL, Fault.NODE_HIDDEN: 1.0},
    ),
    Mutation(
        "an API that does not answer is a loss",
        Invariant.UNFINISHED_IS_NO_LOSS,
        mistakes.no_answer_is_a_loss,
        {**USUAL, Fault.API_UNAVAILABLE: 0.1},
    ),
    Mutation(
        "silence is proof that nothing runs, even where nothing can be heard",
        Invariant.TRAINING_IS_KEPT,
        mistakes.silence_is_proof,
        {**USUAL, Fault.ATTRIBUTES_OFF: 1.0, Fault.DELAYED: 1.0},
    ),
    Mutation(
        "a node that a person stopped is a loss",
        Invariant.STANDS_DOWN,
        mistakes.stopped_is_taken,
        {**USUAL, Fault.PERSON_STOPS: 4 * HOUR},
    ),
    Mutation(
        "nobody asks who deleted a node",
        Invariant.STANDS_DOWN,
        mistakes.never_blame_people,
        {**USUAL, Fault.PERSON_DELETES: 4 * HOUR},
    ),
    Mutation(
        "a DeleteNode entry is believed without confirmation",
        Invariant.GONE_FIRST,
        mistakes.believe_entries,
        {**USUAL, Fault.FORGED: HOUR},
    ),
    Mutation(
        "an entry about a call that failed is believed",
        Invariant.REFUSED_CALL,
        mistakes.believe_failed_calls,
        {Fault.PREEMPTED: HOUR, Fault.FORGOTTEN: 1.0, Fault.ENTRY_LOST: 0.5, Fault.FORGED: 0.25 * HOUR},
        within=10,
    ),
    Mutation(
        "a report counts without the generation's token",
        Invariant.FINISHED_FIRST,
        mistakes.believe_any_token,
        {**USUAL, Fault.FORGED: HOUR},
    ),
    Mutation(
        "a job that is over is started again", Invariant.FINAL_STAYS, mistakes.restart_what_is_over, jobs=10, within=10
    ),
    Mutation("the table lacks a row", Invariant.NO_SURPRISE, mistakes.forget_a_row),
    Mutation(
        "the newest report alone says which checkpoint was seen",
        Invariant.NEVER_OLDER,
        mistakes.forget_what_was_seen,
        {**USUAL, Fault.CHECKPOINT_LOST: 2 * HOUR},
    ),
    Mutation(
        "reports from before an older checkpoint was accepted still count",
        Invariant.ALL_TRAIN,
        mistakes.forget_what_was_accepted,
        {**USUAL, Fault.CHECKPOINT_LOST: HOUR, Fault.PROGRAM_CRASHES: 0.5},
        jobs=5,
        within=10,
    ),
    Mutation(
        "a step is handed over that nobody has seen complete",
        Invariant.CHECKPOINT_COMPLETE,
        mistakes.advise_an_incomplete_step,
    ),
    Mutation(
        "a resume counts whenever it was sent",
        Invariant.STANDS_DOWN,
        mistakes.resume_whenever_it_was_sent,
        {Fault.PERSON_DELETES: 0.5 * HOUR, Fault.DELAYED: 0.5},
        jobs=20,
        days=2.0,
        within=5,
    ),
    Mutation(
        "a timer that leaves word does not try the lease again",
        Invariant.OUTCOME_IN_TIME,
        mistakes.leave_word_and_go,
        jobs=5,
        within=10,
    ),
    Mutation(
        "what a runner said before its node was stopped still counts",
        Invariant.ALL_TRAIN,
        mistakes.trust_what_a_runner_said_before_its_node_was_stopped,
        {Fault.PERSON_STOPS: 2 * HOUR, Fault.VM_SILENT: 0.3},
        jobs=5,
        within=10,
    ),
    Mutation("a hold does not say what to do", Invariant.HOLD_EXPLAINED, mistakes.hold_without_words, SILENCE),
    Mutation("an incident that was closed goes on", Invariant.INCIDENT_CLOSED, mistakes.reopen_incidents, SILENCE),
    Mutation("an attempt is used up in secret", Invariant.BUDGETS_EXPLAINED, mistakes.spend_in_secret, SILENCE),
    Mutation("progress wipes out what was spent", Invariant.BUDGETS_GROW, mistakes.forget_what_was_spent, SILENCE),
    Mutation(
        "a generation is given up and nobody notes why",
        Invariant.EVIDENCE_FIRST,
        mistakes.open_incidents_without_evidence,
    ),
    Mutation("a permission is never handed over", Invariant.ALL_TRAIN, mistakes.never_hand_over, SILENCE),
)


class Finding(NamedTuple):
    """What became of a mutation."""

    number: int
    seed: int | None
    """The seed that found it."""
    without: str
    """What breaks in the same run without it; empty when nothing does."""


def check(number: int) -> Finding:
    """Look for one mutation, and whether it is the mutation that was found."""
    mutation = MUTATIONS[number]
    seed = mutation.caught()
    without = mutation.run(seed or 1)
    return Finding(number, seed, without.what if without else "")


def check_all() -> list[Finding]:
    """All of them, on all cores."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        return pool.map(check, range(len(MUTATIONS)), chunksize=1)


def table(findings: Iterable[Finding]) -> str:
    """Mutation, invariant, seeds until caught: as the page has it."""
    found = [(MUTATIONS[one.number], one.seed) for one in findings]
    rows = [f"| {one.words} | {one.breaks} | {seed or 'not caught'} |" for one, seed in found]
    return "\n".join(["| Mutation | Invariant that breaks | Seeds until caught |", "|---|---|---|", *rows])
