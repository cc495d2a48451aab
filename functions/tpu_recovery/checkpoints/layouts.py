"""How training frameworks lay out their checkpoints, one row each.

A row says which names are steps, which names are saves that never ended, and what must be in a step's directory
before the step counts as complete. A new framework is a new row; a new kind of proof is one small function.
"""

from __future__ import annotations

import re
from typing import Callable, List, Mapping, NamedTuple, Optional, Pattern

Proof = Callable[[Mapping[str, int]], Optional[str]]
"""Takes names and sizes of the files in a step's directory; says in plain words what is lacking, or None."""


class Layout(NamedTuple):
    """One way in which a framework writes its steps."""

    format: str
    on_bucket: bool
    """True for ``gs://`` paths; False for file systems, where a rename can publish a whole directory at once."""
    step: Pattern[str]
    """Matches the name of a step's directory; group ``step`` is its number."""
    temporary: Pattern[str]
    """Matches the name of a save that was not published yet; group ``step`` is its number."""
    lacking: Optional[Proof]
    """The proof of completeness inside the directory; None when the final name itself is the proof."""


def marker(name: str) -> Proof:
    """The proof that is a file called ``name``, written last and never empty."""

    def lacking(files: Mapping[str, int]) -> Optional[str]:
        if name not in files:
            return f"no {name}, the save was interrupted"
        if files[name] == 0:
            return f"{name} is empty, the save was interrupted"
        return None

    return lacking


# Orbax calls a step "<step>" or "<prefix>_<step>"; the number may have leading zeros. A step of more than 18 digits
# is somebody's time stamp: it would not fit into 64 bits. A name ends up in the command of the job, so one with
# anything that could mean something to a shell is no step at all: whoever can write to the bucket chooses it.
_ORBAX_STEP = re.compile(r"(?:[A-Za-z0-9_.=-]+_)?(?P<step>[0-9]{1,18})")
# Before 0.7 the temporary name ended in a timestamp, later it does not.
_ORBAX_TEMPORARY = re.compile(r"(?:[A-Za-z0-9_.=-]+_)?(?P<step>[0-9]{1,18})\.orbax-checkpoint-tmp(?:-[0-9]+)?")

# fmt: off
LAYOUTS = (
    # On a bucket Orbax writes in place. Only commit_success.txt directly under the step proves it: each item's own
    # subdirectory has one earlier, and _CHECKPOINT_METADATA is there from the start (orbax atomicity.py, 0.5 to 0.12).
    Layout("orbax", True,  _ORBAX_STEP, _ORBAX_TEMPORARY, marker("commit_success.txt")),
    # On a file system it writes under a temporary name and renames; older versions leave no marker at all.
    Layout("orbax", False, _ORBAX_STEP, _ORBAX_TEMPORARY, None),
)
# fmt: on


def known_formats() -> List[str]:
    """The names that a job may give as the format of its checkpoints, sorted."""
    return sorted({layout.format for layout in LAYOUTS})


def layout_of(path: str, format_name: str) -> Layout:
    """The row for a path and a format. Raises ValueError for an unknown format or a path that is neither kind."""
    if format_name not in known_formats():
        raise ValueError(f"checkpoint format {format_name!r} is not known; known are: {', '.join(known_formats())}")
    on_bucket = path.startswith("gs://")
    if not on_bucket and not path.startswith("/"):
        raise ValueError(f"checkpoint path {path!r} must start with gs:// or be an absolute path of a file system")
    rows = [layout for layout in LAYOUTS if layout.format == format_name and layout.on_bucket == on_bucket]
    if not rows:
        place = "a bucket" if on_bucket else "a file system"
        raise ValueError(f"checkpoint format {format_name!r} is not known on {place} (path {path!r})")
    return rows[0]
