"""The runner's own log: lines on stdout, which systemd keeps in the journal. Never a token or a hand-off's text."""

from __future__ import annotations

import sys


def log(text: str) -> None:
    """Write one line; the journal adds the time."""
    sys.stdout.write(f"tpu-recovery: {text}\n")
    sys.stdout.flush()
