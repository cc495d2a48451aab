"""Cold start: what importing the function costs beside what Cloud Functions and Firestore cost by themselves."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import NamedTuple

from tpu_recovery.local.source_archive import SOURCE

BASE = "import functions_framework, google.cloud.firestore"
FUNCTION = "import main"
_TIMED = "import time; begin = time.perf_counter(); {}; print(time.perf_counter() - begin)"


class Imports(NamedTuple):
    """Medians in seconds."""

    base: float
    function: float


def measure_imports(rounds: int) -> Imports:
    """Import both in fresh processes, in turns; the first round only warms the disk's cache."""
    times: dict[str, list[float]] = {BASE: [], FUNCTION: []}
    for _ in range(rounds + 1):
        for statement, measured in times.items():
            measured.append(_seconds(statement))
    return Imports(*(statistics.median(measured[1:]) for measured in times.values()))


def _seconds(statement: str) -> float:
    command = [sys.executable, "-c", _TIMED.format(statement)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
