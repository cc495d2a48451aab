from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from tpu_recovery.vm.unpack import ArchiveUnreadable, ArchiveUnsafe, unpack

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
    with pytest.raises(ArchiveUnreadable):
        unpack(tmp_path / "x", into)


MODES: dict[str, Literal["w:", "w:gz", "w:bz2", "w:xz"]] = {"": "w:", "gz": "w:gz", "bz2": "w:bz2", "xz": "w:xz"}


def packed(mode: str) -> bytes:
    """Three files that hardly compress, with headers in the middle."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=MODES[mode]) as tar:
        for name in "abc":
            member = tarfile.TarInfo(name)
            member.size = 20_000
            tar.addfile(member, io.BytesIO(random.Random(name).randbytes(member.size)))
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["", "gz", "bz2", "xz"])
def test_every_kind_of_compression_is_understood(tmp_path: Path, into: Path, mode: str) -> None:
    (tmp_path / "x").write_bytes(packed(mode))
    unpack(tmp_path / "x", into)
    assert sorted(path.name for path in into.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("place", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.9999])
def test_a_byte_damaged_anywhere_is_never_taken_for_good(tmp_path: Path, into: Path, mode: str, place: float) -> None:
    content = bytearray(packed(mode))
    content[int(place * len(content))] ^= 0x5A
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ArchiveUnreadable):
        unpack(tmp_path / "x", into)


@pytest.mark.parametrize("mode", ["", "gz", "bz2", "xz"])
@pytest.mark.parametrize("place", [0.01, 0.3, 0.5, 0.7, 0.8])
def test_an_archive_that_is_cut_off_is_never_taken_for_good(
    tmp_path: Path, into: Path, mode: str, place: float
) -> None:
    content = packed(mode)
    (tmp_path / "x").write_bytes(content[: int(place * len(content))])
    with pytest.raises(ArchiveUnreadable):
        unpack(tmp_path / "x", into)


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path, into: Path) -> None:
    content = bytearray(packed(""))
    content[content.index(b"b\0\0\0")] ^= 1
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ArchiveUnreadable, match="damaged or cut off at byte 20992"):
        unpack(tmp_path / "x", into)


def test_a_name_with_a_null_byte_is_unreadable(tmp_path: Path, into: Path) -> None:
    with tarfile.open(tmp_path / "x", "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("x")
        member.pax_headers = {"path": "a\0b"}
        tar.addfile(member)
    with pytest.raises(ArchiveUnreadable, match="null byte"):
        unpack(tmp_path / "x", into)
