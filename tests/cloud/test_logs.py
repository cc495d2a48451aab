from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tpu_recovery.cloud.logs import TRACE, JsonFormatter, log_as_json, trace_of


def line(message: str, level: int = logging.INFO, **extra: Any) -> dict[str, Any]:
    record = logging.getLogger("tpu_recovery.test").makeRecord(
        "tpu_recovery.test", level, __file__, 1, message, (), None, extra=extra
    )
    text = JsonFormatter().format(record)
    assert "\n" not in text
    read: dict[str, Any] = json.loads(text)
    return read


class TestLines:
    def test_a_record_says_how_bad_it_is_what_happened_and_who_says_so(self) -> None:
        assert line("gone", logging.WARNING) == {
            "severity": "WARNING",
            "message": "gone",
            "logger": "tpu_recovery.test",
        }

    def test_what_it_is_about_stands_in_fields_of_its_own(self) -> None:
        fields: dict[str, Any] = {"job": "train", "incident": "k3v-1", "generation": 2, "actions": ["DeleteNode"]}
        assert line("deleted", **fields).items() >= fields.items()

    def test_a_field_that_is_not_foreseen_is_not_written(self) -> None:
        assert "secret" not in json.dumps(line("started", token="secret", handoff={"token": "secret"}))

    def test_lines_and_quotes_in_a_message_do_not_break_the_line(self) -> None:
        assert line('first\nsecond "third" ü')["message"] == 'first\nsecond "third" ü'

    def test_a_value_that_json_does_not_know_is_written_as_text(self) -> None:
        assert line("x", path=ValueError("odd"))["path"] == "odd"

    def test_an_exception_comes_with_its_traceback(self) -> None:
        try:
            raise ValueError("broken")
        except ValueError:
            record = logging.LogRecord("tpu_recovery", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
        message = json.loads(JsonFormatter().format(record))["message"]
        assert message.startswith("failed\nTraceback")
        assert message.endswith("ValueError: broken")

    def test_the_request_s_trace_is_in_every_line_while_it_is_served(self) -> None:
        token = TRACE.set("projects/p/traces/abc")
        try:
            assert line("x")["logging.googleapis.com/trace"] == "projects/p/traces/abc"
        finally:
            TRACE.reset(token)
        assert "logging.googleapis.com/trace" not in line("x")


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        ("105445aa7843bc8bf206b12000100000/1;o=1", "projects/p/traces/105445aa7843bc8bf206b12000100000"),
        ("105445aa7843bc8bf206b12000100000", "projects/p/traces/105445aa7843bc8bf206b12000100000"),
        ("", ""),
    ],
)
def test_the_trace_is_read_from_the_request_s_header(header: str, trace: str) -> None:
    assert trace_of(header, "p") == trace


@pytest.fixture
def our_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("tpu_recovery")
    before = (list(logger.handlers), logger.level, logger.propagate)
    logger.handlers = []
    yield logger
    logger.handlers, logger.level, logger.propagate = before


def test_our_loggers_write_one_line_each_to_standard_output(
    our_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_as_json()
    log_as_json()
    logging.getLogger("tpu_recovery.recovery.look").info("looked", extra={"job": "train"})
    logging.getLogger("tpu_recovery.recovery.look").debug("not worth a line")
    (text,) = capsys.readouterr().out.splitlines()
    assert json.loads(text)["job"] == "train"
