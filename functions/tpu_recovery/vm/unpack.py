"""Unpacking an archive that must not write outside its directory. Python 3.8's tarfile does not see to that."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

_CHUNK = 1024 * 1024  # bytes


class ArchiveUnreadable(Exception):
    """This is no archive, it is damaged, or there is no room for it; the message says what was found."""


class ArchiveUnsafe(ArchiveUnreadable):
    """A member of the archive would reach outside; the message names it."""


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar archive, compressed or not, into an existing empty directory.

    Takes files, directories and links that stay inside, with their permissions but without owners. Raises
    ArchiveUnreadable, whatever the bytes are; what was unpacked until then stays.
    """
    try:
        _unpack(archive, into)
    except ArchiveUnreadable:
        raise
    except Exception as error:  # tarfile and the decompressors raise about anything for damaged bytes
        raise ArchiveUnreadable(f"{type(error).__name__}: {error}") from error


def _unpack(archive: Path, into: Path) -> None:
    inside = Path(os.path.realpath(str(into)))
    with tarfile.open(str(archive), "r:*") as tar:
        for member in tar:
            _extract(tar, member, inside)
        _check_end(tar)
    # A link can point inside when it is made and outside once others are there, so look again at the end.
    for directory, directories, files in os.walk(str(inside)):
        for name in directories + files:
            _check_inside(Path(directory) / name, inside, name)


def _check_end(tar: tarfile.TarFile) -> None:
    """Tell the end from damage, which tarfile takes for the end, and read on to where the checksums are."""
    file = tar.fileobj
    if file is None:
        raise ArchiveUnreadable("the archive is closed")
    file.seek(tar.offset)
    if file.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
        raise ArchiveUnreadable(f"damaged or cut off at byte {tar.offset} of its uncompressed content")
    while file.read(_CHUNK):
        pass


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, inside: Path) -> None:
    if member.name.startswith("/") or ".." in member.name.split("/"):
        raise ArchiveUnsafe(f"{member.name!r} is not a relative path without ..")
    target = inside / member.name
    if member.isdir():
        _check_inside(target, inside, member.name)
        target.mkdir(parents=True, exist_ok=True)
        return
    _check_inside(target.parent, inside, member.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.is_file():
        target.unlink()  # never write through an earlier member
    if member.issym():
        _check_inside(target.parent / member.linkname, inside, member.name)
        target.symlink_to(member.linkname)
    elif member.islnk():
        source = inside / member.linkname
        _check_inside(source, inside, member.name)
        os.link(str(source), str(target))
    elif member.isfile():
        _write(tar, member, target)
    else:
        raise ArchiveUnsafe(f"{member.name!r} is neither a file nor a directory nor a link")


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(member)
    if content is None:
        raise ArchiveUnsafe(f"{member.name!r} has no content")
    with content, target.open("xb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(member.mode & 0o777 | 0o600)  # no set-user-id; always readable by the owner


def _check_inside(path: Path, inside: Path, name: str) -> None:
    real = Path(os.path.realpath(str(path)))
    if real != inside and inside not in real.parents:
        raise ArchiveUnsafe(f"{name!r} would reach outside the archive's directory")
