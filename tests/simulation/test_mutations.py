"""Every invariant can fail: each mistake is found within the seeds that it states, and without it nothing breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulation.invariants import Invariant
from tests.simulation.mutations import MUTATIONS, Finding, check_all

pytestmark = pytest.mark.simulation

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return check_all()


@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=[one.make.__name__ for one in MUTATIONS])
def test_the_mistake_is_found_and_it_is_the_mistake(number: int, findings: list[Finding]) -> None:
    mutation, finding = MUTATIONS[number], findings[number]
    assert finding.seed is not None, f"{mutation.words}: not caught by {mutation.within} seeds"
    assert finding.without == "", "this breaks without the mistake, too"


def test_every_invariant_has_a_mistake_that_breaks_it() -> None:
    assert {mutation.breaks for mutation in MUTATIONS} == set(Invariant)


def test_the_page_lists_every_mistake() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [one.words for one in MUTATIONS if f"| {one.words} | {one.breaks} |" not in page] == []
