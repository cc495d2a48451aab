"""Mistakes that the code could have, each of a few lines. The simulator must find them: tests.simulation.mutations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tpu_recovery.events.entry import digest, parse_entry
from tpu_recovery.model.decision import Decision
from tpu_recovery.model.job import Job, node_name
from tpu_recovery.model.messages import Event, Meaning, Report
from tpu_recovery.model.state import JobState, Leftover
from tpu_recovery.recovery import (
    absorb,
    act,
    creates,
    creation,
    incidents,
    intake,
    leftovers,
    letters,
    look,
    moves,
    observe,
    records,
    resumes,
    situation,
    sweep,
    timers,
    turn,
    wake,
)
from tpu_recovery.recovery.ports import Change, NodeRequest, Ports
from tpu_recovery.recovery.records import Record
from tpu_recovery.recovery.requests import node_request
from tpu_recovery.recovery.situation import Blame, Capacity, Runner, Standing
from tpu_recovery.recovery.table import TABLE
from tpu_recovery.recovery.table.columns import Move, Section

Patch = pytest.MonkeyPatch


# Waking up


def drop_the_last_read(patch: Patch) -> None:
    patch.setattr(timers, "look_soon", lambda *_: None)


def name_timers_without_number(patch: Patch) -> None:
    def nameless(kind: str, *parts: str) -> str:
        return digest(kind, parts[0]) if kind == "timer" else digest(kind, *parts)

    patch.setattr(timers, "digest", nameless)


def answer_before_writing(patch: Patch) -> None:
    patch.setattr(intake, "_written", lambda _ports, entry: entry)


def never_register(patch: Patch) -> None:
    patch.setattr(look, "_register", lambda *_: None)


# Names and writes


def reuse_names(patch: Patch) -> None:
    patch.setattr(creation, "node_name", lambda project, zone, job, _generation: node_name(project, zone, job, 1))


def write_without_version(patch: Patch) -> None:
    patch.setattr(records, "Replace", lambda path, fields, _version: Change(path, fields))


def fresh_request_ids(patch: Patch) -> None:
    numbers = itertools.count()
    patch.setattr(creates, "node_request", lambda *job: node_request(*job)._replace(request_id=f"r-{next(numbers)}"))


def create_ahead(patch: Patch) -> None:
    def ahead(*job: Any) -> NodeRequest:
        request = node_request(*job)
        stem, _, number = request.node_id.rpartition("-g")
        return request._replace(node_id=f"{stem}-g{int(number) + 1}")

    patch.setattr(creates, "node_request", ahead)


def create_in_the_look(patch: Patch) -> None:
    def at_once(ports: Any, job: Job, _action: Any) -> None:
        ports.capacity.create(node_request(job, ports.settings, ports.startup_script()))

    patch.setattr(act, "_queue_create", at_once)


def count_generations_back(patch: Patch) -> None:
    def back(decision: Decision) -> Decision:
        state = decision.state
        return replace(decision, state=replace(state, generation=1)) if state.generation > 2 else decision

    _after(patch, Move.CREATE, back)


# Two generations


def launch_at_once(patch: Patch) -> None:
    def stopped(*known: Any) -> tuple[Leftover, ...]:
        return tuple(replace(one, stopped=True) for one in leftovers.with_current(*known))

    patch.setattr(creation, "with_current", stopped)


def forget_leftovers(patch: Patch) -> None:
    patch.setattr(creation, "with_current", lambda state, *_: state.leftovers)


def never_remove_what_nobody_claims(patch: Patch) -> None:
    patch.setattr(sweep, "_remove_unclaimed", lambda *_: 0)


def ignore_labels(patch: Patch) -> None:
    for module in (situation, leftovers):
        patch.setattr(module, "is_ours", lambda *_: True)


def remove_what_is_current(patch: Patch) -> None:
    patch.setattr(sweep, "_is_past", lambda *_: True)


def keep_nodes_of_jobs_that_are_over(patch: Patch) -> None:
    patch.setattr(moves, "with_current", lambda state, *_: state.leftovers)
    patch.setattr(sweep, "_remove_unclaimed", lambda *_: 0)


# What a reading means


def _capacity(patch: Patch, mistake: Callable[[Job, Capacity], Capacity]) -> None:
    real = situation.capacity_of
    patch.setattr(situation, "capacity_of", lambda job, *known: mistake(job, real(job, *known)))


def absence_after_create_is_a_loss(patch: Patch) -> None:
    patch.setattr(situation, "_absent", lambda job, _observed, now: situation._vanished(job, now))


def no_answer_is_a_loss(patch: Patch) -> None:
    _capacity(patch, lambda _job, found: Capacity.TAKEN if found is Capacity.UNREADABLE else found)


def stopped_is_taken(patch: Patch) -> None:
    _capacity(patch, lambda _job, found: Capacity.TAKEN if found is Capacity.CHANGING else found)


def believe_entries(patch: Patch) -> None:
    def believe(job: Job, found: Capacity) -> Capacity:
        deleted = found is Capacity.READY and situation.blame_of(job) is Blame.PERSON
        return Capacity.VANISHED if deleted else found

    _capacity(patch, believe)


def believe_failed_calls(patch: Patch) -> None:
    def believe(*raw: Any, **known: Any) -> Event:
        event = parse_entry(*raw, **known)
        return replace(event, meaning=Meaning.DELETE_ENDED) if event.meaning is Meaning.CALL_REFUSED else event

    patch.setattr(letters, "parse_entry", believe)


def never_blame_people(patch: Patch) -> None:
    real = situation.blame_of
    patch.setattr(situation, "blame_of", lambda job: Blame.NOBODY if real(job) is Blame.PERSON else real(job))


def silence_is_proof(patch: Patch) -> None:
    patch.setattr(situation, "_silence", lambda _observed: Runner.SILENT)


def believe_any_token(patch: Patch) -> None:
    real = absorb._with_report

    def believe(state: JobState, report: Report, *received: Any) -> Any:
        return real(state, replace(report, token=state.token), *received)

    patch.setattr(absorb, "_with_report", believe)


def restart_what_is_over(patch: Patch) -> None:
    real = situation.standing_of

    def restart(job: Job) -> Standing:
        standing = real(job)
        return Standing.ACTIVE if standing is Standing.OVER else standing

    patch.setattr(situation, "standing_of", restart)
    patch.setattr(observe, "standing_of", restart)


def forget_a_row(patch: Patch) -> None:
    rows = TABLE[Section.CAPACITY]
    patch.setitem(TABLE, Section.CAPACITY, tuple(row for row in rows if row.name != "the create is under way"))


# Checkpoints


def forget_what_was_seen(patch: Patch) -> None:
    real = absorb._with_steps

    def newest_report_only(state: JobState, report: Report, *known: Any) -> JobState:
        forgotten = replace(state.progress, checkpoint_step=None)
        return real(replace(state, progress=forgotten) if report.checkpoint_step else state, report, *known)

    patch.setattr(absorb, "_with_steps", newest_report_only)


def advise_an_incomplete_step(patch: Patch) -> None:
    real = observe._checkpoint

    def later(*known: Any) -> Any:
        reading = real(*known)
        return replace(reading, step=reading.step + 50) if reading.step else reading

    patch.setattr(observe, "_checkpoint", later)


def forget_what_was_accepted(patch: Patch) -> None:
    real = absorb._with_steps

    def forget(state: JobState, *report: Any) -> JobState:
        return real(replace(state, progress=replace(state.progress, older_accepted=None)), *report)

    patch.setattr(absorb, "_with_steps", forget)


# Found by the simulator in the code as it was, and mended there


def resume_whenever_it_was_sent(patch: Patch) -> None:
    for module in (absorb, resumes):
        patch.setattr(module, "is_late", lambda *_: False)


def leave_word_and_go(patch: Patch) -> None:
    def sequenced(ports: Ports, record: Record, seq: int) -> str:
        outcome = look.look(ports, record.job.state.job)
        if outcome is look.Outcome.BUSY:
            wake._leave_word(ports, record.job.state, seq)
        return outcome.value

    real = wake._sequenced

    def due(ports: Ports, record: Record, seq: int) -> str:
        state = record.job.state
        is_due = state.timer_seq == seq and timers.is_due(state, ports.clock())
        return sequenced(ports, record, seq) if is_due else real(ports, record, seq)

    patch.setattr(wake, "_sequenced", due)


def trust_what_a_runner_said_before_its_node_was_stopped(patch: Patch) -> None:
    patch.setattr(absorb, "STATES_WITHOUT_VM", frozenset())


# Words and accounts


def _after(patch: Patch, move: Move, change: Callable[[Decision], Decision]) -> None:
    real = moves._MOVES[move]
    patch.setitem(moves._MOVES, move, lambda turn: change(real(turn)))


def hold_without_words(patch: Patch) -> None:
    def silent(decision: Decision) -> Decision:
        hold = decision.state.hold
        return replace(decision, state=replace(decision.state, hold=hold and replace(hold, needs="")))

    _after(patch, Move.HOLD, silent)


def reopen_incidents(patch: Patch) -> None:
    def reopen(decision: Decision) -> Decision:
        held = decision.incident.id if decision.incident else ""
        return replace(decision, state=replace(decision.state, incident=held))

    _after(patch, Move.HOLD, reopen)


def spend_in_secret(patch: Patch) -> None:
    real = turn.spend
    patch.setattr(creation, "spend", lambda *known: (real(*known)[0], ()))


def forget_what_was_spent(patch: Patch) -> None:
    patch.setattr(moves, "forgiven", lambda _spending: {})


def open_incidents_without_evidence(patch: Patch) -> None:
    real = incidents.opened

    def empty(*known: Any) -> Any:
        state, incident = real(*known)
        return state, incident and replace(incident, evidence=())

    patch.setattr(incidents, "opened", empty)


def never_hand_over(patch: Patch) -> None:
    _after(patch, Move.HAND_OFF, lambda decision: replace(decision, actions=()))
