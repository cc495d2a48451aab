"""What the rules need to know about a place where checkpoints are kept."""

from __future__ import annotations

from typing import Dict, List, Protocol


class Unreadable(Exception):
    """The place could not be listed. Never the same as "there is nothing": what is there is unknown."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class Listing(Protocol):
    """One look into a directory of a bucket or a file system. Raises :class:`Unreadable`."""

    def directories(self, path: str) -> List[str]:
        """Names of the directories directly under ``path``; none when ``path`` does not exist."""
        ...

    def files(self, path: str) -> Dict[str, int]:
        """Names and sizes in bytes of the files directly under ``path``; none when ``path`` does not exist."""
        ...
