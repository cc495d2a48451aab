from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import pytest
from tests.local.receiver import ManualClock

from tpu_recovery.local.schedule import Schedule


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def schedule(clock: ManualClock) -> Iterator[Schedule]:
    schedule = Schedule(clock, name="test", workers=4)
    schedule.start()
    yield schedule
    schedule.stop()


def test_actions_run_when_the_clock_gets_there(clock: ManualClock, schedule: Schedule) -> None:
    done: list[str] = []
    schedule.at(clock.now + 20, lambda: done.append("second"))
    schedule.at(clock.now + 10, lambda: done.append("first"))
    assert schedule.wait_idle(10)
    assert done == []
    clock.move(10)
    schedule.tick()
    assert schedule.wait_idle(10)
    assert done == ["first"]
    clock.move(10)
    assert schedule.wait_idle(10)
    assert done == ["first", "second"]


def test_a_moved_clock_is_noticed_without_being_told(clock: ManualClock, schedule: Schedule) -> None:
    rang = threading.Event()
    schedule.at(clock.now + 3600, rang.set)
    clock.move(3600)
    assert rang.wait(10)


def test_a_cancelled_action_does_not_run(clock: ManualClock, schedule: Schedule) -> None:
    done: list[str] = []
    schedule.cancel(schedule.at(clock.now + 10, lambda: done.append("cancelled")))
    clock.move(10)
    assert schedule.wait_idle(10, within=math.inf)
    assert done == []


def test_idle_means_that_what_runs_has_ended(schedule: Schedule) -> None:
    finish = threading.Event()

    def work() -> None:
        finish.wait(10)

    schedule.soon(work)
    assert not schedule.wait_idle(0.05)
    finish.set()
    assert schedule.wait_idle(10)


@pytest.mark.parametrize(("within", "idle"), [(0, True), (9, True), (10, False), (math.inf, False)])
def test_idle_can_look_ahead(clock: ManualClock, schedule: Schedule, within: float, idle: bool) -> None:
    schedule.at(clock.now + 10, lambda: None)
    assert schedule.wait_idle(0.05, within=within) is idle


def test_an_action_that_fails_is_not_hushed_up(schedule: Schedule, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a bug")

    schedule.soon(fail)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        schedule.wait_idle(10)
    assert "an action of the local stack failed" in caplog.text


def test_nothing_runs_after_the_stop(clock: ManualClock) -> None:
    done: list[str] = []
    schedule = Schedule(clock, name="test")
    schedule.start()
    schedule.at(clock.now + 1, lambda: done.append("late"))
    schedule.stop()
    clock.move(1)
    schedule.soon(lambda: done.append("later"))
    assert done == []
