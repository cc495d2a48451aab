"""The output of programs and scripts: files whose size stays bounded, and their last lines for reports."""

from __future__ import annotations

import shutil
from pathlib import Path

LIMIT = 64 * 1024 * 1024
"""Bytes of the output that are kept in the current file; one older file is kept beside it."""

_LAST_LINES = 50
_TAIL = 64 * 1024  # bytes read from the end to find the last lines


def bound(path: Path, limit: int = LIMIT) -> None:
    """Move the content aside when it is too much.

    The file itself stays, because the program has it open (for appending, so it goes on at the start). What is written
    between copying and emptying is lost.
    """
    if path.exists() and path.stat().st_size > limit:
        shutil.copyfile(str(path), str(_older(path)))
        with path.open("r+b") as file:
            file.truncate(0)


def last_lines(path: Path) -> str:
    """The last 50 lines, also right after the content was moved aside."""
    text = _tail(path)
    if text.count("\n") < _LAST_LINES:
        text = _tail(_older(path)) + text
    return "\n".join(text.splitlines()[-_LAST_LINES:])


def _older(path: Path) -> Path:
    return path.with_suffix(path.suffix + ".1")


def _tail(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode("utf-8", errors="replace")
