"""Nodes of earlier generations: when they count as stopped, when they are deleted, when they are over."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    NOW,
    absent,
    created,
    fresh_job,
    job,
    leftover,
    minutes,
    name_of,
    node,
    seconds,
    unreadable,
)

from tpu_recovery.model.observed import NodeReading
from tpu_recovery.model.state import CreateError, JobState, Leftover
from tpu_recovery.recovery.leftovers import deletes, followed, with_current

STATE = job().state


def holding(*leftovers: Leftover) -> JobState:
    return replace(STATE, generation=5, leftovers=leftovers)


def after(one: Leftover, *readings: NodeReading) -> tuple[Leftover, ...]:
    return followed(holding(one), readings, NOW).leftovers


class TestTheCurrentNodeBecomesOne:
    @pytest.mark.parametrize("state", ["READY", "CREATING", "DELETING", "STOPPED", "99"])
    def test_that_may_run_as_long_as_it_exists(self, state: str) -> None:
        assert with_current(STATE, node(state), NOW) == (leftover(1),)

    @pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED"])
    def test_that_runs_nothing_when_it_was_taken(self, state: str) -> None:
        assert with_current(STATE, node(state), NOW) == (leftover(1, stopped=True),)

    def test_that_needs_no_delete_when_it_is_absent_and_is_followed_all_the_same(self) -> None:
        expected = leftover(1, stopped=True, delete_accepted=NOW, absent_since=NOW)
        assert with_current(STATE, absent(), NOW) == (expected,)
        since = replace(STATE, absent_since=NOW - seconds(30))
        assert with_current(since, absent(), NOW)[0].absent_since == NOW - seconds(30)

    def test_unless_there_is_none(self) -> None:
        assert with_current(fresh_job().state, None, NOW) == ()
        assert with_current(STATE, None, NOW) == ()


class TestACreateCallThatWasRefused:
    """Another delivery of the same call may be frozen on its way, and make the node after all."""

    UNTIL = NOW + minutes(9)
    REFUSED = created(
        accepted=None, operation="", error=CreateError(code="RESOURCE_EXHAUSTED", message="quota", at=NOW)
    )

    def test_leaves_a_generation_that_counts_as_running_until_its_permission_has_run_out(self) -> None:
        (one,) = with_current(replace(STATE, create=self.REFUSED, launch_before=self.UNTIL), absent(), NOW)
        assert (one.stopped, one.could_appear_until, one.absent_since) == (False, self.UNTIL, NOW)
        held = replace(one, absent_since=NOW - minutes(5))
        assert after(held, absent()) == (held,)
        assert after(replace(held, could_appear_until=NOW), absent()) == ()

    def test_is_harmless_when_it_gave_no_permission(self) -> None:
        create = replace(self.REFUSED, launch=0)
        assert with_current(replace(STATE, create=create, launch_before=self.UNTIL), absent(), NOW)[0].stopped


class TestFollowing:
    @pytest.mark.parametrize("readings", [(), (unreadable(),)])
    def test_no_reading_changes_nothing(self, readings: tuple[NodeReading, ...]) -> None:
        one = leftover(1, absent_since=NOW - minutes(9))
        assert after(one, *readings) == (one,)

    def test_one_not_found_is_no_proof(self) -> None:
        (one,) = after(leftover(1), absent())
        assert (one.absent_since, one.stopped) == (NOW, False)

    def test_a_second_one_too_early_is_none_either(self) -> None:
        one = leftover(1, absent_since=NOW - seconds(19))
        assert after(one, absent()) == (one,)

    def test_a_second_one_twenty_seconds_later_ends_it(self) -> None:
        assert after(leftover(1, absent_since=NOW - seconds(20)), absent()) == ()

    @pytest.mark.parametrize(
        ("was_stopped", "state", "is_stopped"),
        [
            (False, "PREEMPTED", True),
            (False, "DELETING", False),
            (True, "DELETING", True),
            (True, "READY", False),
            (True, "99", False),
        ],
    )
    def test_what_it_runs_is_what_its_state_says(self, was_stopped: bool, state: str, is_stopped: bool) -> None:
        (one,) = after(leftover(1, stopped=was_stopped), node(state))
        assert one.stopped is is_stopped

    def test_one_that_was_gone_and_is_back_may_run_and_is_deleted_at_once(self) -> None:
        gone = leftover(1, stopped=True, delete_accepted=NOW - seconds(30), absent_since=NOW - seconds(30))
        (one,) = after(gone, node())
        assert one == leftover(1)
        assert len(deletes(holding(one), (node(),), NOW)) == 1

    def test_one_that_was_not_found_once_and_is_there_is_deleted_at_once(self) -> None:
        (one,) = after(leftover(1, delete_accepted=NOW - minutes(1), absent_since=NOW - seconds(9)), node())
        assert one == leftover(1)

    def test_one_that_was_stopped_and_runs_again_is_deleted_at_once(self) -> None:
        (one,) = after(leftover(1, stopped=True, delete_accepted=NOW), node("READY"))
        assert one.delete_accepted is None


class TestDeleting:
    def names(self, one: Leftover, *readings: NodeReading) -> list[str]:
        return [action.name for action in deletes(holding(one), readings, NOW)]

    @pytest.mark.parametrize("readings", [(), (unreadable(),), (node(),), (node("PREEMPTED"),)])
    def test_on_sight_until_the_api_has_accepted_it(self, readings: tuple[NodeReading, ...]) -> None:
        assert self.names(leftover(1), *readings) == [name_of(1)]

    @pytest.mark.parametrize("readings", [(), (unreadable(),), (node(),), (absent(),)])
    def test_not_again_right_after_it_was_accepted(self, readings: tuple[NodeReading, ...]) -> None:
        assert self.names(leftover(1, delete_accepted=NOW - minutes(9)), *readings) == []

    def test_again_when_the_node_is_still_there_after_ten_minutes(self) -> None:
        assert self.names(leftover(1, delete_accepted=NOW - minutes(10)), node("PREEMPTED")) == [name_of(1)]

    @pytest.mark.parametrize("reading", [absent(), node("DELETING")])
    def test_not_what_is_gone_or_going(self, reading: NodeReading) -> None:
        assert self.names(leftover(1), reading) == []
        assert self.names(leftover(1, delete_accepted=NOW - minutes(60)), reading) == []

    def test_never_a_node_without_our_labels(self) -> None:
        assert self.names(leftover(1), node(labels={})) == []
        assert self.names(leftover(1), node(labels=node(generation=2).labels)) == []

    def test_says_which_generation_is_over(self) -> None:
        assert deletes(holding(leftover(3)), (), NOW)[0].why == "generation 3 is over"
