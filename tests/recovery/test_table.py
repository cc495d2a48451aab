"""The table has no hole and no dead row, and every row that asks a person says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any

import pytest
from msgspec.structs import replace
from tests.recovery.builders import NOW, hours, job

from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import CheckpointFinding
from tpu_recovery.model.spec import Attempts, Deadlines
from tpu_recovery.model.state import Patience, Spending
from tpu_recovery.recovery.decide import fits, look_up
from tpu_recovery.recovery.situation import (
    Blame,
    Capacity,
    Kind,
    Permission,
    Runner,
    Situation,
    Standing,
    Wish,
)
from tpu_recovery.recovery.table import TABLE
from tpu_recovery.recovery.table.columns import FIXED_PATIENCE, GO_ON, Move, Row, Section

COLUMNS: dict[str, Any] = {
    "standing": Standing,
    "wish": Wish,
    "capacity": Capacity,
    "kind": Kind,
    "blame": Blame,
    "permission": Permission,
    "runner": Runner,
    "checkpoint": CheckpointFinding,
}
EVERYTHING_ELSE = Situation(
    standing=Standing.ACTIVE,
    wish=Wish.RUN,
    capacity=Capacity.READY,
    kind=Kind.SPOT,
    blame=Blame.NOBODY,
    permission=Permission.GIVEN,
    runner=Runner.STARTED,
    checkpoint=CheckpointFinding.FOUND,
)
ROWS = [row for section in Section for row in TABLE[section]]


def situations(section: Section) -> Iterator[Situation]:
    """All values of the columns that a section asks about."""
    asked = [name for name in COLUMNS if any(name in row.when for row in TABLE[section])]
    for values in product(*(_values(section, name) for name in asked)):
        yield replace(EVERYTHING_ELSE, **dict(zip(asked, values, strict=True)))


def _values(section: Section, column: str) -> list[str]:
    """Only those that want the job to run get past the first section."""
    if column == "wish" and section is not Section.PERSON:
        return [Wish.RUN, Wish.RESUME]
    return list(COLUMNS[column])


def jobs(section: Section) -> Iterator[Job]:
    """The job with every set of the section's concerns overdue, and every set of its budgets spent."""
    concerns = sorted({row.concern for row in TABLE[section] if row.concern and "clock" in row.when})
    budgets = sorted({row.budget for row in TABLE[section] if row.budget})
    late = Patience(since=NOW - hours(99), until=NOW)
    spent = Spending(spent=99)
    usual = job()
    for overdue, used_up in product(subsets(concerns), subsets(budgets)):
        state = replace(usual.state, patience=dict.fromkeys(overdue, late), spending=dict.fromkeys(used_up, spent))
        yield replace(usual, state=state)


def subsets(words: list[str]) -> Iterator[tuple[str, ...]]:
    """None, each alone, and all: rows that compete differ in one concern at most."""
    return chain([()], combinations(words, 1), [tuple(words)])


@pytest.mark.parametrize("section", Section)
def test_every_situation_has_a_row(section: Section) -> None:
    for situation, one in product(situations(section), jobs(section)):
        assert any(fits(row, one, situation, NOW) for row in TABLE[section]), situation


@pytest.mark.parametrize("section", Section)
def test_every_row_is_the_answer_to_some_situation(section: Section) -> None:
    answers = {
        next(row.name for row in TABLE[section] if fits(row, one, situation, NOW))
        for situation, one in product(situations(section), jobs(section))
    }
    assert answers == {row.name for row in TABLE[section]}


def test_every_way_through_the_table_ends_with_a_move() -> None:
    order = list(Section)
    for row in ROWS:
        assert (row.move is None) != (row.next is None), row.name
        assert row.next is None or order.index(row.next) > order.index(row.section) or _leads_to_creation(row), row.name


def _leads_to_creation(row: Row) -> bool:
    """The only way back: a READY node whose runner is never heard is replaced."""
    return (row.section, row.next) == (Section.RUNNER, Section.CHECKPOINT)


def test_a_hole_in_the_table_is_reported_with_the_situation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, Section.PERSON, ())
    with pytest.raises(LookupError, match="no row of section person fits"):
        look_up(job(), EVERYTHING_ELSE, NOW)


def test_names_of_rows_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.move is Move.HOLD], ids=lambda row: row.name)
def test_a_hold_says_what_to_do_and_how_to_go_on(row: Row) -> None:
    assert GO_ON in row.needs
    assert row.needs != GO_ON or row.cause is not None


@pytest.mark.parametrize("row", [row for row in ROWS if row.move is Move.WAIT], ids=lambda row: row.name)
def test_waiting_has_a_deadline_after_which_another_row_answers(row: Row) -> None:
    assert row.concern
    assert "within" in row.when["clock"]
    values = dict(row.when, clock=frozenset({"overdue"}))
    assert any(
        other.concern == row.concern and all(values[c] & allowed for c, allowed in other.when.items() if c in values)
        for other in TABLE[row.section]
        if "overdue" in other.when.get("clock", ())
    ), f"nothing answers when {row.concern} is overdue"


@pytest.mark.parametrize("row", [row for row in ROWS if row.move is Move.WAIT], ids=lambda row: row.name)
def test_waiting_has_a_phase_so_that_it_ends_a_hold(row: Row) -> None:
    assert row.phase is not None


def test_every_concern_has_a_deadline() -> None:
    known = {*FIXED_PATIENCE, *Deadlines.__struct_fields__, "start", "progress"}
    assert {row.concern for row in ROWS if row.concern} <= known


def test_every_budget_is_one_that_people_can_set() -> None:
    assert {row.budget for row in ROWS if row.budget} <= set(Attempts.__struct_fields__)


def test_only_a_wait_keeps_what_a_person_asked_for() -> None:
    assert all(row.move is Move.WAIT for row in ROWS if row.keeps_wish)
