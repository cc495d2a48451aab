from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpu_recovery.vm.process import Session, clear_leftovers


class Sessions:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = directory / "session.json"
        self.lock = directory / "libtpu_lockfile"
        self.lock.touch()
        self._started: list[Session] = []

    def start(self, command: str, directory: Path | None = None) -> Session:
        session = Session(
            ["sh", "-c", command],
            directory=directory or self.directory,
            environment=dict(os.environ),
            output=self.directory / "out.log",
            record=self.record,
            boot="b1",
            wait=time.sleep,
        )
        self._started.append(session)
        return session

    def clear(self, boot: str = "b1") -> None:
        clear_leftovers(self.record, self.lock, boot, grace=5, wait=time.sleep)

    def until_file(self, name: str) -> None:
        deadline = time.monotonic() + 10
        while not (self.directory / name).exists():
            assert time.monotonic() < deadline, f"no file {name}"
            time.sleep(0.01)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    sessions = Sessions(tmp_path)
    yield sessions
    for session in sessions._started:
        session.stop(0)


def ended(session: Session) -> int:
    deadline = time.monotonic() + 10
    while (code := session.exit_code()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return code


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)])
def test_exit_codes_are_those_of_a_shell(sessions: Sessions, command: str, code: int) -> None:
    assert ended(sessions.start(command)) == code


def test_stopping_ends_what_has_a_process_group_of_its_own(sessions: Sessions) -> None:
    session = sessions.start(
        "set -m; sh -c 'trap \"touch told; exit\" TERM; touch up; while :; do sleep 0.02; done' & wait"
    )
    sessions.until_file("up")
    session.stop(5)
    assert (sessions.directory / "told").exists()
    assert not sessions.record.exists()


OWN_SESSION = "setsid sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 300' & "


def alone(sessions: Sessions) -> int:
    """The process that made its own session; waits until it is there."""
    sessions.until_file("pid")
    return int((sessions.directory / "pid").read_text())


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("then", ["wait", "exit 1"])
def test_stopping_ends_what_has_a_session_of_its_own(sessions: Sessions, then: str) -> None:
    session = sessions.start(f"{OWN_SESSION} until [ -e pid ]; do sleep 0.02; done; {then}")
    process = alone(sessions)
    session.stop(5)
    assert not is_running(process)


def test_what_has_a_session_of_its_own_and_ignores_sigterm_is_killed(sessions: Sessions) -> None:
    session = sessions.start(f"trap '' TERM; {OWN_SESSION} wait")
    process = alone(sessions)
    session.stop(0.1)
    assert not is_running(process)


def test_an_earlier_runners_process_with_a_session_of_its_own_is_ended_too(sessions: Sessions) -> None:
    session = sessions.start(f"{OWN_SESSION} until [ -e pid ]; do sleep 0.02; done; exit 1")
    process = alone(sessions)
    ended(session)
    sessions.clear()
    assert not is_running(process)


def test_another_commands_process_is_left_alone(sessions: Sessions) -> None:
    sessions.start(f"{OWN_SESSION} wait")
    process = alone(sessions)
    sessions.start("sleep 300").stop(5)
    assert is_running(process)


def test_a_command_that_cannot_be_recorded_does_not_run(sessions: Sessions) -> None:
    sessions.record.mkdir()
    with pytest.raises(IsADirectoryError):
        sessions.start("echo $$ > pid; exec sleep 300")
    assert not (sessions.directory / "pid").exists() or not is_running(alone(sessions))


def test_a_second_request_to_end_is_not_a_second_signal(sessions: Sessions) -> None:
    session = sessions.start("trap 'echo told >> told; touch once' TERM; touch up; while :; do sleep 0.02; done")
    sessions.until_file("up")
    session.terminate()
    sessions.until_file("once")
    assert session.stop(0.1) == 137
    assert (sessions.directory / "told").read_text() == "told\n"


def test_what_an_earlier_runner_left_is_ended_and_then_the_lock_file_goes(sessions: Sessions) -> None:
    session = sessions.start("sleep 300 & touch up; wait")
    sessions.until_file("up")
    sessions.clear()
    assert session.exit_code() == 143
    assert not sessions.record.exists()
    assert not sessions.lock.exists()


@pytest.mark.parametrize("change", [{"boot": "b0"}, {"start": 1, "mark": "other"}])
def test_a_process_that_only_has_the_same_number_is_left_alone(sessions: Sessions, change: dict[str, object]) -> None:
    session = sessions.start("sleep 300")
    record = json.loads(sessions.record.read_text())
    sessions.record.write_text(json.dumps({**record, **change}))
    sessions.clear()
    assert session.exit_code() is None


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_a_damaged_record_is_no_reason_to_stop(sessions: Sessions, text: str) -> None:
    sessions.record.write_text(text)
    sessions.clear()
    assert not sessions.lock.exists()


def test_a_command_that_cannot_be_started_says_so(sessions: Sessions) -> None:
    with pytest.raises(FileNotFoundError):
        sessions.start("true", directory=sessions.directory / "absent")
