"""What a look has read becomes part of what is known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.recovery.builders import (
    FOUND,
    NOW,
    PROJECT,
    ZONE,
    absent,
    checkpoint,
    coming_job,
    command,
    created,
    event,
    fresh_job,
    hours,
    job,
    minutes,
    name_of,
    node,
    report,
    resume,
    running,
    said,
    seconds,
    seen,
    unreadable,
    waiting_job,
)

from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import Author, CommandKind, Meaning, ReportKind
from tpu_recovery.model.observed import CheckpointFinding, Observed
from tpu_recovery.model.state import CreateError, Hold, JobState, Patience, Phase, Progress, Slice, Spending
from tpu_recovery.recovery.absorb import MOST_EVIDENCE, absorb
from tpu_recovery.recovery.situation import ABOUT_OLDER_CHECKPOINTS, Wish, wish_of

WORKER = "t1v-n-9472280f-w-0"
WORKER_VM = f"projects/{PROJECT}/zones/{ZONE}/instances/{WORKER}"


def after(one: Job, observed: Observed) -> JobState:
    return absorb(one, observed, NOW)[0].state


class TestReports:
    def test_the_newest_of_each_worker_counts(self) -> None:
        letters = (
            said(ReportKind.STARTED, worker=1, sequence=1),
            said(ReportKind.STARTED, sequence=1),
            said(ReportKind.CRASHED, sequence=2, exit_code=1),
        )
        state = after(job(), seen(node(), *letters))
        assert [(one.worker, one.kind) for one in state.runners] == [(0, ReportKind.CRASHED), (1, ReportKind.STARTED)]

    @pytest.mark.parametrize("boot_and_time", [{"sequence": 1}, {"boot": "old", "sequence": 1, "at": NOW - minutes(1)}])
    def test_an_older_one_changes_nothing(self, boot_and_time: dict[str, object]) -> None:
        one = job(runners=running(ReportKind.CRASHED, sequence=2))
        state = after(one, seen(node(), said(ReportKind.STARTED, **boot_and_time)))
        assert state.runners == one.state.runners

    def test_one_of_a_later_boot_is_newer_although_it_counts_from_one(self) -> None:
        one = job(runners=running(ReportKind.STOPPING, sequence=40))
        state = after(one, seen(node(), said(ReportKind.BOOTED, boot="next", sequence=1, at=NOW + minutes(4))))
        assert state.runners[0].kind is ReportKind.BOOTED

    def test_one_that_the_runner_counted_later_is_newer_although_the_clock_of_its_boot_is_behind(self) -> None:
        one = job(runners=running(ReportKind.STOPPING, sequence=40), progress=Progress(step=120, at=NOW))
        late = said(ReportKind.STARTED, boot="next", sequence=41, step=100, at=NOW - hours(3))
        state = after(one, seen(node(), late))
        assert (state.runners[0].kind, state.progress.step) == (ReportKind.STARTED, 100)
        again = said(ReportKind.PROGRESS, boot="next", sequence=42, step=130, at=NOW - hours(2))
        assert after(job(runners=state.runners, progress=state.progress), seen(node(), again)).progress.step == 130

    def test_one_read_from_guest_attributes_counts_like_one_that_arrived(self) -> None:
        assert after(job(), seen(node(), reports=[report(ReportKind.STARTED)])).runners[0].kind is ReportKind.STARTED

    def test_alive_tells_the_step_and_replaces_no_news(self) -> None:
        one = job(runners=running(ReportKind.STARTED))
        state = after(one, seen(node(), reports=[report(ReportKind.ALIVE, sequence=5, step=70)]))
        assert (state.runners[0].kind, state.progress.step) == (ReportKind.STARTED, 70)

    def test_progress_marks_the_generation(self) -> None:
        state = after(job(), seen(node(), said(ReportKind.PROGRESS, step=101, checkpoint_step=100)))
        assert (state.progressed, state.progress) == (1, Progress(step=101, checkpoint_step=100, at=NOW))

    def test_the_newest_step_is_the_one_reported_last_even_if_it_is_lower(self) -> None:
        one = job(progress=Progress(step=120, at=NOW - minutes(1)))
        assert after(one, seen(node(), said(ReportKind.STARTED, step=100))).progress.step == 100

    def test_a_late_report_does_not_turn_the_step_back(self) -> None:
        one = job(progress=Progress(step=120, at=NOW))
        state = after(one, seen(node(), said(ReportKind.STARTED, step=7, at=NOW - minutes(5))))
        assert state.progress.step == 120

    def test_the_newest_complete_checkpoint_never_gets_older(self) -> None:
        one = job(progress=Progress(checkpoint_step=100))
        assert after(one, seen(node(), said(ReportKind.STARTED, checkpoint_step=60))).progress.checkpoint_step == 100

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            ({"uid": "x"}, "it is about another registration of the job (x)"),
            ({"generation": 3}, "it is about generation 3; the current one is 1"),
            ({"token": "guess"}, "its token is not the one of this generation"),
        ],
    )
    def test_one_that_is_not_about_this_generation_is_ignored_with_the_reason(
        self, wrong: dict[str, object], reason: str
    ) -> None:
        letter = said(ReportKind.FINISHED, step=9, **wrong)
        changed, ignored = absorb(job(), seen(node(), letter), NOW)
        assert ignored == {letter.key: reason}
        assert (changed.state.runners, changed.state.progress) == ((), Progress())

    def test_nothing_proves_a_report_while_the_generation_has_no_token(self) -> None:
        assert after(job(token=""), seen(node(), said(ReportKind.FINISHED, token=""))).runners == ()

    def test_the_host_name_in_a_report_makes_entries_about_the_worker_find_the_job(self) -> None:
        letter = said(ReportKind.STARTED, hostname=f"{WORKER}.us-east5-b.c.demo-proj.internal")
        state = after(job(), seen(node(), letter))
        assert state.slices[0].hostnames == (WORKER,)
        assert state.resources == (name_of(1), WORKER_VM)

    def test_a_host_name_says_nothing_when_no_node_is_left(self) -> None:
        assert after(job(slices=()), seen(None, said(ReportKind.STARTED, hostname=WORKER))).slices == ()


class TestEvents:
    def test_the_end_of_the_current_node_is_suspected(self) -> None:
        letters = (event(Meaning.NODE_TERMINATED), event(Meaning.DELETE_ACCEPTED, Author.PERSON))
        assert after(job(), seen(node(), *letters)).suspicion == tuple(letter.evidence for letter in letters)

    def test_a_worker_vm_of_the_node_counts_by_its_host_name(self) -> None:
        slices = (Slice(name=name_of(1), id="node-1", state="READY", hostnames=(WORKER,)),)
        letter = event(Meaning.WORKER_PREEMPTED, about=WORKER_VM)
        assert after(job(slices=slices), seen(node(), letter)).suspicion == (letter.evidence,)
        assert after(job(), seen(node(), letter)).suspicion == ()

    @pytest.mark.parametrize(
        "letter",
        [
            event(Meaning.DELETE_ACCEPTED, Author.SERVICE),
            event(Meaning.MAINTENANCE_NOTICE),
            event(Meaning.CREATE_ENDED, Author.SERVICE),
            event(Meaning.NODE_TERMINATED, about=name_of(7)),
        ],
        ids=["our own delete", "a notice", "a create", "another node"],
    )
    def test_anything_else_is_no_suspicion(self, letter: object) -> None:
        assert after(job(), seen(node(), letter)).suspicion == ()  # type: ignore[arg-type]

    def test_an_entry_that_is_read_twice_is_one_piece_of_evidence(self) -> None:
        letter = event(Meaning.NODE_TERMINATED)
        assert len(after(job(suspicion=(letter.evidence,)), seen(node(), letter)).suspicion) == 1

    def test_the_latest_are_kept_when_there_are_too_many(self) -> None:
        letters = [event(Meaning.WORKER_PREEMPTED, key=str(number)) for number in range(MOST_EVIDENCE + 5)]
        suspicion = after(job(), seen(node(), *letters)).suspicion
        assert suspicion == tuple(letter.evidence for letter in letters[5:])


class TestTheNode:
    def test_what_was_read_is_kept_with_its_host_names(self) -> None:
        state = after(waiting_job(), seen(node(health="HEALTHY"), hostnames=(WORKER,)))
        assert state.slices == (
            Slice(
                name=name_of(1),
                id="node-1",
                create_time=NOW,
                state="READY",
                health="HEALTHY",
                hostnames=(WORKER,),
            ),
        )

    def test_host_names_that_are_known_are_not_written_again(self) -> None:
        once = after(job(), seen(node(), hostnames=(WORKER,)))
        assert after(job(slices=once.slices), seen(node(), hostnames=(WORKER,))).resources == (name_of(1),)

    def test_a_node_that_is_there_proves_that_its_create_was_accepted(self) -> None:
        error = CreateError(code="RESOURCE_EXHAUSTED", message="no", at=NOW)
        one = waiting_job(create=created(accepted=None, operation="", error=error))
        state = after(one, seen(node("CREATING")))
        assert state.create is not None
        assert (state.create.accepted, state.create.error, state.handed) == (NOW, None, 1)

    @pytest.mark.parametrize("one", [job(), coming_job()], ids=["seen before", "accepted"])
    def test_the_first_absence_is_remembered(self, one: Job) -> None:
        assert after(one, seen(absent())).absent_since == NOW

    def test_a_node_that_was_never_there_is_not_absent(self) -> None:
        assert after(waiting_job(), seen(absent())).absent_since is None

    def test_a_later_absence_does_not_move_the_first(self) -> None:
        assert after(job(absent_since=NOW - seconds(9)), seen(absent())).absent_since == NOW - seconds(9)

    @pytest.mark.parametrize("observed", [seen(unreadable()), seen(None)])
    def test_no_reading_changes_nothing(self, observed: Observed) -> None:
        one = job(absent_since=NOW - seconds(9))
        assert after(one, observed) == one.state

    def test_a_node_of_somebody_else_is_not_ours_to_describe(self) -> None:
        one = waiting_job()
        assert after(one, seen(node(labels={}))).slices == one.state.slices

    def test_a_job_without_a_node_has_nothing_to_learn(self) -> None:
        assert after(fresh_job(), seen()) == fresh_job().state


class TestAStoppedNode:
    """Its VM may not have had the time to say goodbye, and nobody says anything when it does not come up again."""

    @pytest.mark.parametrize("kind", [ReportKind.STARTED, ReportKind.PROGRESS, ReportKind.CRASHED])
    @pytest.mark.parametrize("state", ["STOPPING", "STOPPED", "STARTING"])
    def test_has_no_program_that_runs(self, kind: ReportKind, state: str) -> None:
        (runner,) = after(job(runners=running(kind)), seen(node(state))).runners
        assert (runner.kind, runner.reason) == (ReportKind.STOPPED, "node-stopped")

    def test_does_not_change_how_a_program_has_ended(self) -> None:
        one = job(runners=running(ReportKind.FINISHED))
        assert after(one, seen(node("STOPPED"))).runners == one.state.runners

    def test_speaks_anew_when_it_is_started_again(self) -> None:
        stopped = job(runners=running(ReportKind.STOPPED))
        again = said(ReportKind.STARTED, boot="second", at=NOW + seconds(90))
        assert [one.kind for one in after(stopped, seen(node(), again)).runners] == [ReportKind.STARTED]


class TestResume:
    def test_begins_waits_and_attempts_anew(self) -> None:
        one = job(
            patience={"beacon": Patience(since=NOW, until=NOW)},
            spending={"loss": Spending(spent=4, forgiven=1)},
            progress=Progress(step=7, checkpoint_step=5),
        )
        state = after(one, seen(absent(), resume()))
        assert (state.patience, state.spending) == ({}, {"loss": Spending(spent=4, forgiven=4)})
        assert (state.progress, state.going_on) == (Progress(step=7, checkpoint_step=5), True)

    @pytest.mark.parametrize("row", sorted(ABOUT_OLDER_CHECKPOINTS))
    def test_accepts_an_older_checkpoint_when_that_is_what_the_hold_was_about(self, row: str) -> None:
        hold = Hold(reason="r", needs="n", since=NOW, row=row)
        one = job(Phase.HELD, hold=hold, progress=Progress(step=7, checkpoint_step=5))
        assert after(one, seen(absent(), resume())).progress == Progress(step=7, older_accepted=NOW)

    def test_what_was_reported_before_an_older_checkpoint_was_accepted_does_not_bring_the_newer_one_back(self) -> None:
        """Guest attributes keep the last word of the program for as long as the node lives."""
        one = job(progress=Progress(older_accepted=NOW))
        before = replace(seen(node()), reports=(report(ReportKind.ALIVE, checkpoint_step=100, at=NOW),))
        assert after(one, before).progress.checkpoint_step is None
        since = replace(seen(node()), reports=(report(ReportKind.ALIVE, checkpoint_step=60, at=NOW + seconds(1)),))
        assert after(one, since).progress.checkpoint_step == 60

    def test_sent_before_the_job_was_held_releases_nothing(self) -> None:
        """Pub/Sub may bring it an hour late, when its own hold is over and another has begun."""
        hold = Hold(reason="r", needs="n", since=NOW, row="a person deleted the node")
        one = job(Phase.HELD, hold=hold)
        letter = command(CommandKind.RESUME, NOW - minutes(6))
        absorbed, ignored = absorb(one, seen(absent(), letter), NOW)
        assert not absorbed.state.going_on
        assert ignored == {letter.key: "it was sent before the job was held"}
        assert wish_of(absorbed, seen(absent(), letter)) is Wish.RUN

    def test_counts_although_the_clock_of_a_persons_machine_is_behind(self) -> None:
        hold = Hold(reason="r", needs="n", since=NOW, row="a person deleted the node")
        letter = command(CommandKind.RESUME, NOW - minutes(5))
        assert after(job(Phase.HELD, hold=hold), seen(absent(), letter)).going_on

    def test_of_a_job_that_is_not_held_counts_whenever_it_was_sent(self) -> None:
        assert after(job(), seen(absent(), command(CommandKind.RESUME, NOW - minutes(60)))).going_on

    def test_late_news_of_another_kind_is_no_late_resume(self) -> None:
        hold = Hold(reason="r", needs="n", since=NOW, row="a person deleted the node")
        letter = command(CommandKind.APPLY, NOW - minutes(60))
        assert absorb(job(Phase.HELD, hold=hold), seen(absent(), letter), NOW)[1] == {}

    def test_forgets_entries_about_the_end_of_a_node_only_when_it_is_ready(self) -> None:
        one = job(suspicion=(event(Meaning.STOPPED, Author.PERSON).evidence,))
        assert after(one, seen(node(), resume())).suspicion == ()
        assert len(after(one, seen(absent(), resume())).suspicion) == 1
        assert len(after(one, seen(None, resume())).suspicion) == 1


def test_a_checkpoint_that_was_found_is_the_newest_that_was_ever_seen() -> None:
    assert after(job(), seen(node(), checkpoint=FOUND)).progress.checkpoint_step == 100
    ahead = job(progress=Progress(checkpoint_step=140))
    assert after(ahead, seen(node(), checkpoint=FOUND)).progress.checkpoint_step == 140
    empty = checkpoint(CheckpointFinding.EMPTY)
    assert after(ahead, seen(node(), checkpoint=empty)).progress.checkpoint_step == 140
