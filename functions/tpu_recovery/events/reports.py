"""What the runner and people send -> reports and commands."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.events.entry import digest
from tpu_recovery.model.messages import Command, Report
from tpu_recovery.model.names import JOB_NAME, JOB_NAME_RULE

T = TypeVar("T")


def parse_report(data: bytes) -> Report:
    """A report of the runner. Raises Invalid when it is none."""
    report = _decode(data, Report, "report")
    if report.version != 1:
        raise Invalid("report.version", report.version, "this service reads version 1")
    _check_job("report.job", report.job)
    return report


def parse_command(data: bytes) -> Command:
    """A command of a person. Raises Invalid when it is none."""
    command = _decode(data, Command, "command")
    _check_job("command.job", command.job)
    return command


def key_of_report(report: Report) -> str:
    """What makes a report itself, however often it is delivered."""
    counts = (report.generation, report.launch, report.worker)
    return digest("report", report.uid, *map(str, counts), report.boot, str(report.sequence))


def key_of_command(command: Command) -> str:
    """What makes a command itself, however often it is delivered."""
    return digest("command", command.job, command.id)


def _check_job(field: str, job: str) -> None:
    """The name becomes part of a document's path, where a slash would lead to another document."""
    if not JOB_NAME.fullmatch(job):
        raise Invalid(field, job, JOB_NAME_RULE)


def _decode(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        # The text itself is not shown: a report holds a token, and this message reaches the log.
        raise Invalid(what, f"{len(data)} bytes", str(error)) from error
