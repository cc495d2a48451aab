"""What each move leaves behind, beyond what test_decide.py says about it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    NOW,
    OTHER_ZONE,
    STOCKOUT,
    ZONE,
    Story,
    absent,
    coming_job,
    created,
    creates,
    fresh_job,
    hours,
    job,
    leftover,
    minutes,
    name_of,
    node,
    resume,
    running,
    said,
    seconds,
    seen,
    told,
    waiting_job,
    wishing,
)

from tpu_recovery.model.decision import HandOff, QueueCreate
from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import ReportKind
from tpu_recovery.model.observed import Observed
from tpu_recovery.model.spec import Placement
from tpu_recovery.model.state import FINAL, Hold, Patience, Phase, Spending
from tpu_recovery.recovery import creation, moves
from tpu_recovery.recovery.decide import decide, look_up
from tpu_recovery.recovery.situation import situation_of
from tpu_recovery.recovery.table import TABLE
from tpu_recovery.recovery.table.columns import Answer, Move, Row, Section
from tpu_recovery.recovery.turn import LAUNCH_MEMORY, in_phase

HELD = Hold(reason="why", needs="act", since=NOW)


def make(one: Job, observed: Observed, row: Row) -> object:
    return moves.make(one, observed, situation_of(one, observed, NOW), Answer((row,)), NOW)


class TestACreateThatNobodyAnswered:
    @pytest.mark.parametrize("paused", [True, False])
    def test_is_asked_for_again_at_once_when_the_job_goes_on_after_a_rest(self, paused: bool) -> None:
        story = Story(waiting_job())
        if paused:
            story.rewish(lambda one: wishing(one, paused=True)).look(seen())
            story.rewish(wishing)
        else:
            hold = Hold(reason="why", needs="act", since=NOW)
            state = in_phase(story.state, Phase.HELD, NOW)
            story.job = replace(story.job, state=replace(state, hold=hold))
        letters = () if paused else (resume(NOW + minutes(5)),)
        decision = story.look(seen(absent(), *letters), after=minutes(5))
        assert creates(decision) == [1]
        create = decision.state.create
        assert create is not None
        assert (create.attempt, create.due) == (2, story.now)
        assert decision.state.launch_before == story.now + LAUNCH_MEMORY

    def test_keeps_its_launch_forbidden_when_it_was(self) -> None:
        create = created(intended=NOW, due=NOW, operation="", accepted=None, launch=0, queued=False)
        decision = decide(waiting_job(create=create), seen(absent()), NOW)
        assert (creates(decision), decision.state.launch_before) == ([1], None)

    @pytest.mark.parametrize("phase", [Phase.HELD, Phase.PAUSED])
    def test_and_one_that_was_accepted_stays_so_over_a_rest(self, phase: Phase) -> None:
        one = coming_job()
        assert in_phase(one.state, phase, NOW).create == one.state.create


class TestCreate:
    def test_is_put_into_the_queue_with_a_request_id_that_is_the_same_for_the_same_generation(self) -> None:
        first, second = (decide(job(), seen(node("PREEMPTED")), NOW + minutes(i)).state.create for i in (0, 1))
        other = decide(job(uid="uid2"), seen(absent()), NOW).state.create
        assert first is not None
        assert second is not None
        assert other is not None
        assert first.request_id == second.request_id != other.request_id

    def test_forgets_everything_about_the_generation_before(self) -> None:
        one = job(
            runners=running(ReportKind.GAVE_UP),
            patience={"progress": Patience(since=NOW, until=NOW)},
            absent_since=NOW,
        )
        state = decide(one, seen(node("PREEMPTED")), NOW).state
        assert (state.runners, state.suspicion, state.absent_since, state.patience) == ((), (), None, {})
        assert (state.token, state.handed, state.failures) == ("", 0, 0)

    def test_keeps_the_names_of_earlier_nodes_so_that_late_entries_find_the_job(self) -> None:
        nodes = tuple(f"projects/p/locations/z/nodes/old-{number}" for number in range(creation.KEPT_NAMES))
        workers = tuple(f"projects/p/zones/z/instances/w-{number}" for number in range(2 * creation.KEPT_NAMES))
        resources = decide(job(resources=(*nodes, *workers)), seen(node("PREEMPTED")), NOW).state.resources
        assert resources == (*nodes[1:], name_of(2), *workers[creation.KEPT_NAMES :])

    def test_stays_in_the_same_placement_after_a_loss_and_goes_to_the_next_after_a_stockout(self) -> None:
        placements = (Placement(zone=ZONE), Placement(zone=OTHER_ZONE))
        lost = decide(wishing(job(), placements=placements), seen(node("PREEMPTED")), NOW).state
        assert lost.slices[0].name == name_of(2, ZONE)
        story = Story(wishing(coming_job(), placements=placements))
        for generation, zone in ((2, OTHER_ZONE), (3, ZONE)):
            story.look(seen(absent(generation - 1), operation=STOCKOUT))
            assert story.state.slices[0].name == name_of(generation, zone)
            story.accepted()

    def test_waits_twice_as_long_after_each_failure_and_not_all_jobs_at_the_same_moment(self) -> None:
        delays = []
        for failures in range(8):
            (action,) = decide(coming_job(failures=failures), seen(absent(), operation=STOCKOUT), NOW).actions
            assert isinstance(action, QueueCreate)
            delays.append(action.delay)
        longest = [min(seconds(30) * 2**number, minutes(15)) for number in range(8)]
        assert all(most / 2 <= delay <= most for delay, most in zip(delays, longest, strict=True))
        others = {
            decide(coming_job(uid=f"uid{number}"), seen(absent(), operation=STOCKOUT), NOW).state.wake_at
            for number in range(5)
        }
        assert len(others) == 5

    def test_sets_a_look_for_the_case_that_the_platforms_entry_does_not_arrive(self) -> None:
        assert decide(fresh_job(), seen(), NOW).state.wake_at == NOW + minutes(5)

    def test_keeps_the_search_for_capacity_as_one_wait(self) -> None:
        state = decide(coming_job(), seen(absent(), operation=STOCKOUT), NOW).state
        assert state.patience == {"capacity": Patience(since=NOW, until=NOW + hours(24))}


class TestHandOffAndLaunch:
    def test_hand_off_names_the_current_node_and_the_launch(self) -> None:
        decision = decide(job(launch=0, handed=0), seen(node()), NOW)
        (action,) = decision.actions
        assert isinstance(action, HandOff)
        assert (action.name, action.launch) == (name_of(1), 1)
        assert decision.state.wake_at == NOW + minutes(1)

    def test_relaunch_raises_the_launch_and_is_noted_in_the_open_incident(self) -> None:
        story = Story(job())
        story.look(seen(node("PREEMPTED")))
        story.accepted()
        failed = said(ReportKind.SETUP_FAILED, generation=2)
        decision = story.look(seen(node(generation=2), failed), after=minutes(5))
        assert decision.incident is not None
        assert decision.incident.actions[-1].what == "launch 2"
        assert decision.incident.spent == ("loss", "setup")
        assert decision.state.wake_at == story.now + minutes(5)


class TestWaitingAndKeeping:
    def test_the_next_look_is_at_the_deadline_if_that_comes_sooner(self) -> None:
        patience = {"creation": Patience(since=NOW, until=NOW + seconds(40))}
        decision = decide(coming_job(patience=patience), seen(node("CREATING")), NOW)
        assert decision.state.wake_at == NOW + seconds(40)

    def test_a_phase_that_stays_keeps_its_beginning(self) -> None:
        assert decide(job(runners=running(ReportKind.STARTED)), seen(node()), NOW).state.since == NOW - hours(1)

    def test_a_hold_ends_with_the_phase_that_it_made(self) -> None:
        assert in_phase(job(Phase.HELD, hold=HELD).state, Phase.WAITING, NOW).hold is None
        assert in_phase(job(Phase.HELD, hold=HELD).state, Phase.HELD, NOW).hold == HELD
        assert in_phase(job(Phase.HELD, hold=HELD).state, None, NOW).hold == HELD

    def test_people_are_told_once_that_a_program_is_suspected(self) -> None:
        late = {"progress": Patience(since=NOW - hours(2), until=NOW)}
        one = job(runners=running(ReportKind.STARTED), patience=late)
        assert len(told(decide(one, seen(node()), NOW))) == 1
        again = job(Phase.SUSPECT, runners=running(ReportKind.STARTED), patience=late)
        assert told(decide(again, seen(node()), NOW)) == []

    @pytest.mark.parametrize("phase", sorted(FINAL))
    def test_a_job_that_is_over_is_looked_at_while_a_node_of_it_may_run(self, phase: Phase) -> None:
        with_node = job(phase, slices=(), leftovers=(leftover(1, delete_accepted=NOW),))
        assert decide(with_node, seen(), NOW).state.wake_at == NOW + minutes(2)
        without = job(phase, slices=(), leftovers=(leftover(1, delete_accepted=NOW, stopped=True),))
        assert decide(without, seen(), NOW).state.wake_at is None


class TestBudgets:
    def test_spending_adds_up(self) -> None:
        state = decide(job(spending={"loss": Spending(spent=3)}), seen(node("PREEMPTED")), NOW).state
        assert state.spending == {"loss": Spending(spent=4)}

    def test_a_silent_runner_costs_its_own_attempt_and_a_loss(self) -> None:
        late = {"beacon": Patience(since=NOW - hours(1), until=NOW)}
        decision = decide(job(Phase.STARTING, patience=late), seen(node()), NOW)
        assert creates(decision) == [2]
        assert decision.incident is not None
        assert decision.incident.spent == ("beacon", "loss")


class TestMisuse:
    def test_a_row_without_a_move_cannot_be_made(self) -> None:
        row = next(row for row in TABLE[Section.PERSON] if row.move is None)
        with pytest.raises(LookupError, match="'the job is to run' has no move"):
            make(job(), seen(node()), row)

    def test_a_create_that_was_never_intended_cannot_be_repeated(self) -> None:
        row = next(row for row in TABLE[Section.CAPACITY] if row.move is Move.REPEAT_CREATE)
        with pytest.raises(LookupError, match="no create to repeat"):
            make(job(create=None), seen(absent()), row)

    def test_every_move_is_made_by_some_row(self) -> None:
        assert {row.move for rows in TABLE.values() for row in rows} - {None} == set(Move)

    def test_an_answer_is_the_same_however_often_it_is_looked_up(self) -> None:
        one, observed = waiting_job(), seen(absent())
        situation = situation_of(one, observed, NOW)
        assert look_up(one, situation, NOW) == look_up(one, situation, NOW)
