"""The job file: YAML as people write it -> a valid specification."""

from __future__ import annotations

import re

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.model.codec import from_document
from tpu_recovery.model.spec import JobSpec
from tpu_recovery.model.validate import validate

_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$\.?(?P<field>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]+)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>[^`]+)`$")

_MISSING_HINTS = {
    "program": (
        "say what a fresh VM needs before the command can run: `archive` and `sha256` of a tar in Cloud Storage, "
        "or `program: none` when the image or your startup script brings it"
    ),
    "name": "give the job a name",
    "command": "write the shell command that starts training on every worker",
    "placements": "name at least one zone to run in, like `placements: [{zone: us-east5-b}]`",
}


def parse_job_file(text: str) -> JobSpec:
    """Read one job file.

    Raises Invalid with the first field that is wrong, its value, and what would be right.
    """
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Invalid("job file", text, f"it must be YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise Invalid("job file", document, "it must be a mapping with `name`, `placements`, `program` and `command`")
    return validate(read_spec(document))


def read_spec(document: object) -> JobSpec:
    """A specification from its document, checked for types only.

    Raises Invalid with the field, its value, and what would be right.
    """
    try:
        return from_document(document, JobSpec)
    except msgspec.ValidationError as error:
        raise _explain(str(error), document) from error


def _explain(message: str, document: object) -> Invalid:
    match = _AT.match(message)
    problem, where = (match["problem"], match["field"] or "") if match else (message, "")
    if missing := _MISSING.match(problem):
        field = missing["field"]
        return Invalid(_join(where, field), None, _MISSING_HINTS.get(field, "this field is required"))
    if unknown := _UNKNOWN.match(problem):
        field = _join(where, unknown["field"])
        return Invalid(field, _value_at(document, field), "there is no such field; is it misspelt?")
    return Invalid(where or "job file", _value_at(document, where), problem[0].lower() + problem[1:])


def _join(where: str, field: str) -> str:
    return f"{where}.{field}" if where else field


def _value_at(document: object, where: str) -> object:
    for part in re.findall(r"[^.\[\]]+", where):
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
    return document
