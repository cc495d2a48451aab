"""Listing of a file system: a persistent disk, NFS, or a bucket mounted by GCSFuse."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterator, List

from tpu_recovery.checkpoints.listing import Unreadable


class LocalListing:
    """Reads directories of this machine. A missing directory is empty; every other error is Unreadable."""

    def directories(self, path: str) -> List[str]:
        """Names of the directories directly under ``path``."""
        with _errors_as_unreadable(path):
            return [entry.name for entry in _entries(path) if entry.is_dir()]

    def files(self, path: str) -> Dict[str, int]:
        """Names and sizes in bytes of the files directly under ``path``."""
        sizes = {}
        with _errors_as_unreadable(path):
            for entry in _entries(path):
                with contextlib.suppress(FileNotFoundError):  # removed since the directory was read
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
        return sizes


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = os.scandir(path)
    except FileNotFoundError:
        return
    with entries:
        yield from entries


@contextlib.contextmanager
def _errors_as_unreadable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unreadable(path, f"cannot read the directory: {error.strerror}") from error
