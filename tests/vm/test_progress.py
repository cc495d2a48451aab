from __future__ import annotations

from pathlib import Path

import pytest

from tpu_recovery.vm.progress import read_step


@pytest.mark.parametrize(
    ("content", "step"),
    [("41", 41), (" 41 \n", 41), ("0", 0), ("007", 7), ("", None), ("41.5", None), ("-1", None), ("4 1", None),
     ("9" * 100, None), ("step 41", None)],
)  # fmt: skip
def test_a_step_is_a_decimal_number_and_nothing_else(tmp_path: Path, content: str, step: int | None) -> None:
    (tmp_path / "progress").write_text(content)
    assert read_step(tmp_path / "progress") == step


def test_no_file_is_no_step(tmp_path: Path) -> None:
    assert read_step(tmp_path / "progress") is None
    assert read_step(tmp_path) is None
