from __future__ import annotations

from pathlib import Path

from tpu_recovery.vm import output


def test_output_stays_bounded_while_the_program_goes_on_writing(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    with log.open("a", buffering=1) as program:
        program.write("".join(f"line {number}\n" for number in range(100)))
        output.bound(log, limit=200)
        assert log.stat().st_size == 0
        program.write("line 100\n")
    assert log.read_text() == "line 100\n"
    assert output.last_lines(log).splitlines() == [f"line {number}" for number in range(51, 101)]


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
