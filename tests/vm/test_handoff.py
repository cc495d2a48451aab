from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.vm.handoffs import VALID, handoff

from tpu_recovery.vm.handoff import HandoffInvalid, Launch, Program, parse


def test_a_hand_off_becomes_what_the_runner_works_with() -> None:
    parsed = handoff(
        program={"archive": "gs://b/x.tar.gz", "sha256": "a" * 64},
        checkpoints={"path": "gs://b/p", "format": "orbax", "seen_step": 40},
        resume={"step": 40, "path": "gs://b/p/40"},
        a_field_of_a_later_version="is left alone",
    )
    assert parsed.key == Launch(2, 1)
    assert parsed.program == Program("archive", "gs://b/x.tar.gz", "a" * 64)
    assert parsed.checkpoints is not None
    assert (parsed.checkpoints.seen_step, parsed.advised_step) == (40, 40)
    assert not parsed.stop


@pytest.mark.parametrize(
    "text", ["2026-12-01T15:00:00Z", "2026-12-01T15:00:00.123456Z", "2026-12-01T15:00:00.123456789+00:00"]
)
def test_times_are_utc_and_fractions_are_cut_off(text: str) -> None:
    assert handoff(launch_before=text).launch_before == datetime(2026, 12, 1, 15, tzinfo=UTC)


def test_launches_are_ordered_by_generation_first() -> None:
    assert Launch(2, 0) > Launch(1, 9)
    assert Launch(2, 2) > Launch(2, 1)


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"version": "1"}, 'hand-off field version is "1": a whole number from 1 is needed'),
    ({"job": None}, "hand-off field job is null: a text that is not empty is needed"),
    ({"generation": 0}, "hand-off field generation is 0: a whole number from 1 is needed"),
    ({"launch": True}, "hand-off field launch is true: a whole number from 0 is needed"),
    ({"wanted": "pause"}, 'hand-off field wanted is "pause": run or stop is needed'),
    ({"launch_before": "tomorrow"}, 'launch_before is "tomorrow": a time in UTC such as'),
    ({"launch_before": "2026-13-01T15:00:00Z"}, "a time in UTC that exists is needed"),
    ({"program": {"image": "x"}}, '"sha256": "..."} or {"none": true} is needed'),
    ({"program": {"archive": "/x.tar.gz", "sha256": "a" * 64}}, 'program.archive is "/x.tar.gz": gs://bucket/object'),
    ({"program": {"archive": "gs://b/x", "sha256": "ABC"}}, "program.sha256 is"),
    ({"working_directory": "../x"}, "working_directory is"),
    ({"working_directory": "/x"}, "a directory inside the program, relative and without .. is needed"),
    ({"checkpoints": {"path": "p", "format": "orbax"}}, "hand-off field checkpoints: checkpoint path 'p' must start"),
    ({"checkpoints": {"path": "gs://b/p", "format": "pickle"}}, "'pickle' is not known; known are:"),
    ({"deadlines": {"startup_script": 1, "setup": 1, "stop": 0}}, "deadlines.stop is 0: a number of seconds above 0"),
    ({"crashes": {"limit": -1}}, "hand-off field crashes.limit is -1: a whole number from 0 is needed"),
    ({"timing": []}, "hand-off field timing is []: an object is needed"),
    ({"environment": []}, "hand-off field environment: an object of strings is needed"),
]


@pytest.mark.parametrize(("changes", "words"), MISTAKES)
def test_a_mistake_is_named_with_its_field_its_value_and_what_would_be_right(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(HandoffInvalid) as mistake:
        parse(json.dumps({**VALID, **changes}))
    assert words in str(mistake.value)


@pytest.mark.parametrize("changes", [{"token": 7777}, {"environment": {"KEY": 7777}}, {"environment": {"a b": "7777"}}])
def test_a_mistake_in_a_secret_does_not_show_it(changes: dict[str, Any]) -> None:
    with pytest.raises(HandoffInvalid) as mistake:
        parse(json.dumps({**VALID, **changes}))
    assert "7777" not in str(mistake.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{"])
def test_a_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(HandoffInvalid, match="the hand-off is not"):
        parse(text)
