"""A fixed set of seeds breaks nothing; the same seed is the same run; a failure can be seen again, and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.simulation import mistakes
from tests.simulation.command import main, outcomes
from tests.simulation.faults import HOUR, RATES, Fault
from tests.simulation.invariants import Invariant
from tests.simulation.plan import VERSION, NotReadable, Plan, rates_of, read_plan, write_plan
from tests.simulation.run import Failure, Outcome, run
from tests.simulation.shrink import shrink

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).parents[2]

SEEDS = range(1, 81)

REGRESSIONS = (
    ("a resume after a lost checkpoint led to the same hold, again and again", 1102),
    ("the same, of a program that had given up", 1246),
    ("word about a job that was over was never read", 10281),
    ("a resume that came late released a hold that nobody had seen yet", 30350),
    ("a program was thought to run on a node that had been stopped and started again", 40027),
    ("a person's delete was dismissed together with a forged one", 60591),
)
"""Seeds that once broke an invariant, five jobs and two days each. They found it with the simulator of their day; what
keeps the mistakes from coming back are the tests in tests/recovery, and mistakes.py."""


def plan_of(seed: int, **changes: object) -> Plan:
    return replace(Plan(seed=seed, rates=dict(RATES)), **changes)


def tiny(seed: int = 3) -> Plan:
    return plan_of(seed, jobs=1, days=0.25)


# The fixed set


@pytest.fixture(scope="module")
def fixed_set() -> list[Outcome]:
    return list(outcomes([plan_of(seed) for seed in SEEDS]))


def test_no_invariant_breaks_in_the_fixed_set(fixed_set: list[Outcome]) -> None:
    broken = [(one.plan.command(), one.failure.what) for one in fixed_set if one.failure]
    assert broken == []


def test_every_fault_really_happens_in_the_fixed_set(fixed_set: list[Outcome]) -> None:
    counts: Counter[Fault] = Counter()
    for outcome in fixed_set:
        counts.update(outcome.counts)
    assert {fault for fault in Fault if not counts[fault]} == set()


@pytest.mark.parametrize(("what", "seed"), REGRESSIONS)
def test_what_was_broken_once_stays_mended(what: str, seed: int) -> None:
    assert run(plan_of(seed)).failure is None, what


@pytest.mark.parametrize("fault", [Fault.PREEMPTED, Fault.FREEZE_BEFORE, Fault.SWEEP_MISSED])
def test_a_fault_can_be_switched_off_and_be_the_only_one(fault: Fault) -> None:
    usual = run(plan_of(1, rates=rates_of(None, [fault])))
    assert usual.failure is None
    assert fault not in usual.counts
    alone = run(plan_of(1, rates=rates_of([fault], [])))
    assert alone.failure is None
    assert set(alone.counts) <= {fault}


# The same seed


def test_the_same_seed_is_the_same_run() -> None:
    one, again, other = run(plan_of(7)), run(plan_of(7)), run(plan_of(8))
    assert one == again
    assert one.digest != other.digest


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_same_seed_is_the_same_run_in_every_process(hash_seed: str) -> None:
    words = [sys.executable, "-m", "tests.simulation.command", *tiny().command().split()[1:]]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "functions")])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    said = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    outcome = run(tiny())
    assert said.splitlines() == [
        f"seed 3: nothing broke; digest {outcome.digest}, {outcome.steps} steps",
        "seeds 1, broken 0",
    ]


def test_listening_to_the_story_changes_nothing() -> None:
    told = run(tiny(), with_story=True)
    assert told.digest == run(tiny()).digest
    words = [words for _, _, words in told.story]
    assert any("there is something to start from" in one and "[WAITING: QueueCreate]" in one for one in words)
    assert any("API: create job-000-g1" in one for one in words)
    assert any("VM job-000-g1: started" in one for one in words)


# Seeing a failure again


@pytest.fixture
def mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code believes a DeleteNode entry at once."""
    mistakes.believe_entries(monkeypatch)


def failing_plan() -> Plan:
    return Plan(seed=1, jobs=3, days=1.0, rates={**rates_of([Fault.PREEMPTED, Fault.DELAYED], []), Fault.FORGED: HOUR})


@pytest.mark.usefixtures("mistaken")
def test_a_failure_says_what_broke_how_to_see_it_again_and_tells_the_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(failing_plan(), tmp_path / "plan.json")
    assert main(["--replay", str(tmp_path / "plan.json"), "--keep", str(tmp_path / "kept")]) == 1
    first = capsys.readouterr().out
    assert f"seed 1 BROKE: {Invariant.GONE_FIRST} (job job-00" in first
    assert "a forger: delete" in first
    assert "service: training has made progress" in first
    assert "phase RUNNING → HELD a person deleted the node" in first
    assert first.endswith("seeds 1, broken 1\n")
    (kept,) = (tmp_path / "kept").iterdir()
    assert f"scripts/simulate --replay {kept}" in first
    assert main(["--replay", str(kept), "--keep", str(tmp_path / "kept")]) == 1
    assert capsys.readouterr().out == first


