from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tpu_recovery.vm.unpack import ArchiveUnsafe, unpack

Member = tuple[str, bytes, str]  # name, type, content of a file or target of a link

FILE, DIRECTORY, SYMLINK, HARD_LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def pack(path: Path, *members: Member, mode: int = 0o755) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, mode
            if kind == FILE:
                member.size = len(text)
            else:
                member.linkname = text
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    (tmp_path / "outside").write_text("precious")
    return tmp_path / "into"


def test_files_directories_and_links_arrive(tmp_path: Path, into: Path) -> None:
    archive = pack(
        tmp_path / "x.tar.gz",
        ("./", DIRECTORY, ""),
        ("./src/train.py", FILE, "print()"),
        ("data/", DIRECTORY, ""),
        ("latest", SYMLINK, "src/train.py"),
        ("src/back", SYMLINK, "../data"),
        ("same", HARD_LINK, "src/train.py"),
        mode=0o4755,
    )
    unpack(archive, into)
    assert (into / "latest").read_text() == (into / "same").read_text() == "print()"
    assert (into / "src/back").is_dir()
    assert (into / "src/train.py").stat().st_mode & 0o7777 == 0o755  # executable, but not with another's rights


def test_a_file_that_comes_twice_has_the_later_content(tmp_path: Path, into: Path) -> None:
    unpack(pack(tmp_path / "x.tar.gz", ("a", FILE, "1"), ("a", FILE, "2")), into)
    assert (into / "a").read_text() == "2"


UNSAFE: dict[str, list[Member]] = {
    "an absolute path": [("/outside", FILE, "x")],
    "a path upwards": [("a/../../outside", FILE, "x")],
    "a link upwards": [("a", SYMLINK, "../outside")],
    "an absolute link": [("a", SYMLINK, "/etc/passwd")],
    "writing through a link": [("a", SYMLINK, ".."), ("a/outside", FILE, "x")],
    "a hard link to the outside": [("a", HARD_LINK, "../outside")],
    "a link that is outside only once another exists": [
        ("p/q/s", SYMLINK, "../.."),
        ("u", SYMLINK, "v/.."),
        ("v", SYMLINK, "p/q/s"),
    ],
    "a device": [("a", tarfile.CHRTYPE, "")],
    "a pipe": [("a", tarfile.FIFOTYPE, "")],
}


@pytest.mark.parametrize("members", UNSAFE.values(), ids=UNSAFE.keys())
def test_nothing_reaches_outside(tmp_path: Path, into: Path, members: list[Member]) -> None:
    with pytest.raises(ArchiveUnsafe):
        unpack(pack(tmp_path / "x.tar.gz", *members), into)
    assert (tmp_path / "outside").read_text() == "precious"


def test_something_else_is_no_archive(tmp_path: Path, into: Path) -> None:
    (tmp_path / "x").write_text("<html>")
    with pytest.raises(tarfile.TarError):
        unpack(tmp_path / "x", into)
