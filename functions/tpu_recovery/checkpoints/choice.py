"""The newest step that is proven complete, and why newer ones were not taken."""

from __future__ import annotations

from enum import Enum
from typing import List, NamedTuple, Optional, Pattern, Tuple

from tpu_recovery.checkpoints.layouts import Layout, layout_of
from tpu_recovery.checkpoints.listing import Listing, Unreadable

EXAMINED = 20
"""Steps looked into before it is taken for a fault that none is complete; each costs a request on a bucket."""


class Outcome(str, Enum):
    """What a look at the checkpoints of a job found."""

    FOUND = "found"
    EMPTY = "empty"
    """Nothing was ever saved here."""
    INCOMPLETE = "incomplete"
    """Steps or temporary names are there, none of them complete."""


class Skipped(NamedTuple):
    """A step newer than the chosen one, and in plain words why it was not taken."""

    step: int
    reason: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.reason}"


class Choice(NamedTuple):
    """The outcome of one look; ``step`` and ``path`` are set when the outcome is FOUND."""

    outcome: Outcome
    step: Optional[int] = None
    path: Optional[str] = None
    skipped: Tuple[Skipped, ...] = ()
    """Newest first."""


class _Named(NamedTuple):
    step: int
    name: str


def newest_complete(listing: Listing, path: str, format_name: str) -> Choice:
    """Look at the steps under ``path`` from the newest down; the first that proves to be complete is the choice.

    Costs one listing for the names and one more for each step examined, at most `EXAMINED`. Raises ValueError for an
    unknown format or path, and Unreadable: what cannot be read, or not at that cost, is never taken for "none".
    """
    layout = layout_of(path, format_name)
    directory = path.rstrip("/")
    names = listing.directories(directory)
    skipped: List[Skipped] = []
    chosen: Optional[_Named] = None
    candidates = _newest_first(names, layout.step)
    for candidate in candidates:
        why = _lacking(listing, f"{directory}/{candidate.name}", layout)
        if why is None:
            chosen = candidate
            break
        skipped.append(Skipped(candidate.step, why))
        if len(skipped) == EXAMINED and len(candidates) > EXAMINED:
            raise Unreadable(
                path,
                f"too many incomplete steps: the newest {EXAMINED} of {len(candidates)}, from {candidates[0].step} "
                f"down to {candidate.step}, are incomplete; remove them, or check what saves there",
            )
    skipped += [
        Skipped(temporary.step, f"{temporary.name} is a temporary name, the save was interrupted")
        for temporary in _newest_first(names, layout.temporary)
        if chosen is None or temporary.step > chosen.step
    ]
    skipped.sort(key=lambda one: -one.step)
    if chosen is not None:
        return Choice(Outcome.FOUND, chosen.step, f"{directory}/{chosen.name}", tuple(skipped))
    return Choice(Outcome.INCOMPLETE if skipped else Outcome.EMPTY, skipped=tuple(skipped))


def _newest_first(names: List[str], pattern: Pattern[str]) -> List[_Named]:
    matches = [(pattern.fullmatch(name), name) for name in names]
    found = [_Named(int(match.group("step")), name) for match, name in matches if match]
    return sorted(found, key=lambda one: (-one.step, one.name))


def _lacking(listing: Listing, directory: str, layout: Layout) -> Optional[str]:
    return layout.lacking(listing.files(directory)) if layout.lacking else None
