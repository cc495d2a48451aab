from __future__ import annotations

from pathlib import Path

import pytest

from tpu_recovery.vm.handoff import Launch
from tpu_recovery.vm.state import JobState, Settled, State, StateFile


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    settled = Settled(Launch(2, 1), "b1", "gave_up", "crash-loop", "lines", 3)
    job = JobState("k3v", "b1", Launch(2, 1), Launch(2, 0), settled, crashes=2, best_step=4)
    state = State(17, {"setup": "b1 digest"}, job)
    file = StateFile(tmp_path / "new" / "state.json")
    file.save(state)
    assert file.load() == state


def test_without_a_file_everything_is_new(tmp_path: Path) -> None:
    assert StateFile(tmp_path / "state.json").load() == State()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sequence": 1}', '{"sequence": 1, "scripts": {}, "job": {"x": 1}}'])
def test_a_damaged_file_counts_as_missing(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state.json").write_text(text)
    assert StateFile(tmp_path / "state.json").load() == State()
    assert "is damaged" in capsys.readouterr().out
