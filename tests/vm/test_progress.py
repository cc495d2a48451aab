from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpu_recovery.vm.progress import read_step


@pytest.mark.parametrize(
    ("content", "step"),
    [("41", 41), (" 41 \n", 41), ("0", 0), ("007", 7), ("", None), ("41.5", None), ("-1", None), ("4 1", None),
     ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 100, None), ("step 41", None)],
)  # fmt: skip
def test_a_step_is_a_decimal_number_and_nothing_else(tmp_path: Path, content: str, step: int | None) -> None:
    (tmp_path / "progress").write_text(content)
    assert read_step(tmp_path / "progress") == step


def test_no_file_is_no_step(tmp_path: Path) -> None:
    assert read_step(tmp_path / "progress") is None
    assert read_step(tmp_path) is None


def test_a_pipe_or_a_link_is_no_step_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("41")
    (tmp_path / "link").symlink_to("file")
    assert read_step(tmp_path / "pipe") is None
    assert read_step(tmp_path / "link") is None
