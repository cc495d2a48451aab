"""The real zipapp, installed and started by the real startup script, with real programs under it."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.vm.stand import HOSTNAME, SECRET, TRAINS, Bucket, Worker

LATER = "2099-01-01T00:00:00Z"
EARLIER = "2001-01-01T00:00:00Z"
SAVES_AT_SIGTERM = f"trap 'echo saved > \"$HOME/saved\"; exit 0' TERM; {TRAINS}"


# Starting


def test_the_program_comes_from_its_archive_and_resumes_from_the_newest_complete_step(
    worker: Worker, bucket: Bucket
) -> None:
    bucket.put("run/40/commit_success.txt")
    bucket.put("run/60/_CHECKPOINT_METADATA")
    bucket.put("run/60/state/commit_success.txt")
    program = bucket.put_archive("train.tar.gz", {"train.sh": 'echo "from $1 at $2" > "$HOME/result"; sleep 60'})
    path = f"{bucket.path}/run"
    worker.platform.hand_off(
        worker.handoff(
            "sh train.sh {resume_step} {resume_path}",
            program=program,
            checkpoints={"path": path, "format": "orbax", "seen_step": 40},
            resume={"step": 40, "path": f"{path}/40"},
        )
    )
    worker.boot()
    started = worker.until_said("started")
    assert worker.until_file("result") == f"from 40 at {path}/40\n"
    assert (started["resumed_from"], started["checkpoint_step"], started["launch"]) == (40, 40, 1)
    worker.until_logged("step 60: no commit_success.txt, the save was interrupted")


def test_with_nothing_ever_saved_it_starts_from_scratch(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff('echo "<"{resume_step}">" > "$HOME/result"; ' + TRAINS))
    worker.boot()
    assert worker.until_file("result") == "<>\n"
    assert worker.until_said("started")["resumed_from"] is None


def test_a_name_in_the_bucket_never_becomes_a_command(worker: Worker, bucket: Bucket) -> None:
    bucket.put("run/40/commit_success.txt")
    bucket.put("run/$(touch  PWNED)_100/commit_success.txt")
    checkpoints = {"path": f"{bucket.path}/run", "format": "orbax", "seen_step": None}
    worker.platform.hand_off(
        worker.handoff('echo "{resume_path}" > "$HOME/result"; ' + TRAINS, checkpoints=checkpoints)
    )
    worker.boot()
    assert worker.until_file("result") == f"{bucket.path}/run/40\n"
    assert not (worker.root / "PWNED").exists()


def test_a_report_says_who_when_and_how_far(worker: Worker) -> None:
    worker.save_step("40")
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    report = worker.until_said("progress")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", report.pop("at"))
    assert report == {
        "version": 1,
        "job": "train",
        "uid": "k3v",
        "generation": 2,
        "launch": 1,
        "worker": 0,
        "boot": "boot-1",
        "sequence": report["sequence"],
        "kind": "progress",
        "token": SECRET,
        "hostname": HOSTNAME,
        "step": 41,
        "checkpoint_step": 40,
        "resumed_from": 40,
        "exit_code": None,
        "reason": None,
        "detail": None,
    }


def test_a_new_checkpoint_is_progress_for_a_program_that_writes_no_steps(worker: Worker) -> None:
    worker.save_step("40")
    worker.platform.hand_off(worker.handoff("sleep 60"))
    worker.boot()
    worker.until_said("started")
    worker.save_step("60")
    report = worker.until_said("progress")
    assert (report["step"], report["checkpoint_step"], report["resumed_from"]) == (None, 60, 40)


def test_the_beacon_comes_first_and_only_hints_are_published(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    worker.until(lambda: [one["kind"] for one in worker.platform.published] == ["started", "progress"], "two messages")
    assert worker.kinds() == ["booted", "started", "progress"]
    assert worker.until(lambda: worker.platform.alive, "alive")[0]["kind"] == "alive"


def test_a_program_may_rely_on_its_environment(worker: Worker) -> None:
    worker.save_step("40")
    command = (
        'env > "$HOME/environment.new"; pwd >> "$HOME/environment.new"; mv "$HOME/environment.new" "$HOME/environment"'
    )
    worker.platform.hand_off(worker.handoff(command, environment={"LEARNING_RATE": "1e-3; $x"}))
    worker.boot()
    lines = worker.until_file("environment").splitlines()
    for expected in (
        "LEARNING_RATE=1e-3; $x",
        "TPU_RECOVERY_JOB=train",
        "TPU_RECOVERY_GENERATION=2",
        "TPU_RECOVERY_LAUNCH=1",
        "TPU_RECOVERY_WORKER=0",
        "TPU_RECOVERY_RESUME_STEP=40",
        f"TPU_RECOVERY_RESUME_PATH={worker.checkpoints}/40",
        f"TPU_RECOVERY_CHECKPOINTS={worker.checkpoints}",
        str(worker.root),
    ):
        assert expected in lines


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as somebody else")
def test_the_program_runs_as_the_user_it_names(worker: Worker, bucket: Bucket) -> None:
    program = bucket.put_archive("train.tar.gz", {"train.sh": "id -un"})
    worker.platform.hand_off(worker.handoff("sh train.sh; touch mine", program=program, user="nobody"))
    worker.boot()
    assert worker.until_said("finished")["exit_code"] == 0
    assert "nobody" in worker.output.splitlines()


def test_a_command_that_cannot_be_started_is_a_failed_setup(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff("true", working_directory="absent"))
    worker.boot()
    report = worker.until_said("setup_failed")
    assert report["reason"] == "setup"
    assert f"the command cannot be started in {worker.root}/absent" in report["detail"]


def test_scripts_run_once_per_boot_in_order(worker: Worker, bucket: Bucket) -> None:
    program = bucket.put_archive("train.tar.gz", {"lib/requirements.txt": "jax"})
    handoff = worker.handoff(
        TRAINS,
        program=program,
        working_directory="lib",
        startup_script="#!/bin/sh\necho mine >> $HOME/order",
        setup="cat lib/requirements.txt >> $HOME/order; echo >> $HOME/order",
    )
    worker.platform.hand_off(handoff)
    worker.boot()
    worker.until_said("started")
    assert worker.sigterm() == 0
    worker.boot()
    worker.until_said("started", 2)
    assert (worker.root / "order").read_text() == "mine\njax\n"
    assert worker.sigterm() == 0
    worker.new_boot("boot-2")
    worker.boot()
    worker.until_said("started", 3)
    assert (worker.root / "order").read_text() == "mine\njax\n" * 2


# Not starting


def test_an_archive_with_another_digest_is_never_run(worker: Worker, bucket: Bucket) -> None:
    program = bucket.put_archive("train.tar.gz", {"train.sh": "touch $HOME/ran"})
    worker.platform.hand_off(worker.handoff("sh train.sh", program={**program, "sha256": "0" * 64}))
    worker.boot()
    report = worker.until_said("setup_failed")
    assert report["reason"] == "archive-digest"
    assert program["sha256"] in report["detail"]
    assert worker.kinds() == ["booted", "setup_failed"]


def test_a_missing_archive_is_said_with_its_name(worker: Worker, bucket: Bucket) -> None:
    program = {"archive": f"{bucket.path}/absent.tar.gz", "sha256": "0" * 64}
    worker.platform.hand_off(worker.handoff("true", program=program))
    worker.boot()
    report = worker.until_said("setup_failed")
    assert report["reason"] == "archive-unreadable"
    assert f"{bucket.path}/absent.tar.gz cannot be read: 404" in report["detail"]


SCRIPTS_THAT_FAIL = {
    "exit code": ({"setup": "for i in $(seq 99); do echo line $i; done; exit 7"}, "setup", "ended with exit code 7"),
    "deadline": (
        {"setup": "echo line 50; echo line 99; sleep 60", "deadlines": {"startup_script": 5, "setup": 0.3, "stop": 5}},
        "setup",
        "setup did not end within 0.3 s",
    ),
    "the user's own": ({"startup_script": "echo line 50; echo line 99; false"}, "startup-script", "exit code 1"),
}


@pytest.mark.parametrize(("changes", "reason", "words"), SCRIPTS_THAT_FAIL.values(), ids=[*SCRIPTS_THAT_FAIL])
def test_a_script_that_fails_is_reported_with_its_last_lines(
    worker: Worker, changes: dict[str, Any], reason: str, words: str
) -> None:
    worker.platform.hand_off(worker.handoff("true", **changes))
    worker.boot()
    report = worker.until_said("setup_failed")
    assert report["reason"] == reason
    assert words in report["detail"]
    assert "line 50\n" in report["detail"]
    assert report["detail"].endswith("line 99")
    assert "line 49\n" not in report["detail"]
    assert "started" not in worker.kinds()


def test_a_script_whose_interpreter_does_not_exist_is_a_failed_setup(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff("true", setup="#!/no/such/shell"))
    worker.boot()
    report = worker.until_said("setup_failed")
    assert report["reason"] == "setup"
    assert "setup cannot be started" in report["detail"]


def test_after_a_failed_setup_a_newer_launch_with_a_better_script_starts(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, setup="false"))
    worker.boot()
    worker.until_said("setup_failed")
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2, setup="true"))
    assert worker.until_said("started")["launch"] == 2


# fmt: off
REFUSALS = {  # steps on the disk, seen_step, reason, words
    "none is complete":       (["10.orbax-checkpoint-tmp"], None, "checkpoints-incomplete", "none is complete: step"),
    "older than seen before": (["20"],                      40,   "checkpoints-older",      "step is 20, but step 40"),
    "gone":                   ([],                          40,   "checkpoints-older",      "no checkpoint is there"),
}
# fmt: on


@pytest.mark.parametrize(("steps", "seen", "reason", "words"), REFUSALS.values(), ids=[*REFUSALS])
def test_it_refuses_to_start_where_training_would_lose_work(
    worker: Worker, steps: list[str], seen: int | None, reason: str, words: str
) -> None:
    for step in steps:
        worker.save_step(step)
    checkpoints = {"path": str(worker.checkpoints), "format": "orbax", "seen_step": seen}
    worker.platform.hand_off(worker.handoff("touch $HOME/ran", checkpoints=checkpoints))
    worker.boot()
    report = worker.until_said("refused")
    assert report["reason"] == reason
    assert words in report["detail"]
    assert not (worker.root / "ran").exists()


def test_checkpoints_that_cannot_be_read_are_tried_again_and_then_refused(worker: Worker) -> None:
    checkpoints = {"path": "gs://no-such-bucket/run", "format": "orbax", "seen_step": None}
    worker.platform.hand_off(worker.handoff("touch $HOME/ran", checkpoints=checkpoints))
    worker.boot()
    report = worker.until_said("refused")
    assert report["reason"] == "checkpoints-unreadable"
    assert report["detail"] == "gs://no-such-bucket/run: bucket no-such-bucket does not exist"
    assert worker.console.count("checkpoints cannot be read, trying again") == 5


def test_a_launch_whose_time_is_over_is_refused_and_a_newer_one_starts(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, launch_before=EARLIER))
    worker.boot()
    assert worker.until_said("refused")["reason"] == "launch-expired"
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2, launch_before=LATER))
    assert worker.until_said("started")["launch"] == 2


def test_a_launch_that_started_here_before_may_start_again_after_its_time(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, launch_before=LATER))
    worker.boot()
    worker.until_said("started")
    assert worker.sigterm() == 0
    worker.platform.hand_off(worker.handoff(TRAINS, launch_before=EARLIER))
    worker.boot()
    worker.until_said("started", 2)


# Hand-offs


def test_launch_0_waits_for_launch_1(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, launch=0))
    worker.boot()
    worker.until(lambda: len(worker.platform.alive) >= 2, "signs of life")
    assert worker.kinds() == ["booted"]
    worker.platform.hand_off(worker.handoff(TRAINS, launch=1))
    assert worker.until_said("started")["launch"] == 1


def test_a_newer_launch_stops_the_program_and_starts_it_from_a_new_choice(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(SAVES_AT_SIGTERM))
    worker.boot()
    worker.until_said("progress")
    worker.save_step("41")
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    started = worker.until_said("started", 2)
    assert (started["launch"], started["resumed_from"]) == (2, 41)
    assert (worker.root / "saved").exists()
    assert "crashed" not in worker.kinds()


def test_a_lower_launch_is_ignored_also_after_the_runner_came_back(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    worker.boot()
    worker.until_said("started")
    worker.platform.hand_off(worker.handoff("touch $HOME/ran", launch=1))
    worker.until_logged("ignoring a hand-off for generation 2 launch 1: generation 2 launch 2 was seen before")
    assert worker.sigterm() == 0
    worker.boot()
    worker.until(lambda: worker.console.count("ignoring a hand-off") == 2, "the launch ignored again")
    assert not (worker.root / "ran").exists()


def test_a_stop_is_obeyed_and_reported_and_stays_until_a_newer_launch(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(SAVES_AT_SIGTERM))
    worker.boot()
    worker.until_said("progress")
    worker.platform.hand_off(worker.handoff(SAVES_AT_SIGTERM, wanted="stop"))
    assert worker.until_said("stopped")["exit_code"] == 0
    assert (worker.root / "saved").exists()
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    worker.until_said("started", 2)
    assert worker.kinds()[:5] == ["booted", "started", "progress", "stopped", "started"]


def test_a_stop_that_is_wanted_from_the_beginning_is_reported_too(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, wanted="stop"))
    worker.boot()
    assert worker.until_said("stopped")["exit_code"] is None


def test_a_stop_ends_a_setup_that_is_under_way(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS, setup="touch $HOME/begun; sleep 60"))
    worker.boot()
    worker.until((worker.root / "begun").exists, "setup begun")
    worker.platform.hand_off(worker.handoff(TRAINS, wanted="stop"))
    worker.until_said("stopped")
    assert worker.kinds() == ["booted", "stopped"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the hand-off is not JSON"),
        ('{"version": 2}', "hand-off field version is 2: this runner understands 1"),
    ],
)
def test_a_hand_off_it_cannot_understand_is_logged_and_another_waited_for(
    worker: Worker, text: str, words: str
) -> None:
    worker.platform.hand_off(text)
    worker.boot()
    worker.until_logged(f"waiting for another hand-off: {words}")
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.until_said("started")


def test_an_invalid_hand_off_does_not_disturb_a_program_that_runs(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    worker.until_said("progress")
    worker.platform.hand_off("nonsense")
    worker.until_logged("waiting for another hand-off")
    seen = len(worker.platform.alive)
    worker.until(lambda: len(worker.platform.alive) > seen + 2, "signs of life")
    assert worker.kinds() == ["booted", "started", "progress"]


def test_silence_of_the_metadata_server_is_waited_out(worker: Worker) -> None:
    worker.platform.silent = True
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    worker.until_logged("waiting for the metadata server")
    worker.platform.silent = False
    worker.until_said("started")


# Ending


def test_exit_0_is_the_end_also_after_a_boot(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff('echo run >> "$HOME/runs"'))
    worker.boot()
    assert worker.until_said("finished")["exit_code"] == 0
    assert worker.sigterm() == 0
    assert worker.kinds() == ["booted", "started", "finished"]  # the last word stays in the guest attribute
    worker.new_boot("boot-2")
    worker.boot()
    assert worker.until_said("finished", 2)["boot"] == "boot-2"
    assert (worker.root / "runs").read_text() == "run\n"


def test_a_crash_is_retried_from_a_new_choice_and_given_up_without_progress(worker: Worker) -> None:
    worker.platform.hand_off(
        worker.handoff(f'echo "oh no"; echo from={{resume_step}}; mkdir -p {worker.checkpoints}/20/state; exit 3')
    )
    worker.boot()
    gave_up = worker.until_said("gave_up")
    assert (gave_up["reason"], gave_up["exit_code"]) == ("crash-loop", 3)
    assert "3 crashes in a row without progress" in gave_up["detail"]
    assert "oh no" in gave_up["detail"]
    crashed = [report for report in worker.platform.said if report["kind"] == "crashed"]
    assert [report["exit_code"] for report in crashed] == [3, 3, 3]  # the first one had brought step 20
    assert re.findall("from=(.*)", worker.output) == ["", "20", "20", "20"]


def test_after_giving_up_a_newer_launch_starts(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff("exit 1"))
    worker.boot()
    worker.until_said("gave_up")
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    worker.until_said("progress")


def test_sigterm_in_the_middle_of_a_step_lets_the_program_save(worker: Worker) -> None:
    worker.platform.hand_off(
        worker.handoff(SAVES_AT_SIGTERM.replace("saved >", f"42; mkdir -p {worker.checkpoints}/42/state; echo saved >"))
    )
    worker.boot()
    worker.until_said("progress")
    assert worker.sigterm() == 0
    assert worker.kinds() == ["booted", "started", "progress", "stopping", "stopped"]
    stopping, stopped = worker.platform.said[-2:]
    assert stopping["step"] == 41
    assert (stopped["exit_code"], stopped["checkpoint_step"]) == (0, 42)
    assert [one["kind"] for one in worker.platform.published] == ["started", "progress", "stopping"]


def test_a_program_that_ignores_sigterm_is_killed_with_all_its_children(worker: Worker) -> None:
    command = "trap '' TERM; sleep 300 & echo $! > $HOME/child; " + TRAINS
    deadlines = {"startup_script": 5, "setup": 5, "stop": 0.2}
    worker.platform.hand_off(worker.handoff(command, deadlines=deadlines))
    worker.boot()
    worker.until_said("progress")
    assert worker.sigterm() == 0
    assert worker.platform.said[-1]["exit_code"] == 128 + 9
    assert not is_running(int((worker.root / "child").read_text()))


def test_the_shell_ending_first_does_not_cut_off_a_program_that_still_saves(worker: Worker) -> None:
    program = f"trap 'sleep 0.3; echo saved > $HOME/saved; exit 0' TERM; {TRAINS}"
    worker.platform.hand_off(worker.handoff(f"sh -c {json.dumps(program).replace('$', chr(92) + '$')}; true"))
    worker.boot()
    worker.until_said("progress")
    assert worker.sigterm() == 0
    assert (worker.root / "saved").exists()


def test_sigterm_before_any_hand_off_just_ends_it(worker: Worker) -> None:
    worker.boot()
    worker.until_logged("runner at work")
    assert worker.sigterm() == 0
    assert worker.kinds() == []


# The runner itself


def test_a_new_runner_ends_what_a_crashed_one_left_and_goes_on_counting(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff('echo $$ > "$HOME/process"; ' + TRAINS))
    worker.boot()
    worker.until_said("progress")
    left = int((worker.root / "process").read_text())
    worker.kill_runner()
    assert is_running(left)
    (worker.root / "tmp/libtpu_lockfile").touch()
    worker.boot()
    worker.until_said("started", 2)
    assert not is_running(left)
    assert not (worker.root / "tmp/libtpu_lockfile").exists()
    everything = sorted(worker.platform.said + worker.platform.alive, key=lambda report: report["at"])
    numbers = [report["sequence"] for report in everything]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("odd", ["mkfifo", "mkdir -p", "ln -s /dev/zero"])
def test_whatever_the_program_makes_of_the_progress_file_it_is_started_again(worker: Worker, odd: str) -> None:
    command = f'echo run >> "$HOME/runs"; {odd} "$TPU_RECOVERY_PROGRESS"; sleep 0.2; exit 1'
    worker.platform.hand_off(worker.handoff(command))
    worker.boot()
    assert worker.until_said("gave_up")["step"] is None
    assert (worker.root / "runs").read_text() == "run\n" * 3
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    assert worker.until_said("progress")["step"] == 41


def test_an_exchange_directory_that_is_gone_or_a_file_is_made_anew(worker: Worker) -> None:
    directory = '"$(dirname "$TPU_RECOVERY_PROGRESS")"'
    worker.platform.hand_off(worker.handoff(f"rm -r {directory}; touch {directory}; exit 1"))
    worker.boot()
    worker.until_said("gave_up")
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    worker.until_said("progress")


def test_an_error_nobody_thought_of_is_reported_and_the_next_launch_starts(worker: Worker) -> None:
    log = worker.root / "var/log/tpu-recovery/program.log"
    log.mkdir(parents=True)
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    report = worker.until_said("setup_failed")
    assert report["reason"] == "runner-error"
    assert report["detail"].endswith(f"IsADirectoryError: [Errno 21] Is a directory: '{log}'")
    log.rmdir()
    worker.platform.hand_off(worker.handoff(TRAINS, launch=2))
    worker.until_said("progress")
    assert worker.kinds() == ["booted", "setup_failed", "started", "progress"]


def test_a_state_that_cannot_be_saved_does_not_stop_the_program(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    worker.until_said("progress")
    (worker.root / "var/lib/tpu-recovery/state.new").mkdir()
    worker.until_logged("state.json cannot be saved, going on without")
    seen = len(worker.platform.alive)
    worker.until(lambda: len(worker.platform.alive) > seen + 2, "signs of life")
    assert worker.kinds() == ["booted", "started", "progress"]


def test_what_left_the_session_of_a_program_does_not_train_beside_its_successor(worker: Worker) -> None:
    escaped = "setsid sh -c 'echo $$ >> \"$HOME/escaped\"; exec sleep 300' &"
    worker.platform.hand_off(worker.handoff(f"{escaped} sleep 0.3; exit 1"))
    worker.boot()
    worker.until_said("gave_up")
    processes = [int(line) for line in (worker.root / "escaped").read_text().split()]
    assert len(processes) == 3
    assert not any(is_running(process) for process in processes)


def test_a_second_runner_on_the_same_vm_does_nothing(worker: Worker) -> None:
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    worker.until_said("started")
    assert worker.boot_again_meanwhile() == 1
    assert "another runner is at work here" in worker.console
    assert worker.kinds().count("started") == 1


def test_a_publish_that_fails_is_tried_again(worker: Worker) -> None:
    worker.platform.pubsub_fails = 1
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot()
    worker.until(lambda: worker.platform.published, "a message")
    assert worker.platform.published[0]["kind"] == "started"


def test_it_runs_under_python_3_8(worker: Worker) -> None:
    python = os.environ.get("PYTHON38") or str(Path("~/.pyenv/versions/3.8.18/bin/python").expanduser())
    if not Path(python).exists():
        pytest.skip("no Python 3.8 here; name one in PYTHON38")
    worker.save_step("40")
    worker.platform.hand_off(worker.handoff(TRAINS))
    worker.boot(python)
    worker.until_said("progress")
    assert worker.sigterm() == 0


def is_running(process: int) -> bool:
    deadline = time.monotonic() + 1  # its parent may still have to collect it
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return False
        if state in "ZX":
            return False
        time.sleep(0.01)
    return True
