"""Incidents explain themselves: what died, who says so, what was done, what it cost."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    FOUND,
    NOW,
    Story,
    absent,
    coming_job,
    event,
    job,
    leftover,
    minutes,
    name_of,
    node,
    report,
    running,
    said,
    seconds,
    seen,
    unreadable,
)

from tpu_recovery.model.incident import Cause, Evidence, EvidenceKind, Incident, Milestones, Outcome
from tpu_recovery.model.messages import Author, Meaning, ReportKind
from tpu_recovery.model.state import Progress
from tpu_recovery.recovery import incidents
from tpu_recovery.recovery.absorb import MOST_EVIDENCE


def incident(**changes: Any) -> Incident:
    usual: dict[str, Any] = {"id": "uid1-1", "job": "train", "generation": 1, "cause": Cause.PREEMPTION, "opened": NOW}
    return Incident(**{**usual, **changes})


def lost(*letters: Any, **state: Any) -> Incident:
    """The incident of a node that was taken, and of which these entries told."""
    opened = Story(job(**state)).look(seen(node("PREEMPTED"), *letters)).incident
    assert opened is not None
    return opened


PLATFORM, PERSON = Author.PLATFORM, Author.PERSON


class TestTheWholeWay:
    def test_from_the_loss_to_training(self) -> None:
        story = Story(job(progress=Progress(step=140, at=NOW - minutes(2))))
        story.look(seen(node("PREEMPTED"), event(Meaning.NODE_TERMINATED), checkpoint=FOUND), after=seconds(4))
        story.accepted()
        story.look(seen(node("CREATING", 2), leftovers=[node("PREEMPTED")]), after=minutes(1))
        up = node(generation=2)
        story.look(seen(up), after=minutes(2))
        story.look(seen(up, said(ReportKind.STARTED, generation=2, resumed_from=100)), after=minutes(1))
        go = report(ReportKind.PROGRESS, generation=2, sequence=2, resumed_from=100, step=101)
        closed = story.look(seen(up, reports=[go]), after=minutes(1)).incident
        assert closed is not None
        began = NOW + seconds(4)
        assert closed.milestones == Milestones(
            occurred=NOW,
            received=NOW + seconds(4),
            decided=began,
            deleted=began,
            accepted=began,
            ready=began + minutes(3),
            launched=began + minutes(4),
            resumed=began + minutes(5),
        )
        assert (closed.last_step, closed.resume_step, closed.steps_lost) == (140, 100, 40)
        assert closed.checkpoint == "step 100 is complete"
        assert [(one.what, one.result) for one in closed.actions] == [
            ("create train-g2", "queued"),
            ("delete train-g1", "accepted"),
        ]
        assert [one.says for one in closed.evidence] == [
            "node-terminated",
            "GetNode: PREEMPTED",
            "GetNode: CREATING",
            "GetNode: READY",
            "started",
        ]
        assert incidents.summary(closed) == "train trains again from step 100 after 304 s: PREEMPTION, 40 steps lost"

    def test_a_second_loss_before_training_resumed_is_the_same_incident(self) -> None:
        story = Story(job())
        story.look(seen(node("PREEMPTED")))
        story.accepted()
        second = story.look(seen(node("PREEMPTED", 2)), after=minutes(3)).incident
        assert second is not None
        assert (second.id, second.spent) == ("uid1-1", ("loss", "loss"))
        assert [one.what for one in second.actions][-1] == "create train-g3"

    def test_the_next_loss_is_the_next_incident(self) -> None:
        assert lost(incidents=4).id == "uid1-5"


class TestEvidence:
    def test_what_was_suspected_comes_first_and_then_what_this_look_has_read(self) -> None:
        early = event(Meaning.WORKER_PREEMPTED, at=NOW - minutes(5)).evidence
        found = lost(event(Meaning.NODE_TERMINATED), suspicion=(early,)).evidence
        assert [one.says for one in found] == ["worker-preempted", "node-terminated", "GetNode: PREEMPTED"]

    def test_the_same_entry_is_one_piece_of_evidence_however_often_it_is_read(self) -> None:
        letter = event(Meaning.NODE_TERMINATED)
        one = replace(job(incident="uid1-1"), incident=incident(evidence=(letter.evidence,)))
        again = incidents.with_news(one, seen(None, letter), NOW)
        assert again is not None
        assert again.evidence == (letter.evidence,)

    def test_a_reading_is_news_only_when_it_differs_from_the_one_before(self) -> None:
        one = replace(job(), incident=incident())
        for reading, count in ((node(), 1), (node(), 1), (unreadable(), 2), (absent(), 3), (absent(), 3), (node(), 4)):
            found = incidents.with_news(one, seen(reading), NOW)
            assert found is not None
            assert len(found.evidence) == count
            one = replace(one, incident=found)
        assert one.incident is not None
        says = [evidence.says for evidence in one.incident.evidence]
        assert says == [
            "GetNode: READY",
            "GetNode: UNAVAILABLE: try later",
            "GetNode: NOT_FOUND",
            "GetNode: READY",
        ]

    def test_a_reading_tells_the_health_where_there_is_one(self) -> None:
        found = incidents.with_news(
            replace(job(), incident=incident()), seen(node(health="UNHEALTHY_MAINTENANCE")), NOW
        )
        assert found is not None
        assert found.evidence[0].says == "GetNode: READY, UNHEALTHY_MAINTENANCE"

    def test_an_entry_about_the_node_is_no_reading_of_it(self) -> None:
        entry = Evidence(kind=EvidenceKind.EVENT, at=NOW, received=NOW, subject=name_of(1), says="GetNode: READY")
        one = replace(job(), incident=incident(evidence=(entry,)))
        found = incidents.with_news(one, seen(node()), NOW)
        assert found is not None
        assert len(found.evidence) == 2

    def test_the_first_pieces_are_kept_when_there_are_too_many(self) -> None:
        letters = [event(Meaning.WORKER_PREEMPTED, key=str(number)) for number in range(MOST_EVIDENCE + 9)]
        one = replace(job(), incident=incident())
        found = incidents.with_news(one, seen(None, *letters), NOW)
        assert found is not None
        assert found.evidence == tuple(letter.evidence for letter in letters[:MOST_EVIDENCE])

    def test_no_incident_has_no_news(self) -> None:
        assert incidents.with_news(job(), seen(node()), NOW) is None


class TestTheCause:
    @pytest.mark.parametrize(
        ("row_says", "said_so", "cause"),
        [
            (Cause.PREEMPTION, [], Cause.PREEMPTION),
            (Cause.PREEMPTION, [(PLATFORM, Meaning.NODE_TERMINATED)], Cause.PREEMPTION),
            (Cause.PREEMPTION, [(PLATFORM, Meaning.HOST_ERROR)], Cause.HOST_ERROR),
            (Cause.PREEMPTION, [(PLATFORM, Meaning.HOST_MAINTENANCE)], Cause.HOST_MAINTENANCE),
            (Cause.PREEMPTION, [(PLATFORM, Meaning.RUN_TIME_EXPIRED)], Cause.EXPIRED),
            (
                Cause.PREEMPTION,
                [(PLATFORM, Meaning.HOST_ERROR), (PLATFORM, Meaning.WORKER_PREEMPTED)],
                Cause.PREEMPTION,
            ),
            (Cause.PREEMPTION, [(PERSON, Meaning.DELETE_ACCEPTED)], Cause.PREEMPTION),
            (Cause.HOST_MAINTENANCE, [(PLATFORM, Meaning.HOST_ERROR)], Cause.HOST_ERROR),
            (Cause.HOST_MAINTENANCE, [(PLATFORM, Meaning.WORKER_PREEMPTED)], Cause.HOST_MAINTENANCE),
            (Cause.LOST, [(PERSON, Meaning.STOPPED)], Cause.USER_STOPPED),
            (Cause.LOST, [(PERSON, Meaning.DELETE_ENDED)], Cause.USER_DELETED),
            (Cause.LOST, [(PERSON, Meaning.STOPPED), (PLATFORM, Meaning.HOST_ERROR)], Cause.LOST),
            (Cause.LOST, [], Cause.LOST),
            (Cause.TRAINING_CRASH, [(PERSON, Meaning.STOPPED)], Cause.TRAINING_CRASH),
        ],
    )
    def test_is_the_most_exact_word_that_the_entries_have(
        self, row_says: Cause, said_so: list[tuple[Author, Meaning]], cause: Cause
    ) -> None:
        evidence = tuple(event(meaning, author).evidence for author, meaning in said_so)
        assert incidents.cause_by_evidence(row_says, evidence) is cause

    def test_is_what_the_host_had_when_the_host_broke(self) -> None:
        assert lost(event(Meaning.HOST_ERROR)).cause is Cause.HOST_ERROR


class TestMilestones:
    def test_the_loss_began_with_the_earliest_entry(self) -> None:
        early = event(Meaning.WORKER_PREEMPTED, at=NOW - minutes(5)).evidence
        found = lost(event(Meaning.NODE_TERMINATED), suspicion=(early,)).milestones
        assert (found.occurred, found.received) == (NOW - minutes(5), NOW - minutes(5) + seconds(4))

    def test_the_loss_began_when_the_node_was_first_absent_if_no_entry_tells(self) -> None:
        one = job(absent_since=NOW - minutes(2))
        _, found = incidents.opened(one, one.state, seen(absent()), Cause.LOST, NOW)
        assert found is not None
        assert (found.milestones.occurred, found.milestones.received) == (NOW - minutes(2), NOW)

    def test_the_first_time_counts(self) -> None:
        once = incidents.with_milestone(incident(), "ready", NOW)
        assert incidents.with_milestone(once, "ready", NOW + minutes(1)) == once

    def test_of_the_new_node_are_not_those_of_the_lost_one(self) -> None:
        found = incidents.with_news(replace(job(), incident=incident()), seen(node()), NOW)
        assert found is not None
        assert (found.milestones.accepted, found.milestones.ready) == (None, None)

    def test_a_create_that_is_not_accepted_yet_is_none(self) -> None:
        found = incidents.with_news(replace(job(generation=2, create=None), incident=incident()), seen(), NOW)
        assert found is not None
        assert found.milestones == Milestones()
        waiting = coming_job(generation=2)
        later = incidents.with_news(replace(waiting, incident=incident()), seen(absent(2)), NOW)
        assert later is not None
        assert later.milestones == Milestones(accepted=NOW - minutes(1))


class TestLateEvidence:
    def test_of_the_loss_itself_moves_its_beginning_back(self) -> None:
        late = event(Meaning.NODE_TERMINATED, at=NOW - minutes(3)).evidence
        opened = incident(milestones=Milestones(occurred=NOW))
        assert incidents.first_seen(opened, late).milestones.occurred == NOW - minutes(3)
        assert incidents.first_seen(incident(), late).milestones.occurred == NOW - minutes(3)

    @pytest.mark.parametrize(
        "evidence",
        [
            event(Meaning.NODE_TERMINATED, at=NOW + minutes(1)).evidence,
            event(Meaning.DELETE_ACCEPTED, PERSON, at=NOW - minutes(1)).evidence,
            event(Meaning.NODE_RESTARTED, at=NOW - minutes(1)).evidence,
        ],
        ids=["later", "a person's", "no loss"],
    )
    def test_of_anything_else_does_not(self, evidence: Evidence) -> None:
        opened = incident(milestones=Milestones(occurred=NOW))
        assert incidents.first_seen(opened, evidence) == opened


class TestActions:
    def test_are_kept_in_order_with_their_reason(self) -> None:
        one = incidents.with_action(incidents.with_action(incident(), NOW, "a", "because"), NOW, "b", "")
        assert [(action.what, action.why, action.result) for action in one.actions] == [
            ("a", "because", "intended"),
            ("b", "", "intended"),
        ]

    def test_that_fail_the_same_way_for_days_are_noted_once(self) -> None:
        one = incident()
        for number in range(1000):
            one = incidents.with_action(one, NOW + seconds(30 * number), "delete g1", "", "failed: PERMISSION_DENIED")
        assert [action.at for action in one.actions] == [NOW]

    def test_get_their_result_later_the_newest_of_a_name(self) -> None:
        one = incidents.with_action(incident(), NOW, "launch 2", "a")
        one = incidents.with_action(one, NOW, "launch 2", "b")
        assert [action.result for action in incidents.with_result(one, "launch 2", "done").actions] == [
            "intended",
            "done",
        ]
        assert incidents.with_result(one, "never done", "x") == one


class TestTheCost:
    @pytest.mark.parametrize(
        ("last_step", "resumed_from", "steps_lost"), [(140, 100, 40), (140, None, 140), (None, 100, None), (90, 100, 0)]
    )
    def test_is_what_lies_between_the_last_step_and_the_resumed_one(
        self, last_step: int | None, resumed_from: int | None, steps_lost: int | None
    ) -> None:
        state = job(runners=running(ReportKind.STARTED, resumed_from=resumed_from)).state
        found = incidents.launched(incident(last_step=last_step), state, NOW)
        assert found is not None
        assert (found.resume_step, found.steps_lost) == (resumed_from, steps_lost)

    def test_is_told_in_one_sentence(self) -> None:
        whole = incident(milestones=Milestones(occurred=NOW, resumed=NOW + minutes(5)), resume_step=100, steps_lost=40)
        assert incidents.summary(whole) == "train trains again from step 100 after 300 s: PREEMPTION, 40 steps lost"
        assert incidents.summary(incident()) == (
            "train trains again from the beginning: PREEMPTION, an unknown number of steps lost"
        )


class TestNoIncident:
    def test_stays_none(self) -> None:
        assert incidents.launched(None, job().state, NOW) is None
        assert incidents.closed(None, NOW) is None

    def test_is_opened_without_a_cause(self) -> None:
        one = job()
        assert incidents.opened(one, one.state, seen(node()), None, NOW) == (one.state, None)


def test_closing_says_that_training_goes_on() -> None:
    found = incidents.closed(incident(), NOW)
    assert found is not None
    assert (found.outcome, found.closed, found.milestones.resumed) == (Outcome.RESUMED, NOW, NOW)


def test_a_node_that_is_deleted_later_is_deleted_in_the_incident_too() -> None:
    story = Story(job(leftovers=(leftover(0),)))
    found = story.look(seen(node("PREEMPTED"))).incident
    assert found is not None
    assert story.job.incident is not None
    assert [one.what for one in story.job.incident.actions][1:] == ["delete train-g0", "delete train-g1"]
