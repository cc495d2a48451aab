"""The program's current step, which it may write to $TPU_RECOVERY_PROGRESS as a decimal number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Optional


def read_step(path: Path) -> Optional[int]:
    """The step written, or None: no file, a file that is being written, or something that is no number."""
    try:
        with path.open("rb") as file:
            match = re.fullmatch(rb"\s*([0-9]{1,18})\s*", file.read(64))
    except OSError:
        return None
    return int(match.group(1)) if match else None
