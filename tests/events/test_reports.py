from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tests.events.entries import without
from tests.events.runner_reports import COMMAND, REPORT, TOKEN

from tpu_recovery.errors import Invalid
from tpu_recovery.events.reports import key_of_command, key_of_report, parse_command, parse_report
from tpu_recovery.model.messages import Command, CommandKind, Report, ReportKind


def report(**changes: object) -> Report:
    return parse_report(json.dumps({**REPORT, **changes}).encode())


def command(**changes: object) -> Command:
    return parse_command(json.dumps({**COMMAND, **changes}).encode())


def test_a_report_becomes_what_the_service_works_with() -> None:
    read = report()
    assert (read.job, read.uid, read.generation, read.launch, read.worker) == ("train", "k3v", 2, 1, 0)
    assert read.kind is ReportKind.CRASHED
    assert read.at == datetime(2026, 12, 1, 15, 0, 0, 123_456, UTC)
    assert (read.step, read.checkpoint_step, read.resumed_from, read.exit_code) == (120, 100, 100, 1)
    assert (read.reason, read.detail) == (None, None)


def test_a_command_becomes_what_the_service_works_with() -> None:
    read = command()
    assert (read.job, read.kind, read.by) == ("train", CommandKind.RESUME, "alice@example.com")
    assert read.at == datetime(2026, 12, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize("kind", ReportKind)
def test_every_kind_of_report_is_understood(kind: ReportKind) -> None:
    assert report(kind=kind.value).kind is kind


def test_a_newer_runner_may_say_more() -> None:
    assert report(temperature=[{"chip": 1}]) == report()


OPTIONAL = ("version", "hostname", "step", "checkpoint_step", "resumed_from", "exit_code", "reason", "detail")


@pytest.mark.parametrize("name", REPORT)
def test_a_report_may_lack_only_what_not_every_kind_has(name: str) -> None:
    data = json.dumps(without(REPORT, (name,))).encode()
    if name in OPTIONAL:
        assert parse_report(data).job == "train"
    else:
        with pytest.raises(Invalid, match=f"missing required field `{name}`"):
            parse_report(data)


@pytest.mark.parametrize("exit_code", [-15, 0, 137, None])
def test_an_exit_code_may_be_a_signal(exit_code: int | None) -> None:
    assert report(exit_code=exit_code).exit_code == exit_code


# fmt: off
WRONG_REPORTS = [
    # field              value                      the message says
    ("version",          2,                         "report.version: 2 is not valid; this service reads version 1"),
    ("version",          "1",                       "got `str` - at `$.version`"),
    ("job",              "",                        "report.job: '' is not valid; a job name has 1 to 40"),
    ("job",              "a/incidents/b",           "report.job: 'a/incidents/b' is not valid; a job name has"),
    ("job",              "../specs/train",          "report.job: '../specs/train' is not valid"),
    ("job",              "train\n",                 "report.job: 'train\\n' is not valid"),
    ("job",              None,                      "got `null` - at `$.job`"),
    ("uid",              7,                         "got `int` - at `$.uid`"),
    ("generation",       -1,                        "Expected `int` >= 0 - at `$.generation`"),
    ("generation",       2.5,                       "got `float` - at `$.generation`"),
    ("launch",           True,                      "got `bool` - at `$.launch`"),
    ("worker",           "0",                       "got `str` - at `$.worker`"),
    ("sequence",         2**63,                     "at `$.sequence`"),
    ("step",             2**63,                     "at `$.step`"),
    ("step",             -1,                        "Expected `int` >= 0 - at `$.step`"),
    ("checkpoint_step",  10**40,                    "at `$.checkpoint_step`"),
    ("resumed_from",     "40",                      "at `$.resumed_from`"),
    ("exit_code",        2**31,                     "at `$.exit_code`"),
    ("kind",             "exploded",                "Invalid enum value 'exploded' - at `$.kind`"),
    ("at",               "2026-12-01T15:00:00",     "Expected `datetime` with a timezone component - at `$.at`"),
    ("at",               "yesterday",               "at `$.at`"),
    ("at",               1_764_601_200,             "at `$.at`"),
    ("token",            None,                      "got `null` - at `$.token`"),
    ("detail",           ["a"],                     "at `$.detail`"),
]
# fmt: on


@pytest.mark.parametrize(("field", "value", "says"), WRONG_REPORTS)
def test_a_wrong_report_is_invalid_and_its_token_is_not_shown(field: str, value: object, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        report(**{field: value})
    assert says in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("length", range(0, len(json.dumps(REPORT)), 7))
def test_a_report_that_was_cut_off_is_invalid_and_its_token_is_not_shown(length: int) -> None:
    with pytest.raises(Invalid) as caught:
        parse_report(json.dumps(REPORT).encode()[:length])
    assert TOKEN not in str(caught.value)


# fmt: off
WRONG_COMMANDS = [
    # field  value                    the message says
    ("id",   None,                    "got `null` - at `$.id`"),
    ("job",  "a/b",                   "command.job: 'a/b' is not valid; a job name has"),
    ("job",  "",                      "command.job: '' is not valid"),
    ("kind", "destroy",               "Invalid enum value 'destroy' - at `$.kind`"),
    ("at",   "2026-12-01T15:00:00",   "Expected `datetime` with a timezone component - at `$.at`"),
    ("by",   7,                       "got `int` - at `$.by`"),
]
# fmt: on


@pytest.mark.parametrize(("field", "value", "says"), WRONG_COMMANDS)
def test_a_wrong_command_is_invalid(field: str, value: object, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        command(**{field: value})
    assert says in str(caught.value)


IDENTITY = {"uid": "other", "generation": 3, "launch": 2, "worker": 1, "boot": "other", "sequence": 6}


@pytest.mark.parametrize("name", REPORT)
def test_a_report_is_known_again_by_who_said_it_and_its_number(name: str) -> None:
    others: dict[str, object] = {**IDENTITY, "job": "other", "kind": "finished", "version": 1}
    others |= {"at": "2026-12-02T00:00:00Z", "token": "x", "hostname": "x", "reason": "x", "detail": "x"}
    again = report(**{name: others.get(name, 7)})
    assert (key_of_report(again) != key_of_report(report())) is (name in IDENTITY)


def test_counts_do_not_run_into_each_other_in_the_key() -> None:
    assert key_of_report(report(generation=1, launch=11)) != key_of_report(report(generation=11, launch=1))


def test_a_command_is_known_again_by_its_job_and_id() -> None:
    again = command(kind="apply", by="bob@example.com", at="2026-12-02T00:00:00Z")
    assert key_of_command(again) == key_of_command(command())
    assert key_of_command(command(id="02")) != key_of_command(command())
    assert key_of_command(command(job="other")) != key_of_command(command())
