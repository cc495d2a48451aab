"""The program's current step, which it may write to $TPU_RECOVERY_PROGRESS as a decimal number."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Optional


def read_step(path: Path) -> Optional[int]:
    """The step written, or None: no file, a file that is being written, or something that is no number.

    A number of more than 18 digits is none. Whatever the program puts there, reading it never waits: a pipe, a link, a
    directory or a device is no file.
    """
    try:
        with open(str(path), "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            match = re.fullmatch(rb"\s*([0-9]{1,18})\s*", file.read(64))
    except OSError:
        return None
    return int(match.group(1)) if match else None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