def test_what_breaks_nothing_any_more_is_said_when_it_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tiny(), tmp_path / "plan.json")
    assert main(["--replay", str(tmp_path / "plan.json")]) == 0
    assert "nothing broke" in capsys.readouterr().out


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(12),
        plan_of(5, jobs=7, days=0.5, rates=rates_of(None, [Fault.FREEZE_AFTER, Fault.SKEW])),
        plan_of(1, rates=rates_of([Fault.PREEMPTED], [])),
        plan_of(1, rates={}),
    ],
)
def test_the_command_of_a_plan_is_the_plan(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Plan] = []

    def remember(one: Plan) -> Outcome:
        asked.append(one)
        return Outcome(one, None, "digest", 0, {}, [])

    monkeypatch.setattr("tests.simulation.command.run", remember)
    assert main(plan.command().split()[1:]) == 0
    assert asked == [plan]


# Files and arguments that are wrong

GOOD = msgspec.json.encode(tiny())

BAD_FILES = {
    "cut short": (GOOD[: len(GOOD) // 2], "is cut short or no JSON"),
    "empty": (b"", "is cut short or no JSON"),
    "older": (
        GOOD.replace(b'"version":1', b'"version":0'),
        f"of version 0 of the simulator, this is {VERSION}",
    ),
    "newer": (b'{"version": 99, "worlds": 3}', f"of version 99 of the simulator, this is {VERSION}"),
    "without a version": (b'{"seed": 1}', "missing required field `version`"),
    "an unknown fault": (GOOD.replace(b'"preempted"', b'"locusts"'), "Invalid enum value 'locusts'"),
    "without a seed": (b'{"version": 1, "rates": {}}', "missing required field `seed`"),
    "an unknown field": (b'{"version": 1, "seed": 1, "rates": {}, "weeks": 1}', "unknown field `weeks`"),
    "no jobs": (b'{"version": 1, "seed": 1, "jobs": 0, "rates": {}}', "jobs must be at least 1"),
    "too probable": (
        b'{"version": 1, "seed": 1, "rates": {"duplicated": 2}}',
        "must be a probability up to 1",
    ),
    "too often": (b'{"version": 1, "seed": 1, "rates": {"preempted": 0.5}}', "must be a mean time above 1 s"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_replayed_is_said_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, expected = BAD_FILES[name]
    (tmp_path / "plan.json").write_bytes(data)
    assert main(["--replay", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert str(tmp_path / "plan.json") in said.err
    assert expected in said.err


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match=r"missing\.json cannot be read: No such file"):
        read_plan(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--seeds", "0"], "'0' is no whole number above 0"),
        (["--jobs", "many"], "'many' is no whole number above 0"),
        (["--days", "-1"], "'-1' is no number of days"),
        (["--days", "soon"], "'soon' is no number of days"),
        (["--only", "locusts"], "there is no fault 'locusts'"),
    ],
)
def test_an_argument_that_is_wrong_is_said(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert expected in capsys.readouterr().err


# Making it short


@pytest.mark.usefixtures("mistaken")
def test_a_failure_is_made_short() -> None:
    long = run(failing_plan())
    short = shrink(long)
    assert short.failure is not None
    assert short.failure.invariant is Invariant.GONE_FIRST
    assert short.plan.jobs == 1
    assert set(short.plan.rates) == {Fault.FORGED}
    assert short.plan.days < long.plan.days


def test_another_failure_is_no_shorter_form_of_the_same() -> None:
    def attempt(plan: Plan) -> Outcome:
        breaks = Invariant.ONE_TRAINS if len(plan.rates) > 5 else Invariant.NO_LOST_WRITE
        return Outcome(plan, Failure(breaks, "job-000", "what", 1.0), "", 0, {}, [])

    short = shrink(attempt(plan_of(1)), attempt)
    assert (short.plan.jobs, len(short.plan.rates)) == (1, 6)
    assert 0 < short.plan.days < 0.1


def test_what_cannot_be_made_short_stays_as_it_is() -> None:
    outcome = Outcome(plan_of(1), Failure(Invariant.ONE_TRAINS, "job-000", "what", 2.0), "", 0, {}, [])
    assert shrink(outcome, lambda plan: outcome._replace(plan=plan, failure=None)) is outcome


# The page


def test_the_page_lists_every_fault_and_every_invariant() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    assert [fault for fault in Fault if f"`{fault}`" not in page] == []
    assert [invariant for invariant in Invariant if invariant.value not in page] == []
