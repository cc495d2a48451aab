"""The job file: YAML as people write it -> a valid specification."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.model.codec import from_document
from tpu_recovery.model.spec import AcceleratorKind, CapacityKind, CheckpointFormat, DiskMode, JobSpec, WhenDone
from tpu_recovery.model.validate import validate

LARGEST_JOB_FILE = 1_000_000
"""Characters. A specification is one document in Firestore, and a document has at most 1 MiB."""

MOST_ALIASES = 20
"""YAML aliases in a job file. Each may stand for something that holds aliases itself, which multiplies: the largest
product of numbers that add up to 20 is about 1,500, which is still quick to read."""

DEEPEST = 50
"""Levels of nesting."""

_AT = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<field>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.+)`", re.DOTALL)
_SOME_KEY = "[...]"
"""How msgspec writes a place in a mapping; it does not say which."""

_PROGRAM_HINT = (
    "say what a fresh VM needs before the command can run: `archive` and `sha256` of a tar in Cloud Storage, "
    "or `program: none` when the image or your startup script brings it"
)
_MISSING_HINTS = {
    "program": _PROGRAM_HINT,
    "name": "give the job a name",
    "command": "write the shell command that starts training on every worker",
    "placements": "name at least one zone to run in, like `placements: [{zone: us-east5-b}]`",
}


def _one_of(choices: type[StrEnum]) -> str:
    return f"write one of {', '.join(choices)}"


_CHOICE_HINTS = {
    "program": _PROGRAM_HINT,
    "capacity": _one_of(CapacityKind),
    "format": _one_of(CheckpointFormat),
    "mode": _one_of(DiskMode),
    "type": _one_of(AcceleratorKind),
    "when_done": _one_of(WhenDone),
}


def parse_job_file(text: str) -> JobSpec:
    """Read one job file.

    Raises Invalid with the first field that is wrong, its value, and what would be right.
    """
    document = _read_yaml(text)
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


def _read_yaml(text: str) -> object:
    import yaml

    if len(text) > LARGEST_JOB_FILE:
        raise Invalid("job file", f"{len(text)} characters", f"at most {LARGEST_JOB_FILE}")
    try:
        _check_growth(text)
        _check_repetition(yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        # Beside its own errors PyYAML lets Python's pass: for a date with month 13, for `!!int x`, `!!bool x`, …
        first = text.strip().splitlines()[0][:60] if text.strip() else ""
        raise Invalid("job file", first, f"it must be YAML: {' '.join(str(error).split())}") from error


def _check_repetition(node: Any) -> None:
    """Refuse a field that is written twice: YAML would silently take the last one."""
    import yaml

    nodes, seen = [node], set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue  # an alias stands for the very node that was seen already
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes.extend(node.value)
            continue
        written: set[str] = set()
        for key, value in node.value:
            nodes.append(value)
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in written:
                raise Invalid(key.value, f"again in line {key.start_mark.line + 1}", "write each field once")
            written.add(key.value)


def _check_growth(text: str) -> None:
    """Refuse what would take YAML very long: reading it goes event by event, which is quick, and ends at the first."""
    import yaml

    aliases = depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if aliases > MOST_ALIASES:
            raise Invalid("job file", f"more than {MOST_ALIASES} aliases", "write the values out instead of `*names`")
        if depth > DEEPEST:
            raise Invalid("job file", f"more than {DEEPEST} levels", "close your brackets; no field lies that deep")


def _explain(message: str, document: object) -> Invalid:
    match = _AT.fullmatch(message)
    problem, where = (match["problem"], match["field"] or "") if match else (message, "")
    if where.endswith(_SOME_KEY):
        return _explain_value(where.removesuffix(_SOME_KEY), document)
    if match and match["key"]:
        return _explain_key(where, document)
    if missing := _MISSING.fullmatch(problem):
        field = missing["field"]
        return Invalid(_join(where, field), None, _MISSING_HINTS.get(field, "this field is required"))
    if unknown := _UNKNOWN.fullmatch(problem):
        field = unknown["field"]
        value = _members(_value_at(document, where)).get(field)
        return Invalid(_join(where, field), value, "there is no such field; is it misspelt?")
    value = _value_at(document, where)
    if problem.startswith("Invalid enum value"):
        return Invalid(where, value, _CHOICE_HINTS[where.rpartition(".")[2]])
    return Invalid(where or "job file", value, problem[0].lower() + problem[1:])


def _explain_value(where: str, document: object) -> Invalid:
    """A mapping (of environment, labels or metadata) holds a value that is no text."""
    members = _members(_value_at(document, where))
    key = next(key for key, value in members.items() if not isinstance(value, str))
    return Invalid(_join(where, str(key)), members[key], "it must be text; put it into quotes")


def _explain_key(where: str, document: object) -> Invalid:
    key = next(key for key in _members(_value_at(document, where)) if not isinstance(key, str))
    return Invalid(where or "job file", key, "a name must be text; put it into quotes")


def _join(where: str, field: str) -> str:
    return f"{where}.{field}" if where else field


def _members(value: object) -> dict[object, object]:
    return value if isinstance(value, dict) else {}


def _value_at(document: object, where: str) -> object:
    """The value at a place like ``placements[0].zone``; everything on the way to it is of the right type."""
    for part in re.findall(r"[^.\[\]]+", where):
        document = document[int(part)] if isinstance(document, list) else _members(document).get(part)
    return document
