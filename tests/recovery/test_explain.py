"""Why a row applies, in words for people."""

from __future__ import annotations

import pytest
from tests.recovery.builders import (
    NOW,
    STILL_RUNNING,
    STOCKOUT,
    absent,
    checkpoint,
    coming_job,
    created,
    event,
    fresh_job,
    job,
    leftover,
    node,
    operation,
    resume,
    running,
    seen,
    unreadable,
    waiting_job,
)

from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import Author, Meaning, ReportKind
from tpu_recovery.model.observed import CheckpointFinding, Observed, OperationState
from tpu_recovery.model.state import CreateError, Phase
from tpu_recovery.recovery.decide import decide

REFUSED = CreateError(code="INVALID_ARGUMENT", message="no such type", at=NOW)


def test_of_many_workers_that_say_the_same_a_few_are_quoted() -> None:
    runners = running(*[ReportKind.SETUP_FAILED] * 2_000, reason="archive-digest", detail="x" * 500)
    why = decide(job(runners=runners), seen(node()), NOW).why
    assert ("worker 2" in why, "worker 3" in why) == (True, False)
    assert "and 1997 more" in why


@pytest.mark.parametrize(
    ("one", "observed", "words"),
    [
        (job(Phase.HELD), seen(), "a held job waits for a person"),
        (fresh_job(), seen(), "there is something to start from"),
        (
            job(),
            seen(node("PREEMPTED")),
            "the Spot node was taken; there is something to start from (train-g1 reads PREEMPTED)",
        ),
        (job(), seen(absent()), "the node is absent for the first time (train-g1 is absent)"),
        (
            job(),
            seen(unreadable()),
            "the API gives no reading that we understand (train-g1 cannot be read: UNAVAILABLE: try later)",
        ),
        (
            job(),
            seen(node(), event(Meaning.DELETE_ACCEPTED, Author.PERSON)),
            "an entry says the ready node is lost (train-g1 reads READY; entries blame the person)",
        ),
        (
            fresh_job(),
            seen(checkpoint=checkpoint(CheckpointFinding.INCOMPLETE, "step 7 lacks commit_success")),
            "checkpoints are there, but none is complete (step 7 lacks commit_success)",
        ),
        (
            coming_job(),
            seen(absent(), operation=STOCKOUT),
            (
                "the create failed: there is no capacity just now; there is something to start from "
                "(train-g1 is absent; the create failed: RESOURCE_EXHAUSTED: There is no more capacity in the zone)"
            ),
        ),
        (coming_job(), seen(absent(), operation=STILL_RUNNING), "the create is under way (train-g1 is absent)"),
        (
            coming_job(),
            seen(absent(), operation=operation(OperationState.FAILED, "PERMISSION_DENIED", "no billing")),
            ("the create was refused for good (train-g1 is absent; the create failed: PERMISSION_DENIED: no billing)"),
        ),
        (
            waiting_job(create=created(accepted=None, operation="", error=REFUSED)),
            seen(absent()),
            (
                "the create was refused for good "
                "(train-g1 is absent; the create call failed: INVALID_ARGUMENT: no such type)"
            ),
        ),
        (
            job(runners=running(ReportKind.GAVE_UP, exit_code=1, reason="crash-loop", detail="KeyError: 'x'")),
            seen(node()),
            (
                "the program crashes again and again: does the cloud know why? "
                "(train-g1 reads READY; worker 0: gave_up, crash-loop, exit code 1: KeyError: 'x')"
            ),
        ),
        (
            job(runners=running(ReportKind.REFUSED, reason="checkpoints-older")),
            seen(node()),
            (
                "the runner refuses to start: no checkpoint to resume from "
                "(train-g1 reads READY; worker 0: refused, checkpoints-older)"
            ),
        ),
        (
            job(launch=0, handed=0, leftovers=(leftover(0), leftover(9, stopped=True))),
            seen(node()),
            "an older generation still runs (train-g1 reads READY; generation 0 may still run)",
        ),
        (
            job(Phase.HELD, suspicion=(event(Meaning.DELETE_ENDED, Author.PERSON).evidence,), absent_since=NOW),
            seen(absent(), resume()),
            "the node is absent for the first time (train-g1 is absent; entries blame the person)",
        ),
    ],
)
def test_the_reason_names_the_row_and_the_facts(one: Job, observed: Observed, words: str) -> None:
    assert decide(one, observed, NOW).why == words
