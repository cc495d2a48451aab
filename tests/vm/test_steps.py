from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.vm.handoffs import handoff

from tpu_recovery.vm.handoff import Handoff, Launch
from tpu_recovery.vm.state import JobState, Settled
from tpu_recovery.vm.steps import Situation, Step, count_crash, next_step

NOW = datetime(2026, 12, 1, 15, tzinfo=UTC)
THIS = Launch(2, 1)
OTHER = Launch(1, 4)
LATE = {"launch_before": (NOW - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}
EARLY = {"launch_before": NOW.strftime("%Y-%m-%dT%H:%M:%SZ")}
STOP = {"wanted": "stop"}
ZERO = {"launch": 0}
ENDED_AND_LEAVING = {"running": THIS, "ended": True, "terminating": True}


def over(kind: str, boot: str = "b1", launch: Launch = THIS) -> Settled:
    return Settled(launch, boot, kind)


REFUSED_AS_EXPIRED = {"settled": Settled(THIS, "b1", "refused", "launch-expired")}


# fmt: off
CASES: list[tuple[str, dict[str, Any], dict[str, Any], Step]] = [
    # what is the case                        handoff  situation                                   step
    ("a fresh VM",                               {},    {},                                        Step.PREPARE),
    ("everything is prepared",                   {},    {"prepared": THIS},                        Step.START),
    ("something older was prepared",             {},    {"prepared": OTHER},                       Step.PREPARE),
    ("launch 0",                                 ZERO,  {},                                        Step.IDLE),
    ("in time for a first start",                EARLY, {},                                        Step.PREPARE),
    ("too late for a first start",               LATE,  {},                                        Step.REFUSE_EXPIRED),
    ("too late after preparing for long",        LATE,  {"prepared": THIS},                        Step.REFUSE_EXPIRED),
    ("an older launch was started here",         LATE,  {"started": Launch(2, 0)},                 Step.REFUSE_EXPIRED),
    ("this launch was started here before",      LATE,  {"started": THIS},                         Step.PREPARE),
    ("the program runs",                         {},    {"running": THIS},                         Step.WATCH),
    ("it runs and its first start is long ago",  LATE,  {"running": THIS, "started": THIS},        Step.WATCH),
    ("an older launch runs",                     {},    {"running": OTHER},                        Step.STOP),
    ("it runs and a stop is wanted",             STOP,  {"running": THIS},                         Step.STOP),
    ("it ended",                                 {},    {"running": THIS, "ended": True},          Step.END),
    ("it ended just when a stop is wanted",      STOP,  {"running": THIS, "ended": True},          Step.END),
    ("nothing runs and a stop is wanted",        STOP,  {},                                        Step.SAY_STOPPED),
    ("a stop was obeyed",                        STOP,  {"settled": over("stopped")},              Step.IDLE),
    ("a stop of an older launch was obeyed",     {},    {"settled": over("stopped", launch=OTHER)},Step.PREPARE),
    ("it stopped and the same launch is back",   {},    {"settled": over("stopped")},              Step.IDLE),
    ("it finished",                              {},    {"settled": over("finished")},             Step.IDLE),
    ("it finished before this boot",             {},    {"settled": over("finished", "b0")},       Step.REPEAT),
    ("it was given up before this boot",         {},    {"settled": over("gave_up", "b0")},        Step.REPEAT),
    ("setup failed",                             {},    {"settled": over("setup_failed")},         Step.IDLE),
    ("setup failed before this boot",            {},    {"settled": over("setup_failed", "b0")},   Step.PREPARE),
    ("it was refused before this boot",          {},    {"settled": over("refused", "b0")},        Step.PREPARE),
    ("it was refused as expired",                LATE,  REFUSED_AS_EXPIRED,                        Step.IDLE),
    ("it expired and was given more time",       EARLY, REFUSED_AS_EXPIRED,                        Step.PREPARE),
    ("it crashed a moment ago",                  {},    {"prepared": THIS, "retry_in": 3.0},       Step.BACK_OFF),
    ("the VM shuts down",                        {},    {"running": THIS, "terminating": True},    Step.LEAVE),
    ("it ended because the VM shuts down",       {},    ENDED_AND_LEAVING,                         Step.LEAVE),
]
# fmt: on


@pytest.mark.parametrize(
    ("changes", "situation", "step"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_next_step_when(changes: dict[str, Any], situation: dict[str, Any], step: Step) -> None:
    assert next_step(handoff(**changes), Situation(now=NOW, boot="b1", **situation)) is step


@pytest.mark.parametrize(("terminating", "step"), [(False, Step.IDLE), (True, Step.LEAVE)])
def test_without_any_hand_off(terminating: bool, step: Step) -> None:
    nothing: Handoff | None = None
    assert next_step(nothing, Situation(now=NOW, boot="b1", terminating=terminating)) is step


def test_crashes_are_counted_until_the_program_gets_further_than_ever_in_this_launch() -> None:
    job = JobState(best_checkpoint=40)
    counts = []
    for step, checkpoint in [(None, 40), (45, 40), (45, 40), (44, None), (46, 40), (46, 60), (None, None)]:
        count_crash(job, step, checkpoint)
        counts.append(job.crashes)
    assert counts == [1, 0, 1, 2, 0, 0, 1]
    assert (job.best_step, job.best_checkpoint) == (46, 60)


def test_a_newer_launch_begins_with_no_crashes() -> None:
    job = JobState(crashes=2, best_step=10, best_checkpoint=5)
    job.see(THIS)
    assert job == JobState(seen=THIS)
