"""Texts are cut by what they take up in a document."""

from __future__ import annotations

import pytest

from tpu_recovery.model.texts import cut


@pytest.mark.parametrize("text", ["", "short", "x" * 20, "é" * 10])
def test_a_text_that_fits_stays_as_it_is(text: str) -> None:
    assert cut(text, 20) == text


@pytest.mark.parametrize("text", ["x" * 21, "é" * 11, "🎈" * 6])
def test_one_that_does_not_is_cut_between_characters_and_shows_it(text: str) -> None:
    short = cut(text, 20)
    assert len(short.encode()) <= 20
    assert text.startswith(short.removesuffix("…"))
    assert short.endswith("…")
