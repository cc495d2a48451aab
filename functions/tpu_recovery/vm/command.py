"""The command of a launch: its words, its environment, its user."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from tpu_recovery.vm.failures import SetupFailed
from tpu_recovery.vm.handoff import Handoff
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.process import as_user


class Resume(NamedTuple):
    """The checkpoint to go on from; both None when training starts from scratch."""

    step: Optional[int] = None
    path: Optional[str] = None

    @property
    def step_text(self) -> str:
        """The step as the program is given it."""
        return "" if self.step is None else str(self.step)

    @property
    def path_text(self) -> str:
        """The path as the program is given it."""
        return self.path or ""


class Account(NamedTuple):
    """Who runs the program: the runner itself (ids None), or a user of the VM."""

    home: Path
    user_id: Optional[int] = None
    group_id: Optional[int] = None
    name: str = ""


def account(user: Optional[str]) -> Account:
    """Look up the user. Raises SetupFailed when the VM has none of that name."""
    if user is None:
        return Account(Path("~").expanduser())
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        raise SetupFailed("setup", f"user {user!r} does not exist on this VM") from error
    return Account(Path(entry.pw_dir), entry.pw_uid, entry.pw_gid, user)


def arguments(command: str, resume: Resume, who: Account) -> List[str]:
    """What to execute. Only the two placeholders are replaced; other braces belong to the user."""
    values = {"{resume_step}": resume.step_text, "{resume_path}": resume.path_text}
    filled = re.sub(r"\{resume_(?:step|path)\}", lambda match: _for_the_shell(values[match.group()]), command)
    words = ["sh", "-c", filled]
    if who.user_id is None or who.group_id is None or who.user_id == os.geteuid():
        return words
    return as_user(words, who.user_id, who.group_id)


def _for_the_shell(value: str) -> str:
    """The value as it is where that is safe in any quotes of the user's; else quoted, which is right outside of quotes.

    What needs quotes can only come from the job's own path: names that are not harmless are not taken for steps.
    """
    return value if re.fullmatch(r"[A-Za-z0-9_./:=+@%-]+", value) else shlex.quote(value)


def environment(handoff: Handoff, resume: Resume, worker: int, who: Account, places: Places) -> Dict[str, str]:
    """The runner's own environment, the user's variables, and what a program can rely on."""
    named = {"HOME": str(who.home), "USER": who.name, "LOGNAME": who.name} if who.name else {"HOME": str(who.home)}
    return {
        **os.environ,
        **named,
        **handoff.environment,
        "TPU_RECOVERY_JOB": handoff.job,
        "TPU_RECOVERY_GENERATION": str(handoff.key.generation),
        "TPU_RECOVERY_LAUNCH": str(handoff.key.launch),
        "TPU_RECOVERY_WORKER": str(worker),
        "TPU_RECOVERY_RESUME_STEP": resume.step_text,
        "TPU_RECOVERY_RESUME_PATH": resume.path_text,
        "TPU_RECOVERY_CHECKPOINTS": handoff.checkpoints.path if handoff.checkpoints else "",
        "TPU_RECOVERY_PROGRESS": str(places.progress),
    }
