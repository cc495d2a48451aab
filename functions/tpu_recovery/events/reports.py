"""What the runner and people send -> reports and commands."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.events.entry import digest
from tpu_recovery.model.messages import Command, Report

T = TypeVar("T")


def parse_report(data: bytes) -> Report:
    """A report of the runner. Raises Invalid when it is none."""
    report = _decode(data, Report, "report")
    if report.version != 1:
        raise Invalid("report.version", report.version, "this service reads version 1")
    return report


def parse_command(data: bytes) -> Command:
    """A command of a person. Raises Invalid when it is none."""
    return _decode(data, Command, "command")


def key_of_report(report: Report) -> str:
    """What makes a report itself, however often it is delivered."""
    counts = (report.generation, report.launch, report.worker)
    return digest("report", report.uid, *map(str, counts), report.boot, str(report.sequence))


def key_of_command(command: Command) -> str:
    """What makes a command itself, however often it is delivered."""
    return digest("command", command.job, command.id)


def _decode(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        # The text itself is not shown: a report holds a token, and this message reaches the log.
        raise Invalid(what, f"{len(data)} bytes", str(error)) from error
