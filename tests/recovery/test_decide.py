"""What the service does, situation by situation."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    FOUND,
    NOW,
    OTHER_ZONE,
    STILL_RUNNING,
    STOCKOUT,
    SUCCEEDED,
    ZONE,
    Story,
    absent,
    checkpoint,
    coming_job,
    command,
    created,
    creates,
    deleted,
    event,
    fresh_job,
    handed_over,
    hours,
    job,
    leftover,
    minutes,
    name_of,
    node,
    operation,
    report,
    resume,
    running,
    said,
    seconds,
    seen,
    spec,
    told,
    unreadable,
    waiting_job,
    wishing,
)

from tpu_recovery.model.decision import Decision
from tpu_recovery.model.duration import Duration
from tpu_recovery.model.incident import Cause, Outcome
from tpu_recovery.model.messages import Author, CommandKind, Meaning, ReportKind
from tpu_recovery.model.observed import CheckpointFinding, NodeReading, Observed, OperationState
from tpu_recovery.model.spec import Attempts, CapacityKind, Checkpoints, Deadlines, Placement, WhenDone, Wishes
from tpu_recovery.model.state import FINAL, Hold, Patience, Phase, Slice, Spending
from tpu_recovery.recovery.decide import asks_for_checkpoint, decide
from tpu_recovery.recovery.turn import LAUNCH_MEMORY

IN_BUCKET = Checkpoints(path="gs://b/c")
GONE_WORDS = (Meaning.NODE_TERMINATED, Meaning.WORKER_PREEMPTED)


def on_demand(**state: Any) -> Story:
    return Story(wishing(job(**state), kind=CapacityKind.ON_DEMAND))


def held_story(reason: str = "why", **state: Any) -> Story:
    return Story(job(Phase.HELD, hold=Hold(reason=reason, needs="act", since=NOW), **state))


def assert_held(decision: Decision, row: str) -> None:
    assert (decision.row, decision.state.phase) == (row, Phase.HELD)
    assert decision.state.hold is not None
    assert decision.state.hold.needs
    assert decision.state.hold.reason in told(decision)[0]


class TestTheFirstCreation:
    def test_a_registered_job_asks_for_its_first_node_and_lets_it_start(self) -> None:
        decision = decide(fresh_job(), seen(), NOW)
        state = decision.state
        assert (creates(decision), state.phase, state.generation, state.launch) == ([1], Phase.WAITING, 1, 1)
        assert state.slices == (Slice(name=name_of(1)),)
        assert state.launch_before == NOW + LAUNCH_MEMORY
        assert decision.incident is None

    def test_it_starts_from_a_checkpoint_that_is_there(self) -> None:
        state = decide(wishing(fresh_job(), checkpoints=IN_BUCKET), seen(checkpoint=FOUND), NOW).state
        assert state.create is not None
        assert (state.create.resume_step, state.create.resume_path) == (100, "gs://b/c/100")
        assert state.progress.checkpoint_step == 100

    @pytest.mark.parametrize("finding", [CheckpointFinding.INCOMPLETE, CheckpointFinding.OLDER])
    def test_no_tpu_is_paid_for_to_resume_from_a_checkpoint_that_is_not_there(self, finding: CheckpointFinding) -> None:
        decision = decide(fresh_job(), seen(checkpoint=checkpoint(finding, "step 7 lacks commit_success")), NOW)
        assert decision.state.phase is Phase.HELD
        assert "step 7 lacks commit_success" in decision.why
        assert creates(decision) == []

    def test_a_bucket_that_cannot_be_read_is_waited_for_and_then_a_person_is_asked(self) -> None:
        story, observed = Story(fresh_job()), seen(checkpoint=checkpoint(CheckpointFinding.UNREADABLE, "403"))
        assert story.look(observed).state.phase is Phase.WAITING
        assert_held(story.look_until(observed, Phase.HELD), "the checkpoint location could not be read for too long")
        assert story.now == NOW + hours(1)

    def test_what_comes_to_depend_on_the_checkpoint_after_it_could_be_read_is_looked_at_again(self) -> None:
        """The deadline passes between reading and deciding: nothing is created on a checkpoint that nobody read."""
        one = wishing(job(Phase.SUSPECT, absent_since=NOW - minutes(1)), checkpoints=IN_BUCKET)
        story, observed = Story(one), seen(absent())
        until = story.look(observed).state.patience["vanished"].until
        assert not asks_for_checkpoint(story.job, observed, until - seconds(0.1))
        decision = story.look(observed, after=until - story.now)
        assert (decision.row, creates(decision)) == ("the checkpoint location has to be read first", [])
        assert decision.state.wake_at == until + seconds(1)
        assert asks_for_checkpoint(story.job, observed, until + seconds(1))
        assert creates(story.look_when_due(seen(absent(), checkpoint=FOUND))) == [2]


class TestASpotNode:
    @pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED"])
    def test_that_was_taken_is_deleted_and_replaced_and_the_new_one_may_start_at_once(self, state: str) -> None:
        decision = decide(job(), seen(node(state)), NOW)
        assert (deleted(decision), creates(decision)) == (["train-g1"], [2])
        after = decision.state
        assert (after.phase, after.generation, after.launch, after.handed) == (Phase.RECOVERING, 2, 1, 0)
        assert after.create is not None
        assert after.create.launch == 1
        assert decision.incident is not None
        assert decision.incident.cause is Cause.PREEMPTION
        assert after.incident == decision.incident.id

    def test_that_is_absent_is_looked_at_again_and_replaced_when_the_platform_says_it_took_it(self) -> None:
        story = Story(job())
        first = story.look(seen(absent(), event(Meaning.NODE_TERMINATED)))
        assert (first.state.wake_at, creates(first)) == (NOW + seconds(20), [])
        second = story.look_when_due(seen(absent()))
        assert (creates(second), deleted(second), second.state.launch) == ([2], [], 1)
        assert second.incident is not None
        assert second.incident.cause is Cause.PREEMPTION

    def test_that_is_absent_and_nobody_says_why_is_replaced_as_lost_after_a_minute(self) -> None:
        story = Story(job())
        story.look(seen(absent()))
        assert story.look_when_due(seen(absent())).row == "the node is gone and nobody has said why yet"
        decision = story.look_until(seen(absent()), Phase.RECOVERING)
        assert story.now == NOW + seconds(80)
        assert creates(decision) == [2]
        assert decision.incident is not None
        assert decision.incident.cause is Cause.LOST
        assert decision.incident.milestones.occurred == NOW

    def test_that_a_person_deleted_is_not_replaced_until_a_person_says_so(self) -> None:
        story = Story(job())
        story.look(seen(absent(), event(Meaning.DELETE_ACCEPTED, Author.PERSON)))
        decision = story.look_when_due(seen(absent()))
        assert_held(decision, "a person deleted the node")
        assert decision.incident is not None
        assert (decision.incident.cause, decision.incident.outcome) == (Cause.USER_DELETED, Outcome.HELD)
        again = story.look(seen(absent(), resume()), after=hours(1))
        assert (creates(again), again.state.hold) == ([2], None)

    def test_that_shut_down_because_a_person_deleted_it_is_not_replaced(self) -> None:
        story = Story(job())
        story.look(seen(node("DELETING"), event(Meaning.DELETE_ACCEPTED, Author.PERSON)))
        worker = event(Meaning.WORKER_STOPPED)
        story.look(seen(absent(), worker), after=seconds(30))
        assert_held(story.look_when_due(seen(absent())), "a person deleted the node")

    def test_that_a_person_tidied_up_after_the_platform_took_it_is_replaced(self) -> None:
        story = Story(job())
        letters = (event(Meaning.WORKER_PREEMPTED), event(Meaning.DELETE_ACCEPTED, Author.PERSON))
        story.look(seen(absent(), *letters))
        assert creates(story.look_when_due(seen(absent()))) == [2]

    def test_that_somebody_deletes_is_waited_for_until_a_person_is_asked(self) -> None:
        story = Story(job())
        story.look(seen(node("DELETING"), event(Meaning.DELETE_ACCEPTED, Author.PERSON)))
        decision = story.look_until(seen(node("DELETING")), Phase.HELD)
        assert story.now == NOW + minutes(15)
        assert_held(decision, "the node stays in deletion")
        assert decision.incident is not None
        assert decision.incident.cause is Cause.USER_DELETED

    def test_that_comes_back_after_one_not_found_was_never_lost(self) -> None:
        story = Story(job(runners=running(ReportKind.PROGRESS)))
        story.look(seen(absent()))
        decision = story.look_when_due(seen(node()))
        assert (decision.state.phase, decision.state.absent_since) == (Phase.RUNNING, None)
        assert creates(decision) == []

    def test_that_an_entry_calls_lost_while_it_is_ready_is_watched_closely_and_then_forgotten(self) -> None:
        story = Story(job(runners=running(ReportKind.PROGRESS)))
        assert story.look(seen(node(), event(Meaning.WORKER_PREEMPTED))).state.phase is Phase.SUSPECT
        decision = story.look_until(seen(node()), Phase.RUNNING)
        assert decision.row == "the entry was wrong: the node stays ready"
        assert (decision.state.suspicion, story.now) == ((), NOW + minutes(10))
        assert story.look_when_due(seen(node())).row == "training has made progress"

    def test_that_a_person_deletes_while_an_earlier_entry_is_dismissed_stays_down(self) -> None:
        """The reading may be a minute old: a person has deleted the node just now."""
        story = Story(job())
        story.look(seen(node(), event(Meaning.WORKER_PREEMPTED)))
        real = event(Meaning.DELETE_ACCEPTED, Author.PERSON, at=NOW + minutes(10))
        decision = story.look(seen(node(), real), after=minutes(10))
        assert decision.row == "the entry was wrong: the node stays ready"
        assert decision.state.suspicion == (real.evidence,)
        assert story.look_when_due(seen(node("DELETING"))).row == "somebody deletes the node"
        story.look(seen(absent()), after=seconds(30))
        assert_held(story.look(seen(absent()), after=seconds(30)), "a person deleted the node")


class TestANodeThatIsNotSpot:
    def test_stays_what_it_is_when_the_placements_are_edited(self) -> None:
        story = on_demand()
        story.rewish(lambda one: replace(one, wishes=Wishes(spec=spec())))
        assert creates(story.look(seen(node("TERMINATED")))) == []

    def test_and_was_stopped_may_come_back(self) -> None:
        story = on_demand(runners=running(ReportKind.STARTED))
        assert creates(story.look(seen(node("TERMINATED")))) == []
        assert story.look(seen(node()), after=minutes(5)).row == "the program has started"

    def test_and_does_not_come_back_is_left_to_a_person_who_may_have_a_new_one(self) -> None:
        story = on_demand()
        story.look(seen(node("TERMINATED")))
        decision = story.look_until(seen(node("TERMINATED")), Phase.HELD)
        assert_held(decision, "a node that is not Spot did not come back")
        assert deleted(decision) == []
        again = story.look(seen(node("TERMINATED"), resume(story.now + hours(2))), after=hours(2))
        assert (creates(again), deleted(again)) == ([2], ["train-g1"])
        assert again.incident is not None
        assert again.incident.cause is Cause.HOST_MAINTENANCE

    def test_and_is_gone_with_the_platforms_word_is_replaced_without_being_called_preempted(self) -> None:
        story = on_demand()
        story.look(seen(absent(), event(Meaning.NODE_TERMINATED)))
        decision = story.look_when_due(seen(absent()))
        assert creates(decision) == [2]
        assert decision.incident is not None
        assert decision.incident.cause is Cause.HOST_MAINTENANCE

    @pytest.mark.parametrize(
        "state", ["RESTARTING", "REIMAGING", "REPAIRING", "STOPPED", "STARTING", "STOPPING", "HIDDEN"]
    )
    def test_and_is_worked_on_is_waited_for_and_never_deleted(self, state: str) -> None:
        story = on_demand()
        story.look(seen(node(state)))
        decision = story.look_until(seen(node(state)), Phase.HELD)
        assert_held(decision, "the node does not become ready again")
        assert (deleted(decision), creates(decision), story.now) == ([], [], NOW + minutes(30))

    def test_and_was_stopped_by_a_person_says_so(self) -> None:
        story = on_demand()
        story.look(seen(node("STOPPED"), event(Meaning.STOPPED, Author.PERSON)))
        decision = story.look_until(seen(node("STOPPED")), Phase.HELD)
        assert decision.incident is not None
        assert decision.incident.cause is Cause.USER_STOPPED


class TestReadingsThatSayNothing:
    @pytest.mark.parametrize("reading", [unreadable(), node("99"), node("UNKNOWN"), node("STATE_UNSPECIFIED"), None])
    def test_are_waited_out_until_a_person_is_asked_and_nothing_is_destroyed(self, reading: NodeReading | None) -> None:
        story, observed = Story(job()), seen(reading)
        story.look(observed)
        decision = story.look_until(observed, Phase.HELD)
        assert_held(decision, "the API gave no reading that we understand for too long")
        assert story.now == NOW + hours(1)
        assert not any(deleted(one) or creates(one) for one in story.decisions)

    def test_do_not_put_off_the_deadline_of_what_was_waited_for(self) -> None:
        story = on_demand()
        for _ in range(5):
            story.look(seen(node("REPAIRING")), after=minutes(3))
            story.look(seen(unreadable()), after=minutes(3))
        assert_held(story.look(seen(node("REPAIRING")), after=minutes(3)), "the node does not become ready again")

    def test_a_node_of_somebody_else_with_our_name_is_left_alone(self) -> None:
        decision = decide(job(), seen(node("PREEMPTED", labels={"owner": "bob"})), NOW)
        assert_held(decision, "a node of somebody else has our name")
        assert deleted(decision) == []


class TestACreate:
    def test_waits_for_its_turn_in_the_queue(self) -> None:
        decision = decide(waiting_job(), seen(absent()), NOW + minutes(1))
        assert (decision.row, decision.state.phase) == ("the create waits for its turn", Phase.WAITING)

    def test_that_left_no_answer_is_repeated_with_the_same_request_id_and_in_the_end_a_person_is_asked(self) -> None:
        story = Story(waiting_job())
        story.look(seen(absent()))
        story.look(seen(absent()), after=minutes(10))
        assert (creates(story.decisions[-1]), story.state.generation) == ([1], 1)
        assert story.state.create is not None
        assert (story.state.create.request_id, story.state.create.attempt) == ("r", 2)
        decision = story.look_until(seen(absent()), Phase.HELD)
        assert_held(decision, "the create call is never answered")
        assert story.now == NOW + hours(1)

    def test_that_waits_out_its_backoff_does_not_use_up_the_deadline_of_the_creation(self) -> None:
        create = created(intended=NOW, due=NOW + minutes(15), operation="", accepted=None)
        story = Story(wishing(waiting_job(create=create), deadlines=Deadlines(creation=Duration(minutes=5))))
        story.look(seen(absent()))
        story.look(seen(absent()), after=minutes(15))
        story.accepted()
        assert story.look(seen(absent(), operation=STILL_RUNNING), after=minutes(1)).row == "the create is under way"

    @pytest.mark.parametrize("reading", [absent(), node("CREATING")])
    def test_that_was_accepted_is_waited_for(self, reading: NodeReading) -> None:
        story, observed = Story(coming_job()), seen(reading, operation=STILL_RUNNING)
        story.look(observed)
        decision = story.look_until(observed, Phase.HELD)
        assert_held(decision, "the create takes too long")
        assert (deleted(decision), story.now) == ([], NOW + minutes(30))

    def test_that_is_unfinished_is_no_loss_even_if_its_node_was_seen_and_is_not_found_now(self) -> None:
        story = Story(coming_job())
        story.look(seen(node("CREATING"), operation=STILL_RUNNING))
        for _ in range(3):
            decision = story.look(seen(absent(), operation=STILL_RUNNING), after=minutes(1))
        assert (decision.row, decision.incident) == ("the create is under way", None)

    def test_whose_operation_cannot_be_read_is_no_loss(self) -> None:
        decision = decide(coming_job(), seen(absent(), operation=operation(OperationState.UNREADABLE)), NOW)
        assert decision.row == "the API gives no reading that we understand"

    def test_that_ended_well_and_left_no_node_is_a_loss_after_a_second_not_found(self) -> None:
        story = Story(coming_job())
        story.look(seen(absent(), operation=SUCCEEDED))
        assert story.look_until(seen(absent(), operation=SUCCEEDED), Phase.RECOVERING).incident is not None

    @pytest.mark.parametrize("seen_before", [False, True], ids=["never seen", "seen as CREATING"])
    def test_that_finds_no_capacity_backs_off_and_goes_to_the_next_placement(self, seen_before: bool) -> None:
        placements = (Placement(zone=ZONE), Placement(zone=OTHER_ZONE))
        story = Story(wishing(coming_job(), placements=placements))
        if seen_before:
            story.look(seen(node("CREATING"), operation=STILL_RUNNING))
        decision = story.look(seen(absent(), operation=STOCKOUT))
        assert (creates(decision), deleted(decision), decision.incident) == ([2], [], None)
        assert decision.state.slices[0].name == name_of(2, OTHER_ZONE)
        assert decision.state.create is not None
        assert seconds(15) <= decision.state.create.due - NOW <= seconds(30)
        assert "no more capacity" in decision.why

    def test_that_finds_no_capacity_for_a_day_is_left_to_a_person_and_waits_grow_to_a_ceiling(self) -> None:
        story, waits = Story(coming_job()), []
        for generation in range(1, 300):
            observed = seen(absent(generation), operation=STOCKOUT)
            decision = story.look(observed, after=minutes(1))
            if decision.state.phase is Phase.HELD:
                break
            assert decision.state.create is not None
            waits.append(decision.state.create.due - story.now)
            story.now = decision.state.create.due
            story.accepted()
        assert_held(decision, "there was no capacity for too long")
        assert hours(24) <= story.now - NOW < hours(25)
        assert max(waits) <= minutes(15)
        assert min(waits[5:]) >= minutes(7.5)
        assert decision.state.spending == {}

    @pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "PERMISSION_DENIED", "FAILED_PRECONDITION"])
    def test_that_is_refused_for_good_is_left_to_a_person_who_may_try_again(self, code: str) -> None:
        story = Story(waiting_job()).refused(code, "v6e-1 was not found in zone")
        decision = story.look(seen(absent()))
        assert_held(decision, "the create was refused for good")
        assert "v6e-1 was not found in zone" in decision.why
        again = story.look(seen(absent(), resume()), after=minutes(1))
        assert (creates(again), story.state.leftovers) == ([1], ()), "nothing has the name yet"
        assert story.state.create is not None
        assert (story.state.create.attempt, story.state.create.error) == (2, None)

    def test_whose_name_is_taken_by_somebody_else_gets_another_name(self) -> None:
        story = Story(waiting_job()).refused("ALREADY_EXISTS", "train-g1 exists and is not ours")
        story.look(seen(absent()))
        assert creates(story.look(seen(absent(), resume()), after=minutes(1))) == [2]

    def test_whose_operation_is_refused_for_good_is_left_to_a_person(self) -> None:
        refused = operation(OperationState.FAILED, "PERMISSION_DENIED", "no billing account")
        assert_held(decide(coming_job(), seen(absent(), operation=refused), NOW), "the create was refused for good")

    def test_whose_call_failed_although_the_node_is_there_has_not_failed(self) -> None:
        story = Story(waiting_job()).refused("RESOURCE_EXHAUSTED")
        decision = story.look(seen(node("CREATING"), operation=STILL_RUNNING))
        assert decision.row == "the create is under way"
        assert decision.state.create is not None
        assert (decision.state.create.error, decision.state.handed) == (None, 1)

    def test_that_failed_while_its_node_is_still_coming_up_gives_the_next_no_permission_to_start(self) -> None:
        """The old one may become READY all the same, with its own permission."""
        decision = decide(coming_job(), seen(node("CREATING"), operation=STOCKOUT), NOW)
        assert (deleted(decision), creates(decision), decision.state.launch) == (["train-g1"], [2], 0)


class TestLeftovers:
    def second(self, **of_leftover: Any) -> Story:
        """The second generation is READY and was created without permission to start."""
        slices = (Slice(name=name_of(2), id="node-2", state="READY"),)
        left = leftover(1, **of_leftover)
        return Story(job(Phase.STARTING, generation=2, launch=0, handed=0, slices=slices, leftovers=(left,)))

    def test_that_may_still_run_keep_the_next_generation_from_starting(self) -> None:
        story = self.second(delete_accepted=NOW)
        for state in ("READY", "DELETING", "STOPPED", "99"):
            decision = story.look(seen(node(generation=2), leftovers=[node(state)]), after=seconds(15))
            assert (decision.row, handed_over(decision)) == ("an older generation still runs", [])
        once = story.look(seen(node(generation=2), leftovers=[absent()]), after=seconds(15))
        assert handed_over(once) == []
        decision = story.look(seen(node(generation=2), leftovers=[absent()]), after=seconds(20))
        assert (handed_over(decision), decision.state.launch, decision.state.leftovers) == ([1], 1, ())

    @pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED"])
    def test_that_were_taken_run_nothing_any_more(self, state: str) -> None:
        story = self.second(delete_accepted=NOW)
        assert handed_over(story.look(seen(node(generation=2), leftovers=[node(state)]))) == [1]

    def test_that_never_stop_are_left_to_a_person(self) -> None:
        story, observed = self.second(delete_accepted=NOW), seen(node(generation=2), leftovers=[node()])
        story.look(observed)
        decision = story.look_until(observed, Phase.HELD, at_most=300)
        assert_held(decision, "an older generation does not stop")
        assert "generation 1 may still run" in decision.why
        assert (story.now, handed_over(decision)) == (NOW + hours(1), [])

    def test_a_hand_off_that_the_api_does_not_take_is_repeated_and_then_left_to_a_person(self) -> None:
        story, observed = self.second(stopped=True, delete_accepted=NOW), seen(node(generation=2))
        while story.state.phase is not Phase.HELD:
            decision = story.look(observed, after=minutes(1), fails="PERMISSION_DENIED")
        assert_held(decision, "the API does not take the permission to start")
        assert story.now == NOW + minutes(31)
        assert len(story.decisions) == 31
        going = seen(node(generation=2), resume(story.now + hours(1)))
        assert handed_over(story.look(going, after=hours(1))) == [1]

    def test_deadline_of_a_stopped_launch_is_given_anew_with_every_hand_off(self) -> None:
        decision = self.second(stopped=True, delete_accepted=NOW).look(seen(node(generation=2)))
        assert decision.state.launch_before == NOW + LAUNCH_MEMORY


class TestReports:
    def look(self, *kinds: ReportKind, workers: int = 1, **changes: Any) -> Decision:
        return decide(job(runners=running(*kinds, **changes)), seen(node(workers=workers)), NOW)

    def test_a_program_that_started_runs_and_its_progress_is_waited_for(self) -> None:
        decision = self.look(ReportKind.STARTED)
        assert (decision.state.phase, decision.state.wake_at) == (Phase.RUNNING, NOW + hours(2))

    def test_progress_is_due_after_twice_the_checkpoint_interval(self) -> None:
        one = wishing(
            job(runners=running(ReportKind.STARTED)), checkpoints=replace(IN_BUCKET, every=Duration(minutes=5))
        )
        assert decide(one, seen(node()), NOW).state.wake_at == NOW + minutes(10)

    def test_a_program_without_progress_is_reported_once_looked_at_hourly_and_never_killed(self) -> None:
        story = Story(job(runners=running(ReportKind.STARTED)))
        story.look(seen(node()))
        first = story.look_when_due(seen(node()))
        assert (first.row, first.state.phase) == ("the program runs, but no progress is seen", Phase.SUSPECT)
        assert len(told(first)) == 1
        for _ in range(3):
            again = story.look_when_due(seen(node()))
            assert (again.actions, again.state.wake_at) == ((), story.now + hours(1))

    def test_crashes_and_reboots_do_not_put_off_the_deadline_for_progress(self) -> None:
        story = Story(job(runners=running(ReportKind.STARTED)))
        kinds = (ReportKind.CRASHED, ReportKind.BOOTED, ReportKind.STARTED)
        for number in range(9):
            kind = kinds[number % 3]
            letter = said(kind, sequence=number + 2, at=NOW + minutes(number))
            decision = story.look(seen(node(), letter), after=minutes(15))
        assert decision.row == "the program runs, but no progress is seen"

    def test_progress_ends_the_incident_forgives_what_was_spent_and_is_told(self) -> None:
        story = Story(job())
        story.look(seen(node("PREEMPTED")))
        story.accepted()
        up = node(generation=2)
        start = said(ReportKind.STARTED, generation=2, resumed_from=100)
        assert story.look(seen(up, start), after=minutes(3)).state.phase is Phase.RUNNING
        go = said(ReportKind.PROGRESS, generation=2, sequence=2, resumed_from=100, step=101)
        decision = story.look(seen(up, go), after=minutes(1))
        assert decision.incident is not None
        assert (decision.incident.outcome, decision.incident.closed) == (Outcome.RESUMED, story.now)
        assert decision.state.incident == ""
        assert decision.state.spending["loss"].counted == 0
        assert told(decision) == [
            "train trains again from step 100 after 240 s: PREEMPTION, an unknown number of steps lost"
        ]

    def test_a_running_job_is_looked_at_hourly_because_its_last_report_may_be_lost(self) -> None:
        story = Story(job(runners=running(ReportKind.PROGRESS)))
        assert story.look(seen(node())).state.wake_at == NOW + hours(1)
        finished = report(ReportKind.FINISHED, sequence=2)
        assert story.look_when_due(seen(node(), reports=[finished])).state.phase is Phase.SUCCEEDED

    def test_a_crash_is_the_runners_to_retry(self) -> None:
        decision = self.look(ReportKind.CRASHED)
        assert (decision.state.phase, decision.actions) == (Phase.SUSPECT, ())

    def test_a_program_that_gave_up_is_blamed_only_after_the_cloud_had_time_to_explain(self) -> None:
        story = Story(job(runners=running(ReportKind.GAVE_UP, exit_code=1, reason="crash-loop", detail="KeyError")))
        story.look(seen(node()))
        decision = story.look_until(seen(node()), Phase.HELD)
        assert_held(decision, "the program crashes again and again")
        assert story.now == NOW + minutes(2)
        assert "crash-loop, exit code 1: KeyError" in decision.why
        assert decision.incident is not None
        assert decision.incident.cause is Cause.TRAINING_CRASH

    def test_a_setup_that_failed_is_tried_again_as_often_as_allowed_and_then_a_person_is_asked(self) -> None:
        story, launches = Story(job()), []
        for launch in range(1, 9):
            letter = said(ReportKind.SETUP_FAILED, launch=launch, sequence=launch, reason="setup", detail="pip failed")
            decision = story.look(seen(node(), letter), after=minutes(5))
            launches += handed_over(decision)
        assert launches == [2, 3]
        assert story.state.spending["setup"] == Spending(spent=2)
        held = next(one for one in story.decisions if one.state.phase is Phase.HELD)
        assert_held(held, "setup fails every time")
        assert "pip failed" in held.why

    @pytest.mark.parametrize("reason", ["checkpoints-unreadable", "checkpoints-incomplete", "checkpoints-older"])
    def test_a_runner_that_refuses_for_lack_of_a_checkpoint_asks_a_person(self, reason: str) -> None:
        decision = self.look(ReportKind.REFUSED, reason=reason)
        assert_held(decision, "the runner refuses to start: no checkpoint to resume from")
        assert reason in decision.why

    def test_a_permission_that_came_too_late_is_given_again_but_not_for_ever(self) -> None:
        story, launches = Story(job()), []
        for launch in range(1, 9):
            letter = said(ReportKind.REFUSED, launch=launch, sequence=launch, reason="launch-expired")
            launches += handed_over(story.look(seen(node(), letter), after=seconds(10)))
        assert launches == [2, 3]
        assert story.state.phase is Phase.HELD

    @pytest.mark.parametrize("kind", [ReportKind.STOPPING, ReportKind.STOPPED])
    def test_a_program_that_was_stopped_waits_for_the_reason(self, kind: ReportKind) -> None:
        story = Story(job(runners=running(kind)))
        story.look(seen(node()))
        decision = story.look_until(seen(node()), Phase.HELD)
        assert_held(decision, "the program was stopped on the VM and nothing else happened")
        assert story.now == NOW + minutes(10)

    def test_a_program_that_was_stopped_because_its_node_is_taken_is_replaced(self) -> None:
        story = Story(job())
        story.look(seen(node(), said(ReportKind.STOPPING, step=120)))
        decision = story.look_when_due(seen(node("PREEMPTED")))
        assert creates(decision) == [2]
        assert decision.incident is not None
        assert (decision.incident.cause, decision.incident.last_step) == (Cause.PREEMPTION, 120)

    def test_a_runner_that_is_never_heard_gets_one_other_node_and_then_a_person_is_asked(self) -> None:
        story = Story(job(Phase.STARTING))
        story.look(seen(node()))
        decision = story.look_when_due(seen(node()))
        assert (creates(decision), deleted(decision), decision.state.launch) == ([2], ["train-g1"], 0)
        assert story.now == NOW + minutes(15)
        story.accepted()
        second = seen(node(generation=2), leftovers=[absent()])
        story.look(second, after=minutes(5))
        story.look(second, after=minutes(1))
        decision = story.look_until(second, Phase.HELD)
        assert_held(decision, "the runner is never heard on any VM")

    def test_a_runner_is_not_called_silent_when_nobody_could_listen(self) -> None:
        story = Story(job(Phase.STARTING))
        deaf = replace(seen(node()), attributes_unreadable=True)
        assert story.look(deaf).row == "the runner has not been heard yet"
        decision = story.look_until(deaf, Phase.HELD)
        assert_held(decision, "nothing was heard, and the guest attributes cannot be read")
        assert (creates(decision), deleted(decision)) == ([], [])

    def test_a_program_that_never_starts_is_asked_again_and_then_a_person_is(self) -> None:
        story = Story(job(Phase.STARTING, runners=running(ReportKind.BOOTED)))
        story.look(seen(node()))
        decision = story.look_until(seen(node()), Phase.HELD)
        assert_held(decision, "the program never starts")
        assert [launch for one in story.decisions for launch in handed_over(one)] == [2, 3]

    def test_an_older_permission_does_not_count_until_the_newer_one_is_handed_over(self) -> None:
        story = Story(job(runners=running(ReportKind.SETUP_FAILED)))
        story.look(seen(node()), fails="ABORTED: another update is in flight")
        assert story.state.wake_at == NOW + seconds(30)
        decision = story.look_when_due(seen(node()))
        assert (decision.row, handed_over(decision)) == ("the program may start now", [2])


class TestSeveralWorkers:
    def look(self, *kinds: ReportKind, workers: int) -> str:
        return decide(job(runners=running(*kinds)), seen(node(workers=workers)), NOW).row

    def test_all_have_to_start_before_the_program_runs(self) -> None:
        three, four = (ReportKind.STARTED,) * 3, (ReportKind.STARTED,) * 4
        assert self.look(*three, workers=4) == "the runner prepares the program"
        assert self.look(*four, workers=4) == "the program has started"

    def test_one_that_crashed_speaks_for_all(self) -> None:
        kinds = (*(ReportKind.PROGRESS,) * 7, ReportKind.CRASHED)
        assert self.look(*kinds, workers=8) == "the program crashed and is started again on the VM"

    def test_one_that_makes_progress_speaks_for_all_that_have_started(self) -> None:
        kinds = (ReportKind.PROGRESS, *(ReportKind.STARTED,) * 7)
        assert self.look(*kinds, workers=8) == "training has made progress"

    def test_all_have_to_finish_before_the_job_is_over(self) -> None:
        kinds = (*(ReportKind.FINISHED,) * 7, ReportKind.PROGRESS)
        assert self.look(*kinds, workers=8) == "training has made progress"
        assert self.look(*(ReportKind.FINISHED,) * 8, workers=8) == "the program has finished"

    def test_one_that_gave_up_outweighs_one_whose_setup_failed(self) -> None:
        kinds = (ReportKind.SETUP_FAILED, ReportKind.GAVE_UP)
        assert self.look(*kinds, workers=2) == "the program crashes again and again: does the cloud know why?"

    def test_one_refusal_of_another_kind_is_not_cured_by_more_time(self) -> None:
        late = running(ReportKind.REFUSED, reason="launch-expired")
        other = tuple(replace(one, worker=1) for one in running(ReportKind.REFUSED, reason="checkpoints-older"))
        assert decide(job(runners=late + other), seen(node(workers=2)), NOW).state.phase is Phase.HELD


class TestTheEnd:
    def test_a_finished_program_releases_its_node_and_the_node_is_followed_until_it_is_gone(self) -> None:
        story = Story(job(runners=running(ReportKind.FINISHED)))
        decision = story.look(seen(node()))
        assert (decision.state.phase, deleted(decision)) == (Phase.SUCCEEDED, ["train-g1"])
        assert told(decision) == ["train has finished"]
        story.look_when_due(seen(leftovers=[node("DELETING")]))
        assert deleted(story.look(seen(leftovers=[node()]), after=minutes(10))) == ["train-g1"]
        story.look_when_due(seen(leftovers=[absent()]))
        decision = story.look_when_due(seen(leftovers=[absent()]))
        assert (decision.state.leftovers, decision.state.wake_at) == ((), None)

    def test_a_delete_that_fails_at_the_end_is_tried_again(self) -> None:
        story = Story(job(runners=running(ReportKind.FINISHED)))
        story.look(seen(node()), fails="UNAVAILABLE")
        assert story.state.wake_at == NOW + seconds(30)
        assert deleted(story.look_when_due(seen(leftovers=[node()]))) == ["train-g1"]

    def test_a_finished_program_keeps_its_node_if_people_want_that(self) -> None:
        one = wishing(job(runners=running(ReportKind.FINISHED)), when_done=WhenDone.KEEP)
        decision = decide(one, seen(node()), NOW)
        assert (deleted(decision), decision.state.phase, decision.state.wake_at) == ([], Phase.SUCCEEDED, None)

    def test_the_end_closes_an_open_incident(self) -> None:
        story = Story(job())
        story.look(seen(node("PREEMPTED")))
        story.accepted()
        decision = story.look(seen(node(generation=2), said(ReportKind.FINISHED, generation=2)), after=minutes(5))
        assert decision.incident is not None
        assert (decision.incident.outcome, decision.state.incident) == (Outcome.RESUMED, "")

    @pytest.mark.parametrize("phase", sorted(FINAL))
    @pytest.mark.parametrize(
        "observed",
        [
            seen(),
            seen(absent()),
            seen(node("PREEMPTED")),
            seen(node(), resume()),
            seen(node(), said(ReportKind.CRASHED)),
        ],
    )
    def test_a_job_that_is_over_stays_over(self, phase: Phase, observed: Observed) -> None:
        decision = decide(job(phase), observed, NOW)
        assert (decision.state.phase, decision.actions, decision.state.wake_at) == (phase, (), None)

    def test_a_watched_node_is_left_alone(self) -> None:
        assert decide(job(Phase.WATCHED), seen(node("PREEMPTED")), NOW).actions == ()


class TestPeople:
    @pytest.mark.parametrize(
        "phase",
        [Phase.REGISTERED, Phase.WAITING, Phase.STARTING, Phase.RUNNING, Phase.SUSPECT, Phase.RECOVERING, Phase.HELD],
    )
    def test_a_paused_job_rests_whatever_it_was_doing_and_goes_on_when_it_is_not_paused_any_more(
        self, phase: Phase
    ) -> None:
        story = Story(wishing(job(phase, runners=running(ReportKind.PROGRESS)), paused=True))
        decision = story.look(seen(node("PREEMPTED")))
        assert (decision.state.phase, decision.actions, decision.state.wake_at) == (Phase.PAUSED, (), None)
        assert story.look(seen()).row == "a paused job stays paused"
        assert creates(story.rewish(wishing).look(seen(node("PREEMPTED")), after=hours(1))) == [2]

    def test_a_pause_during_a_recovery_keeps_the_incident_open(self) -> None:
        story = Story(job())
        story.look(seen(node("PREEMPTED")))
        story.rewish(lambda one: wishing(one, paused=True)).look(seen())
        decision = story.rewish(wishing).look(seen(absent(2)), after=hours(1))
        assert decision.incident is not None
        assert decision.incident.outcome is Outcome.OPEN
        assert creates(decision) == [2], "the create was dropped while the job was paused"

    def test_a_pause_outweighs_a_resume(self) -> None:
        story = Story(wishing(job(Phase.HELD), paused=True))
        assert story.look(seen(None, resume())).state.phase is Phase.PAUSED

    def test_to_pause_a_held_job_and_to_unpause_it_does_not_release_it(self) -> None:
        story = held_story("the program crashes")
        story.rewish(lambda one: wishing(one, paused=True))
        assert story.look(seen()).state.phase is Phase.PAUSED
        assert story.look(seen()).row == "a paused job stays paused"
        back = story.rewish(wishing).look(seen(node("PREEMPTED")))
        assert (back.state.phase, creates(back)) == (Phase.HELD, [])
        assert back.state.hold is not None
        assert back.state.hold.reason == "the program crashes"
        assert creates(story.look(seen(node("PREEMPTED"), resume()))) == [2]

    def test_a_specification_that_is_gone_holds_the_job_and_destroys_nothing(self) -> None:
        story = Story(replace(job(), wishes=None))
        decision = story.look(seen())
        assert_held(decision, "the specification is gone")
        assert [one for one in decision.actions if not hasattr(one, "text")] == []
        assert story.look(seen()).row == "a held job waits for a person"
        story.rewish(wishing)
        apply = command(CommandKind.APPLY)
        assert story.look(seen(None, apply)).row == "a held job waits for a person"
        going = seen(node(), resume(), reports=[report(ReportKind.PROGRESS)])
        assert story.look(going).state.phase is Phase.RUNNING

    def test_a_specification_that_is_gone_does_not_disturb_a_paused_job(self) -> None:
        assert decide(replace(job(Phase.PAUSED), wishes=None), seen(), NOW).state.phase is Phase.PAUSED

    def test_a_hold_waits_for_a_person_whatever_happens(self) -> None:
        story = held_story()
        decision = story.look(seen(None, event(Meaning.NODE_TERMINATED), said(ReportKind.PROGRESS)))
        assert (decision.state.phase, decision.actions) == (Phase.HELD, ())
        assert len(decision.state.suspicion) == 1

    @pytest.mark.parametrize(
        "kind", [ReportKind.GAVE_UP, ReportKind.SETUP_FAILED, ReportKind.REFUSED, ReportKind.STOPPED, ReportKind.BOOTED]
    )
    def test_resume_starts_the_program_again(self, kind: ReportKind) -> None:
        story = held_story(runners=running(kind), spending={"setup": Spending(spent=2)})
        decision = story.look(seen(node(), resume()))
        assert (handed_over(decision), decision.state.phase, decision.state.hold) == ([2], Phase.STARTING, None)
        assert decision.state.spending["setup"].counted == 0
        assert story.look(seen(node())).row == "the runner prepares the program"

    @pytest.mark.parametrize(
        ("reading", "row"),
        [
            (node("REPAIRING"), "the platform or a person works on the node"),
            (node("CREATING"), "the create is under way"),
            (node("DELETING"), "somebody deletes the node"),
            (node("99"), "the API gives no reading that we understand"),
            (unreadable(), "the API gives no reading that we understand"),
            (node(), "the runner has not been heard yet"),
        ],
    )
    def test_resume_begins_every_wait_anew(self, reading: NodeReading, row: str) -> None:
        late = Patience(since=NOW - hours(9), until=NOW - hours(8))
        concerns = ("repair", "creation", "deletion", "reading", "beacon")
        story = held_story(patience=dict.fromkeys(concerns, late))
        decision = story.look(seen(reading, resume()))
        assert decision.row == row
        assert (decision.state.hold, decision.state.phase is Phase.HELD) == (None, False)
        assert decision.state.wake_at is not None

    @pytest.mark.parametrize(
        "first",
        [
            seen(unreadable(), resume()),
            seen(node("DELETING"), resume()),
            seen(absent(), resume()),
            seen(absent(), resume(), checkpoint=checkpoint(CheckpointFinding.UNREADABLE)),
        ],
        ids=["unreadable", "deleting", "first not found", "no checkpoint reading"],
    )
    def test_resume_is_not_forgotten_when_it_cannot_be_done_at_once(self, first: Observed) -> None:
        end = event(Meaning.DELETE_ACCEPTED, Author.PERSON).evidence
        story = held_story(suspicion=(end,))
        assert creates(story.look(first)) == []
        for _ in range(4):
            if story.state.generation == 2:
                break
            decision = story.look_when_due(seen(absent()))
        assert creates(decision) == [2]
        assert not story.state.going_on

    def test_resume_of_a_node_that_is_ready_again_does_not_wait_for_old_entries(self) -> None:
        end = event(Meaning.STOPPED, Author.PERSON).evidence
        story = held_story(suspicion=(end,), runners=running(ReportKind.PROGRESS))
        assert story.look(seen(node(), resume())).state.phase is Phase.RUNNING

    def test_resume_accepts_an_older_checkpoint(self) -> None:
        story = held_story()
        decision = story.look(seen(node("PREEMPTED"), resume(), checkpoint=replace(FOUND, step=60)))
        assert decision.state.progress.checkpoint_step == 60

    def test_resume_after_too_many_losses_counts_from_there(self) -> None:
        story = Story(wishing(job(spending={"loss": Spending(spent=20)}), attempts=Attempts(loss=20)))
        assert_held(story.look(seen(node("PREEMPTED"))), "too many losses without progress")
        assert creates(story.look(seen(node("PREEMPTED"), resume()))) == [2]


class TestBudgets:
    def test_a_loss_without_progress_uses_up_an_attempt(self) -> None:
        decision = decide(job(), seen(node("PREEMPTED")), NOW)
        assert decision.state.spending["loss"] == Spending(spent=1)
        assert decision.incident is not None
        assert decision.incident.spent == ("loss",)

    def test_a_loss_after_progress_costs_nothing(self) -> None:
        assert decide(job(progressed=1), seen(node("PREEMPTED")), NOW).state.spending == {}

    def test_a_create_that_failed_costs_no_attempt(self) -> None:
        assert decide(coming_job(), seen(absent(), operation=STOCKOUT), NOW).state.spending == {}


def test_letters_that_say_nothing_valid_are_ignored_with_the_reason() -> None:
    letters = (
        said(ReportKind.PROGRESS, token="guess", sequence=1),
        said(ReportKind.PROGRESS, generation=7, sequence=2),
        said(ReportKind.PROGRESS, uid="other", sequence=3),
    )
    decision = decide(job(), seen(node(), *letters), NOW)
    assert [letter.key in decision.ignored for letter in letters] == [True] * 3
    assert decision.ignored[letters[0].key] == "its token is not the one of this generation"


def test_the_same_job_and_the_same_look_give_the_same_decision() -> None:
    one, observed = job(), seen(node("PREEMPTED"), event(Meaning.NODE_TERMINATED))
    assert decide(one, observed, NOW) == decide(one, observed, NOW)


def test_the_revision_that_a_creation_used_is_noted() -> None:
    assert decide(wishing(fresh_job(), revision=7), seen(), NOW).state.revision == 7


def test_deadlines_are_those_of_the_job_file() -> None:
    one = replace(job(Phase.STARTING, runners=running(ReportKind.BOOTED)), wishes=Wishes(spec=spec()))
    assert decide(one, seen(node()), NOW).state.wake_at == NOW + minutes(10 + 30 + 15)
