"""Making the VM ready for the command of a launch: startup script, program, setup script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

from tpu_recovery.vm.command import Resume, account, environment
from tpu_recovery.vm.google_api import GoogleApi
from tpu_recovery.vm.handoff import Handoff
from tpu_recovery.vm.machine import Machine
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.program import fetch
from tpu_recovery.vm.scripts import Scripts


def prepare(
    handoff: Handoff,
    pause: Callable[[float], None],
    *,
    places: Places,
    machine: Machine,
    scripts: Scripts,
    google: GoogleApi,
) -> Path:
    """Do what has not been done yet; returns the directory to run the command in.

    ``pause`` waits, and raises Interrupted when this launch is not wanted any more. Raises SetupFailed.
    """
    who = account(handoff.user)
    if handoff.startup_script:
        scripts.run(
            "startup-script",
            handoff.startup_script,
            deadline=handoff.deadlines.startup_script,
            directory=places.root,
            environment=os.environ,
            pause=pause,
        )
        who = account(handoff.user)  # the script may have created the home directory
    directory = fetch(handoff, who.home, places, google, pause)
    if handoff.setup:
        scripts.run(
            "setup",
            handoff.setup,
            deadline=handoff.deadlines.setup,
            directory=directory,
            environment=environment(handoff, Resume(), machine.worker, account(None), places),
            pause=pause,
        )
    if handoff.program.kind != "none" and who.user_id is not None and who.group_id is not None:
        _give(directory, who.user_id, who.group_id)
    return directory / (handoff.working_directory or "")


def _give(directory: Path, user_id: int, group_id: int) -> None:
    """Let the user who runs the program write beside it, as they could on a machine of their own."""
    for parent, directories, files in os.walk(str(directory)):
        for name in (".", *directories, *files):
            os.chown(str(Path(parent) / name), user_id, group_id, follow_symlinks=False)
