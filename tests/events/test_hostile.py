"""Whatever arrives, the parsers read it or say that it is invalid; nothing else ever comes out of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.events.entries import (
    CALL,
    SERVICE_ACCOUNT,
    SYSTEM_EVENT,
    WORKER_EVENT,
    changed,
    places,
    sample,
)
from tests.events.runner_reports import COMMAND, REPORT

from tpu_recovery.errors import Invalid
from tpu_recovery.events.entry import parse_entry
from tpu_recovery.events.envelope import Message, read_envelope
from tpu_recovery.events.reports import key_of_command, key_of_report, parse_command, parse_report
from tpu_recovery.model.messages import Command, Event, Report


def entry(data: bytes) -> Event:
    event = parse_entry(data, service_account=SERVICE_ACCOUNT)
    assert event.at.tzinfo is not None
    return event


def report(data: bytes) -> Report:
    read = parse_report(data)
    assert key_of_report(read)
    return read


def command(data: bytes) -> Command:
    read = parse_command(data)
    assert key_of_command(read)
    return read


Parser = Callable[[bytes], Event | Message | Report | Command]

PARSERS: dict[str, Parser] = {"entry": entry, "envelope": read_envelope, "report": report, "command": command}

DOCUMENTS: dict[str, list[dict[str, Any]]] = {
    "entry": [sample(name) for name in (SYSTEM_EVENT, WORKER_EVENT, CALL)],
    "envelope": [sample(name) for name in ("pubsub_push_envelope.json", "cloudevent_message_published.json")],
    "report": [REPORT],
    "command": [COMMAND],
}

every_parser = pytest.mark.parametrize("kind", PARSERS)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=8
)


def read_or_refuse(kind: str, data: bytes) -> None:
    """Anything but a result or one short message for a person is a failure of the test."""
    refusal = ""
    try:
        PARSERS[kind](data)
    except Invalid as problem:
        refusal = str(problem)
    assert len(refusal) < 1_000


@every_parser
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes(kind: str, data: bytes) -> None:
    read_or_refuse(kind, data)


@every_parser
@given(document=anything)
def test_arbitrary_json(kind: str, document: object) -> None:
    read_or_refuse(kind, json.dumps(document).encode())


@every_parser
@settings(max_examples=200)
@given(choice=st.data())
def test_arbitrary_json_anywhere_in_a_valid_document(kind: str, choice: st.DataObject) -> None:
    document = choice.draw(st.sampled_from(DOCUMENTS[kind]))
    for _ in range(choice.draw(st.integers(1, 3))):
        place = choice.draw(st.sampled_from(list(places(document))))
        document = changed(document, place, choice.draw(anything))
    read_or_refuse(kind, json.dumps(document).encode())


WRONG: tuple[object, ...] = (None, True, 0, -1, 2**70, 1.5, "", "text", "\ud800", "\x00", [], [[]], {}, {"a": None})


@every_parser
def test_every_kind_of_value_in_every_place(kind: str) -> None:
    for document in DOCUMENTS[kind]:
        for place in places(document):
            for value in WRONG:
                read_or_refuse(kind, json.dumps(changed(document, place, value)).encode())


@every_parser
def test_a_document_cut_off_anywhere(kind: str) -> None:
    for document in DOCUMENTS[kind]:
        data = json.dumps(document).encode()
        for length in range(len(data)):
            with pytest.raises(Invalid):
                PARSERS[kind](data[:length])


# fmt: off
RUBBISH = [
    b"x" * 1_000_000,
    b"\x00" * 1_000_000,
    b"\xff" * 1_000_000,
    b" " * 1_000_000,
    b'"' * 1_000_000,
    b"[" * 1_000_000,
    b"[]" * 500_000,
    b'{"a":' * 200_000,
    b"9" * 1_000_000,
    b"-",
    b"1e999999999",
    b"NaN",
    b"Infinity",
    b"\xef\xbb\xbf{}",                      # a byte order mark
    '{"message": {}}'.encode("utf-16"),
    b'{"message": "\xed\xa0\x80"}',         # half a character
    b'{"protoPayload": {}, "protoPayload": {}}',
]
# fmt: on


@every_parser
@pytest.mark.parametrize("data", RUBBISH, ids=lambda data: repr(data[:12]))
def test_a_megabyte_of_rubbish(kind: str, data: bytes) -> None:
    with pytest.raises(Invalid):
        PARSERS[kind](data)


def nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    return opening * depth + b"0" + closing * depth


def deep(document: object) -> Iterator[bytes]:
    """A document with something deep in every place: far below, all around and far above what Python can follow."""
    for place in places(document):
        text = json.dumps(changed(document, place, "HERE")).encode()
        for depth in (100, *range(900, 1_000, 7), 50_000):
            yield text.replace(b'"HERE"', nested(depth, b"[", b"]"))
            yield text.replace(b'"HERE"', nested(depth, b'{"a":', b"}"))


@every_parser
def test_deep_nesting_in_every_place(kind: str) -> None:
    for data in deep(DOCUMENTS[kind][0]):
        read_or_refuse(kind, data)


@every_parser
def test_deep_nesting_and_nothing_else(kind: str) -> None:
    for depth in range(1, 1_100):
        read_or_refuse(kind, nested(depth, b"[", b"]"))
        read_or_refuse(kind, nested(depth, b'{"message":', b"}"))


EDGES = {
    "before the first year": "0001-01-01T00:00:00+23:59",
    "after the last year": "9999-12-31T23:59:59-23:59",
    "the first year": "0001-01-01T00:00:00Z",
    "the last year, where nothing can be added": "9999-12-31T23:59:59Z",
    "before computers count": "1970-01-01T00:00:00+00:01",
}


@pytest.mark.parametrize("kind", ["entry", "report", "command"])
@pytest.mark.parametrize("when", EDGES)
def test_a_time_that_leaves_no_room_is_invalid(kind: str, when: str) -> None:
    field = "timestamp" if kind == "entry" else "at"
    with pytest.raises(Invalid, match="UTC"):
        PARSERS[kind](json.dumps({**DOCUMENTS[kind][0], field: EDGES[when]}).encode())


@pytest.mark.parametrize("kind", ["entry", "report", "command"])
def test_a_time_of_any_zone_is_kept_in_utc(kind: str) -> None:
    field = "timestamp" if kind == "entry" else "at"
    read = PARSERS[kind](json.dumps({**DOCUMENTS[kind][0], field: "2026-12-01T15:00:00+05:30"}).encode())
    assert not isinstance(read, Message)
    assert (read.at.isoformat(), read.at.tzinfo) == ("2026-12-01T09:30:00+00:00", UTC)


def test_a_resource_name_that_is_too_long_to_be_kept_is_invalid() -> None:
    name = f"projects/p/locations/us-east5-b/nodes/{'🎈' * 250}"
    with pytest.raises(Invalid, match="at most 1000 bytes"):
        entry(json.dumps(changed(DOCUMENTS["entry"][0], ("protoPayload", "resourceName"), name)).encode())
