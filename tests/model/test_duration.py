from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import durations

from tpu_recovery.errors import Invalid
from tpu_recovery.model.duration import LONGEST, Duration

# fmt: off
TEXTS = [
    # text          seconds    written again
    ("45s",         45,        "45s"),
    ("15m",         900,       "15m"),
    ("1h30m",       5_400,     "1h30m"),
    ("2d",          172_800,   "2d"),
    ("1d2h3m4s",    93_784,    "1d2h3m4s"),
    ("90m",         5_400,     "1h30m"),
    ("86400s",      86_400,    "1d"),
    ("0s",          0,         "0s"),
    ("0h0m",        0,         "0s"),
    ("007m",        420,       "7m"),
    ("3650d",       315_360_000, "3650d"),
]
# fmt: on


@pytest.mark.parametrize(("text", "seconds", "again"), TEXTS)
def test_a_duration_is_read_and_written_as_people_do(text: str, seconds: int, again: str) -> None:
    duration = Duration.parse(text)
    assert duration == timedelta(seconds=seconds)
    assert str(duration) == again


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "m",
        "1 h",
        " 1h",
        "1h ",
        "1h\n",
        "30m1h",
        "1h1h",
        "-1h",
        "1.5h",
        "1H",
        "1w",
        "PT1H",
        "1h30",
        "٣h",
        "1000000000s",
    ],
)
def test_anything_else_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(Invalid, match="write whole units like 45s, 15m, 1h30m or 2d"):
        Duration.parse(text)


@pytest.mark.parametrize("value", [3_600, 1.5, None, True, ["1h"], timedelta(hours=1)])
def test_only_text_is_a_duration(value: object) -> None:
    with pytest.raises(Invalid, match=r"^duration: "):
        Duration.parse(value)


@pytest.mark.parametrize("text", ["3650d1s", "999999999d", "999999999d999999999h999999999m999999999s"])
def test_nobody_waits_longer_than_ten_years(text: str) -> None:
    with pytest.raises(Invalid, match="at most 3650d"):
        Duration.parse(text)
    assert datetime(2026, 12, 1, tzinfo=UTC) + LONGEST


@given(durations)
def test_what_was_written_is_read_as_the_same(duration: Duration) -> None:
    assert Duration.parse(str(duration)) == duration


@given(st.text())
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        duration = Duration.parse(text)
    except Invalid:
        return
    assert timedelta() <= duration <= LONGEST
