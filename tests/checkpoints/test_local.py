from __future__ import annotations

from pathlib import Path

import pytest

from tpu_recovery.checkpoints import Choice, LocalListing, Outcome, Unreadable, newest_complete


def test_a_disk_is_read(tmp_path: Path) -> None:
    (tmp_path / "40" / "state").mkdir(parents=True)
    (tmp_path / "60.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    assert sorted(LocalListing().directories(str(tmp_path))) == ["40", "60.orbax-checkpoint-tmp"]
    assert LocalListing().files(str(tmp_path)) == {"notes.txt": 5}
    choice = newest_complete(LocalListing(), str(tmp_path), "orbax")
    assert (choice.step, choice.path) == (40, f"{tmp_path}/40")


def test_a_directory_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert newest_complete(LocalListing(), str(tmp_path / "absent"), "orbax") == Choice(Outcome.EMPTY)


def test_a_broken_link_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert LocalListing().files(str(tmp_path)) == {}


def test_a_path_that_is_no_directory_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreadable, match="cannot read the directory: Not a directory"):
        newest_complete(LocalListing(), str(tmp_path / "file"), "orbax")
