from __future__ import annotations

import pytest

from tpu_recovery.checkpoints import Choice, Outcome, Skipped, Verdict, judge

FOUND_40 = Choice(Outcome.FOUND, 40, "gs://b/p/40", (Skipped(60, "no commit_success.txt, the save was interrupted"),))
NONE_COMPLETE = Choice(Outcome.INCOMPLETE, skipped=(Skipped(10, "no commit_success.txt, the save was interrupted"),))
EMPTY = Choice(Outcome.EMPTY)

# fmt: off
CASES = [
    # choice        seen  verdict             the reason says
    (FOUND_40,      None, Verdict.RESUME,     "newest complete step is 40 (step 60: no commit_success.txt"),
    (FOUND_40,      40,   Verdict.RESUME,     "newest complete step is 40"),
    (FOUND_40,      20,   Verdict.RESUME,     "newest complete step is 40"),
    (FOUND_40,      50,   Verdict.OLDER,      "newest complete step is 40, but step 50 was seen complete"),
    (EMPTY,         None, Verdict.START,      "nothing was saved yet"),
    (EMPTY,         0,    Verdict.MISSING,    "no checkpoint is there, but step 0 was seen complete before"),
    (NONE_COMPLETE, None, Verdict.INCOMPLETE, "none is complete: step 10: no commit_success.txt"),
    (NONE_COMPLETE, 40,   Verdict.INCOMPLETE, "none is complete: step 10"),
]
# fmt: on


@pytest.mark.parametrize(("choice", "seen_step", "verdict", "words"), CASES)
def test_training_may_start_only_from_nothing_or_from_the_newest_step_ever_seen(
    choice: Choice, seen_step: int | None, verdict: Verdict, words: str
) -> None:
    judgement = judge(choice, seen_step)
    assert judgement.verdict is verdict
    assert words in judgement.why


def test_a_reason_names_ten_skipped_steps_and_counts_the_others() -> None:
    skipped = tuple(Skipped(step, "interrupted") for step in range(32, 20, -1))
    why = judge(Choice(Outcome.FOUND, 20, "gs://b/p/20", skipped), None).why
    assert why.count("interrupted") == 10
    assert why.endswith("step 23: interrupted; and 2 more)")
