"""The demo as a stranger runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


def test_the_demo_recovers_explains_itself_and_leaves_no_process_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tpu_recovery.local.demo"],
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "140"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("the Spot node was taken", "no commit_success.txt", "Milestones", "Steps lost:", "shortened"):
        assert said in done.stdout
    assert _processes_that_know(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_stops_everything_that_it_has_started(tmp_path: Path, number: int) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tpu_recovery.local.demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "training from step" in line:
            break
    demo.send_signal(number)
    rest, _ = demo.communicate(timeout=60)
    assert (demo.returncode, rest.splitlines()[-1]) == (130, "stopped")
    assert _processes_that_know(str(tmp_path)) == []


def _processes_that_know(text: str) -> list[str]:
    """Command lines of running processes whose arguments or environment hold the text."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes()
            known = arguments + (process / "environ").read_bytes()
        except OSError:
            continue  # it ended in the meantime
        if text.encode() in known:
            found.append(arguments.replace(b"\0", b" ").decode(errors="replace"))
    return found
