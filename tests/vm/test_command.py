from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.vm.handoffs import handoff

from tpu_recovery.vm.command import Account, Resume, account, arguments, environment
from tpu_recovery.vm.failures import SetupFailed
from tpu_recovery.vm.places import Places

ME = Account(Path("/root"))


@pytest.mark.parametrize(
    ("resume", "expected"),
    [
        (Resume(40, "gs://b/p/40"), "train --step 40 --path gs://b/p/40 '{other}' ${HOME}"),
        (Resume(40, "/mnt/my disk/40"), "train --step 40 --path '/mnt/my disk/40' '{other}' ${HOME}"),
        (Resume(), "train --step '' --path '' '{other}' ${HOME}"),
    ],
)
def test_only_the_two_placeholders_are_replaced_and_quoted(resume: Resume, expected: str) -> None:
    command = "train --step {resume_step} --path {resume_path} '{other}' ${HOME}"
    assert arguments(command, resume, ME) == ["sh", "-c", expected]


def test_another_user_runs_it_with_that_users_groups() -> None:
    other = Account(Path("/home/other"), os.geteuid() + 1, 1001, "other")
    assert arguments("train", Resume(), other) == [
        *("setpriv", f"--reuid={os.geteuid() + 1}", "--regid=1001", "--init-groups", "--"),
        *("sh", "-c", "train"),
    ]


def test_a_user_that_does_not_exist_is_named() -> None:
    with pytest.raises(SetupFailed, match="user 'no-such-user' does not exist on this VM"):
        account("no-such-user")


def test_nothing_to_resume_is_an_empty_variable() -> None:
    variables = environment(handoff(), Resume(), 3, ME, Places(Path("/")))
    assert (variables["TPU_RECOVERY_RESUME_STEP"], variables["TPU_RECOVERY_RESUME_PATH"]) == ("", "")
    assert variables["TPU_RECOVERY_CHECKPOINTS"] == ""
    assert variables["TPU_RECOVERY_WORKER"] == "3"
    assert variables["HOME"] == "/root"
