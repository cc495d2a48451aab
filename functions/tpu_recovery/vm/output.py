"""The output of programs and scripts: files whose size stays bounded, and their last lines for reports."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from tpu_recovery.vm.log import log

LIMIT = 64 * 1024 * 1024
"""Bytes of the output that are kept in the current file; one older file is kept beside it."""

_LAST_LINES = 50
_TAIL = 64 * 1024  # bytes read from the end to find the last lines
_CHUNK = 1024 * 1024  # bytes


def bound(path: Path, limit: int = LIMIT) -> None:
    """Move the content aside when it is too much, its last ``limit`` bytes at most.

    The file itself stays, because the program has it open (for appending, so it goes on at the start). What is written
    between looking and emptying is lost: copying it too would never end for a program that writes faster. Where there
    is no room for a copy, there is none; a full disk is one more reason to empty the file.
    """
    try:
        if path.is_file() and path.stat().st_size > limit:
            with path.open("r+b") as file:
                _keep(file, path.stat().st_size, limit, _older(path))
                file.truncate(0)
    except OSError as error:
        log(f"{path} cannot be kept within {limit} bytes: {error}")


def _keep(file: BinaryIO, size: int, limit: int, older: Path) -> None:
    try:
        with older.open("wb") as copy:
            left = min(size, limit)
            file.seek(size - left)
            while left > 0:
                chunk = file.read(min(left, _CHUNK))
                if not chunk:
                    return
                copy.write(chunk)
                left -= len(chunk)
    except OSError as error:
        log(f"{older} cannot be written, older output is lost: {error}")


def last_lines(path: Path) -> str:
    """The last 50 lines, also right after the content was moved aside."""
    text = _tail(path)
    if text.count("\n") < _LAST_LINES:
        text = _tail(_older(path)) + text
    return "\n".join(text.splitlines()[-_LAST_LINES:])


def _older(path: Path) -> Path:
    return path.with_suffix(path.suffix + ".1")


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read(_TAIL).decode("utf-8", errors="replace")
    except OSError as error:
        return f"({path} cannot be read: {error})\n"
