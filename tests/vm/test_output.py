from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tpu_recovery.vm import output


def test_output_stays_bounded_while_the_program_goes_on_writing(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    with log.open("a", buffering=1) as program:
        program.write("".join(f"line {number}\n" for number in range(100)))
        output.bound(log, limit=600)
        assert log.stat().st_size == 0
        program.write("line 100\n")
    assert log.read_text() == "line 100\n"
    assert output.last_lines(log).splitlines() == [f"line {number}" for number in range(51, 101)]


def test_what_is_moved_aside_is_bounded_too_and_is_the_end(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    log.write_bytes(b"x" * 3_000_000 + b"end")
    output.bound(log, limit=2_000_000)
    assert (tmp_path / "program.log.1").read_bytes() == b"x" * 1_999_997 + b"end"
    assert log.stat().st_size == 0


def test_a_program_that_writes_faster_than_the_copy_does_not_fill_the_disk(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    limit = 8_000_000
    with subprocess.Popen(["sh", "-c", 'exec yes >> "$0"', str(log)]) as program:
        for _round in range(3):
            while not log.exists() or log.stat().st_size <= limit:
                time.sleep(0.01)
            output.bound(log, limit)
            assert (tmp_path / "program.log.1").stat().st_size == limit
        program.kill()


def test_no_room_for_the_copy_is_no_reason_to_keep_a_file_that_is_too_long(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    log.write_bytes(b"x" * 300)
    (tmp_path / "program.log.1").symlink_to("/dev/full")
    output.bound(log, limit=200)
    assert log.stat().st_size == 0


def test_output_below_the_limit_stays(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    log.write_text("short\n")
    output.bound(log, limit=200)
    assert output.last_lines(log) == "short"


def test_no_output_has_no_last_lines(tmp_path: Path) -> None:
    output.bound(tmp_path / "absent.log")
    assert output.last_lines(tmp_path / "absent.log") == ""


def test_bytes_that_are_no_text_do_not_hurt(tmp_path: Path) -> None:
    (tmp_path / "program.log").write_bytes(b"\xff\xfe\nend\n")
    assert output.last_lines(tmp_path / "program.log").endswith("end")
