"""What the author of a job file is told about a mistake."""

from __future__ import annotations

import typing
from enum import StrEnum
from typing import Any

import msgspec
import pytest
import yaml
from tests.model.job_files import JOBS, refusal, short, written

from tpu_recovery.errors import Invalid
from tpu_recovery.model import jobfile, spec
from tpu_recovery.model.codec import to_document
from tpu_recovery.model.jobfile import read_spec


def pairs() -> list[tuple[str, str]]:
    """The pairs of lines in mistakes.txt."""
    lines = [line for line in (JOBS / "mistakes.txt").read_text().splitlines() if line and not line.startswith("#")]
    return list(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize(("fields", "message"), pairs())
def test_a_mistake_is_named_with_its_field_its_value_and_what_would_be_right(fields: str, message: str) -> None:
    problem = refusal(written(yaml.safe_load(f"{{{fields}}}")))
    assert str(problem) == message
    assert message.startswith(f"{problem.field}: ")


# fmt: off
TOO_LARGE: list[tuple[dict[str, Any], str]] = [
    ({"description": "x" * 513},                         "description: '513 characters' is not valid; at most 512"),
    ({"setup": "x" * 65_537},                            "setup: '65537 bytes' is not valid; at most 65536 bytes; put"),
    ({"setup": "é" * 32_769},                            "setup: '65538 bytes' is not valid; at most 65536 bytes; put"),
    ({"metadata": {"startup-script": "x" * 65_537}},     "metadata.startup-script: '65537 bytes' is not valid"),
    ({"metadata": {"x": "x" * 262_145}},                 "metadata.x: '262145 bytes' is not valid; at most 262144"),
    ({"command": "x" * 253_952},                         "job file: '253969 bytes' is not valid; command, environment"),
    ({"environment": {"A": "\n" * 130_000}},             "job file: '260060 bytes' is not valid; command, environment"),
    ({"setup": '"' * 65_536, "environment": {"A": "x" * 130_000}}, "job file: '2611"),
]
# fmt: on


@pytest.mark.parametrize(("fields", "message"), TOO_LARGE, ids=[message for _, message in TOO_LARGE])
def test_what_is_too_large_is_named_with_its_size_and_the_largest_that_fits(
    fields: dict[str, Any], message: str
) -> None:
    assert str(refusal(written(fields))).startswith(message)


def test_every_choice_that_a_field_offers_can_be_named_when_another_was_written() -> None:
    hints = [
        (name, hint)
        for struct in vars(spec).values()
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
        for name, hint in typing.get_type_hints(struct).items()
    ]
    choices = {name for name, hint in hints if isinstance(hint, type) and issubclass(hint, StrEnum)}
    assert choices | {"program"} == set(jobfile._CHOICE_HINTS)


def test_a_specification_may_be_read_without_judging_it() -> None:
    document = {**to_document(short()), "name": "Not A Name"}
    assert read_spec(document).name == "Not A Name"
    with pytest.raises(Invalid, match=r"^job file: \[\] is not valid; expected `object`, got `array`"):
        read_spec([])
