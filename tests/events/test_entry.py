"""The traps of the facts page, sections 1 and 2: what may be missing, empty, or other than in the samples."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.events.entries import (
    CALL,
    SERVICE_ACCOUNT,
    SYSTEM_EVENT,
    WORKER_EVENT,
    Place,
    changed,
    event_of,
    places,
    sample,
    without,
)

from tpu_recovery.errors import Invalid
from tpu_recovery.events.entry import digest, key_of_entry, parse_entry
from tpu_recovery.model.messages import Author, Meaning

PROJECT, NUMBER = "demo-proj-123", "123456012345"
RESOURCE: Place = ("protoPayload", "resourceName")
LABELS: Place = ("resource", "labels")
PRINCIPAL: Place = ("protoPayload", "authenticationInfo", "principalEmail")


def entry(name: str = SYSTEM_EVENT, *changes: tuple[Place, object]) -> Any:
    document = sample(name)
    for place, value in changes:
        document = changed(document, place, value)
    return document


def numbered(*changes: tuple[Place, object]) -> Any:
    """An entry whose resource names the project by its number."""
    return entry(SYSTEM_EVENT, (RESOURCE, f"projects/{NUMBER}/locations/us-east5-b/nodes/train-a-0"), *changes)


# fmt: off
PROJECTS = [
    # the entry                                                                                    the project
    (numbered(),                                                                                   PROJECT),
    (numbered((LABELS, {"project_id": "from-label"})),                                             "from-label"),
    (numbered((LABELS, {"project_id": ""})),                                                       PROJECT),
    (numbered((LABELS, {})),                                                                       PROJECT),
    (numbered((LABELS, None)),                                                                     PROJECT),
    (numbered((("resource",), None)),                                                              PROJECT),
    (numbered((LABELS, {}), (("logName",), "organizations/7/logs/x")),                             NUMBER),
    (numbered((LABELS, {}), (("logName",), "projects")),                                           NUMBER),
    (numbered((LABELS, {}), (("logName",), "")),                                                   NUMBER),
    (entry(SYSTEM_EVENT, (LABELS, {"project_id": "another"})),                                     PROJECT),
    (entry(SYSTEM_EVENT, (RESOURCE, "projects/example.com:proj/locations/z/nodes/n")),             "example.com:proj"),
    (entry(SYSTEM_EVENT, (RESOURCE, f"//tpu.googleapis.com/projects/{PROJECT}/locations/z/nodes/n")), PROJECT),
]
# fmt: on


@pytest.mark.parametrize(("document", "project"), PROJECTS)
def test_the_project_is_named_by_its_id_wherever_the_entry_tells_it(document: Any, project: str) -> None:
    assert event_of(document).resource.project == project


# fmt: off
AUTHORS = [
    # log             principal              author
    ("system_event",  "system@google.com",   Author.PLATFORM),
    ("system_event",  None,                  Author.PLATFORM),
    ("system_event",  SERVICE_ACCOUNT,       Author.PLATFORM),
    ("system_event",  "alice@example.com",   Author.PLATFORM),
    ("activity",      "alice@example.com",   Author.PERSON),
    ("activity",      SERVICE_ACCOUNT,       Author.SERVICE),
    ("activity",      f"x{SERVICE_ACCOUNT}", Author.PERSON),
    ("activity",      None,                  Author.UNKNOWN),
    ("activity",      "",                    Author.UNKNOWN),
    ("data_access",   None,                  Author.UNKNOWN),
]
# fmt: on


@pytest.mark.parametrize(("log", "principal", "author"), AUTHORS)
def test_who_caused_an_entry(log: str, principal: str | None, author: Author) -> None:
    log_name = f"projects/{PROJECT}/logs/cloudaudit.googleapis.com%2F{log}"
    event = event_of(entry(CALL, (("logName",), log_name), (PRINCIPAL, principal)))
    assert event.author is author
    assert event.principal == (principal or "")


def test_an_entry_without_authentication_has_an_unknown_author() -> None:
    assert event_of(without(sample(CALL), ("protoPayload", "authenticationInfo"))).author is Author.UNKNOWN


# fmt: off
OPERATIONS = [
    # operation                           meaning of a CreateNode that went well
    ({"id": "o", "first": True},                  Meaning.CREATE_ACCEPTED),
    ({"id": "o", "first": True, "last": False},   Meaning.CREATE_ACCEPTED),
    ({"id": "o", "last": True},                   Meaning.CREATE_ENDED),
    ({"id": "o", "first": True, "last": True},    Meaning.CREATE_ENDED),
    ({"id": "o"},                                 Meaning.CREATE_ACCEPTED),
    ({},                                          Meaning.CREATE_ACCEPTED),
    (None,                                        Meaning.CREATE_ACCEPTED),
    ({"id": "o", "last": "true"},                 Meaning.CREATE_ACCEPTED),
]
# fmt: on


@pytest.mark.parametrize(("operation", "meaning"), OPERATIONS)
def test_absent_booleans_of_an_operation_are_false(operation: object, meaning: Meaning) -> None:
    event = event_of(entry("tpu_v2_createnode_first.json", (("operation",), operation)))
    assert event.meaning is meaning


def test_an_entry_without_operation_names_none() -> None:
    assert event_of(without(sample(CALL), ("operation",))).operation == ""


# fmt: off
FAILURES = [
    # severity     status                      failed
    ("NOTICE",     None,                        False),
    ("NOTICE",     {},                          False),
    ("NOTICE",     {"message": "fine"},         False),
    ("NOTICE",     {"code": 0},                 False),
    ("NOTICE",     {"code": 7},                 True),
    ("ERROR",      {"message": "no code here"}, True),
    ("error",      {},                          True),
    ("CRITICAL",   None,                        True),
    ("ALERT",      None,                        True),
    ("EMERGENCY",  None,                        True),
    ("WARNING",    None,                        False),
    ("DEFAULT",    None,                        False),
    (None,         None,                        False),
    (None,         {"code": 7},                 True),
]
# fmt: on


@pytest.mark.parametrize(("severity", "status", "failed"), FAILURES)
def test_a_call_has_failed_by_its_severity_or_by_a_code(severity: str | None, status: object, failed: bool) -> None:
    changes: list[tuple[Place, object]] = [(("severity",), severity), (("protoPayload", "status"), status)]
    event = event_of(entry("tpu_v2_deletenode_user_first.json", *changes))
    assert event.meaning is (Meaning.CALL_REFUSED if failed else Meaning.DELETE_ACCEPTED)


def test_a_system_event_with_a_status_that_has_no_code_is_no_failure() -> None:
    event = event_of(sample(WORKER_EVENT))
    assert (event.meaning, event.message) == (Meaning.WORKER_PREEMPTED, "Instance was preempted.")


@given(reason=st.text())
def test_the_reason_of_a_termination_never_changes_what_it_means(reason: str) -> None:
    event = event_of(entry(SYSTEM_EVENT, (("protoPayload", "metadata"), {"terminateReason": reason})))
    assert (event.meaning, event.terminate_reason) == (Meaning.NODE_TERMINATED, reason)


@pytest.mark.parametrize("method", ["tpu.nodes.explode", "google.cloud.tpu.v2.Tpu.ReimageNode", "✨"])
def test_an_entry_with_an_unknown_method_is_kept(method: str) -> None:
    event = event_of(entry(SYSTEM_EVENT, (("protoPayload", "methodName"), method)))
    assert (event.meaning, event.method) == (Meaning.OTHER, method)


# fmt: off
TIMES = [
    # timestamp                               moment
    ("2026-03-02T10:15:30Z",                  datetime(2026, 3, 2, 10, 15, 30, 0, UTC)),
    ("2026-03-02T10:15:30.1Z",                datetime(2026, 3, 2, 10, 15, 30, 100_000, UTC)),
    ("2026-03-02T10:15:30.123456Z",           datetime(2026, 3, 2, 10, 15, 30, 123_456, UTC)),
    ("2026-03-02T10:15:30.123456789Z",        datetime(2026, 3, 2, 10, 15, 30, 123_456, UTC)),  # cut off, not rounded
    ("2026-03-02T12:15:30+02:00",             datetime(2026, 3, 2, 10, 15, 30, 0, UTC)),
    ("2026-03-02T10:15:30",                   datetime(2026, 3, 2, 10, 15, 30, 0, UTC)),
]
# fmt: on


@pytest.mark.parametrize(("text", "moment"), TIMES)
def test_times_have_any_number_of_digits(text: str, moment: datetime) -> None:
    event = event_of(entry(SYSTEM_EVENT, (("timestamp",), text)))
    assert event.at == moment
    assert event.at.tzinfo is not None


@pytest.mark.parametrize("missing", ["", None, 7])
def test_without_a_timestamp_the_time_of_receipt_counts(missing: object) -> None:
    event = event_of(entry(SYSTEM_EVENT, (("timestamp",), missing)))
    assert event.at == datetime(2026, 3, 2, 10, 15, 31, 457_835, UTC)


def test_two_entries_that_differ_only_below_the_microsecond_are_two() -> None:
    one, other = (
        event_of(entry(SYSTEM_EVENT, (("timestamp",), f"2026-03-02T10:15:30.123456{digit}Z"))) for digit in (7, 8)
    )
    assert one.at == other.at
    assert one.key != other.key


@pytest.mark.parametrize("name", ["logName", "timestamp", "insertId"])
def test_the_key_tells_apart_entries_that_differ_in_one_of_log_time_and_insert_id(name: str) -> None:
    document = sample(SYSTEM_EVENT)
    assert key_of_entry(document) != key_of_entry({**document, name: "2026-03-02T10:15:31Z"})


def test_the_key_is_the_same_however_the_rest_of_the_entry_is_written() -> None:
    document = sample(SYSTEM_EVENT)
    again = {**dict(reversed(document.items())), "receiveTimestamp": "2027-01-01T00:00:00Z", "labels": {}}
    assert event_of(document).key == event_of(again).key


@given(st.text())
def test_any_insert_id_gives_a_key_that_can_be_a_document_id(insert_id: str) -> None:
    key = event_of(entry(SYSTEM_EVENT, (("insertId",), insert_id))).key
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")


def test_keys_of_different_things_are_different() -> None:
    assert digest("a", "bc") != digest("ab", "c")
    assert digest("a") != digest("a", "")


MANDATORY = {
    ("logName",),  # with it who did it is lost, but see below
    ("protoPayload",),
    ("protoPayload", "methodName"),
    RESOURCE,
}


@pytest.mark.parametrize("name", [SYSTEM_EVENT, WORKER_EVENT])
def test_a_system_event_is_understood_without_any_of_its_optional_parts(name: str) -> None:
    document = sample(name)
    expected = event_of(document)
    for place in places(document):
        if place in MANDATORY:
            continue
        event = event_of(without(document, place))
        assert (event.meaning, event.resource, event.author) == (expected.meaning, expected.resource, expected.author)


def test_an_entry_without_a_log_name_is_understood_but_not_taken_for_the_platforms() -> None:
    event = event_of(without(sample(SYSTEM_EVENT), ("logName",)))
    assert (event.meaning, event.author) == (Meaning.NODE_TERMINATED, Author.PERSON)


def as_json(place: Place, value: object) -> bytes:
    return json.dumps(entry(SYSTEM_EVENT, (place, value))).encode()


def without_times() -> bytes:
    return json.dumps(without(without(sample(SYSTEM_EVENT), ("timestamp",)), ("receiveTimestamp",))).encode()


# fmt: off
NO_EVENTS = [
    # data                                                               field
    (b"",                                                                "log entry"),
    (b"{",                                                               "log entry"),
    (b"\xff\xfe",                                                        "log entry"),
    (b'{"insertId": "\\ud800"}',                                         "log entry"),
    (b"null",                                                            "log entry"),
    (b"[]",                                                              "log entry"),
    (b'"text"',                                                          "log entry"),
    (b"7",                                                               "log entry"),
    (b"{}",                                                              "protoPayload.methodName"),
    (b'{"protoPayload": []}',                                            "protoPayload.methodName"),
    (b'{"protoPayload": {"methodName": 7}}',                             "protoPayload.methodName"),
    (b'{"textPayload": "hello"}',                                        "protoPayload.methodName"),
    (b'{"protoPayload": {"methodName": "m"}}',                           "protoPayload.resourceName"),
    (as_json(RESOURCE, "projects/p/locations/z"),                        "protoPayload.resourceName"),
    (as_json(RESOURCE, "projects/p/zones/z/disks/d"),                    "protoPayload.resourceName"),
    (as_json(("timestamp",), "yesterday"),                               "timestamp"),
    (as_json(("timestamp",), "2026-02-30T00:00:00Z"),                    "timestamp"),
    (without_times(),                                                    "timestamp"),
]
# fmt: on


@pytest.mark.parametrize(("data", "field"), NO_EVENTS)
def test_what_is_no_event_is_invalid_with_the_field_named(data: bytes, field: str) -> None:
    with pytest.raises(Invalid, match=f"^{field}: ") as caught:
        parse_entry(data, service_account=SERVICE_ACCOUNT)
    assert caught.value.field == field
    assert len(str(caught.value)) < 600


def test_a_moment_of_another_zone_compares_with_those_in_utc() -> None:
    event = event_of(entry(SYSTEM_EVENT, (("timestamp",), "2026-03-02T10:15:30-09:30")))
    assert event.at == datetime(2026, 3, 2, 10, 15, 30, tzinfo=timezone(-timedelta(hours=9, minutes=30)))
    assert event.at > datetime(2026, 3, 2, 19, 45, 29, tzinfo=UTC)
