from __future__ import annotations

import os
import subprocess
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


@pytest.mark.parametrize("quoted", ["{resume_path}", '"{resume_path}"', "'{resume_path}'", "--p={resume_path}"])
def test_the_placeholder_may_stand_inside_any_quotes(quoted: str) -> None:
    words = arguments(f"echo {quoted} '{{resume_step}}'", Resume(40, "gs://b/run=1/a-b_40"), ME)
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert output.replace("--p=", "") == "gs://b/run=1/a-b_40 40\n"


def test_a_path_that_looks_like_a_placeholder_is_left_as_it_is() -> None:
    assert arguments("{resume_path}", Resume(4, "/a/{resume_step}/4"), ME)[-1] == "'/a/{resume_step}/4'"


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
