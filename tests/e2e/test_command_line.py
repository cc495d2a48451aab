"""The tpu-recovery command against a running installation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Person

pytestmark = pytest.mark.e2e


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tpu_recovery.cli", *arguments],
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_person_registers_a_job_and_sees_how_it_is_doing(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(person.file("train"))
    assert run("list").stdout == "no jobs yet; tpu-recovery apply FILE registers one\n"
    assert run("apply", "--dry-run", str(file)).stdout == "train: the file is valid\n"
    assert run("apply", str(file)).stdout == "train: registered\n"
    assert run("apply", str(file)).stdout == "train: unchanged\n"
    person.until_training("train", 1)
    assert "RUNNING" in run("list").stdout
    person.stack.tpu.preempt(person.stack.tpu.node_names()[0])
    person.until_training("train", 2)
    page = run("show", "train").stdout
    assert "PREEMPTION of generation 1; training resumed" in page
    assert "tpu.nodes.terminate" in page


def test_every_mistake_is_one_message_and_exit_code_1(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(person.file("Train"))
    for arguments, message in (
        (("apply", str(file)), "name: 'Train' is not valid"),
        (("show", "nobody"), "there is no such job"),
        (("pause", "nobody"), "there is no such job"),
        (("resume", "nobody"), "there is no such job"),
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert len([line for line in done.stderr.splitlines() if line.startswith("Error:")]) == 1


def test_a_held_job_shows_why_and_what_to_do(person: Person) -> None:
    person.stack.tpu.deny("CreateNode")
    person.apply(person.file("train"))
    person.until("train", lambda job: job.hold)
    page = run("show", "train").stdout
    assert "Held: the create was refused for good" in page
    assert "tpu-recovery resume train" in page
    assert run("resume", "train").stdout == "train: told to go on\n"
    person.until_training("train", 1)


def test_a_file_that_is_no_text_is_one_message_too(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_bytes(b"name: \xff\xfe")
    done = run("apply", str(file))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "a job file is text in UTF-8" in done.stderr


def test_without_credentials_it_says_how_to_sign_in(tmp_path: Path) -> None:
    bare = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GCE_METADATA_HOST": "127.0.0.1:1",
        "NO_GCE_CHECK": "true",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tpu_recovery.cli", "--project", "p", "list"],
        env=bare,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "gcloud auth application-default login" in done.stderr
