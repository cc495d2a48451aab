from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.events.entries import changed, sample, without

from tpu_recovery.errors import Invalid
from tpu_recovery.events.envelope import Message, read_envelope

PUSH = "pubsub_push_envelope.json"
CLOUD_EVENT = "cloudevent_message_published.json"
TOKEN = "s3cret-token-of-generation-2"


def read(document: object) -> Message:
    return read_envelope(json.dumps(document).encode())


def push(**message: object) -> dict[str, Any]:
    return {"message": message, "subscription": "projects/p/subscriptions/s"}


def test_a_push_body_and_a_cloud_event_give_the_same_message() -> None:
    assert read(sample(PUSH)) == read(sample(CLOUD_EVENT))


def test_a_binary_cloud_event_has_the_push_body_as_its_data_and_needs_no_headers() -> None:
    assert read(sample(CLOUD_EVENT)["data"]) == read(sample(PUSH))


# fmt: off
NAMES = [
    # what the message holds                                            id, year of publishing
    ({"messageId": "1", "publishTime": "2026-03-02T10:15:32.001Z"},                    "1", 2026),
    ({"message_id": "2", "publish_time": "2025-03-02T10:15:32.001Z"},                  "2", 2025),
    ({"messageId": "1", "message_id": "2", "publishTime": "2026-01-01T00:00:00Z"},     "1", 2026),
    ({"messageId": None, "message_id": "2", "publish_time": "2025-01-01T00:00:00Z"},   "2", 2025),
    ({"messageId": 7},                                                                 "",  None),
    ({"messageId": "1", "publishTime": "yesterday"},                                   "1", None),
    ({"messageId": "1", "publishTime": 1_700_000_000},                                 "1", None),
    ({},                                                                               "",  None),
]
# fmt: on


@pytest.mark.parametrize(("names", "message_id", "year"), NAMES)
def test_names_come_in_camel_and_snake_case_or_not_at_all(
    names: dict[str, object], message_id: str, year: int | None
) -> None:
    message = read(push(data="", **names))
    assert message.id == message_id
    assert (message.published.year if message.published else None) == year


@pytest.mark.parametrize("attributes", [{"job": "train"}, {"job": "train", "n": 7, "x": None, "deep": [[]]}])
def test_attributes_are_texts_and_nothing_else(attributes: dict[str, object]) -> None:
    assert read(push(data="", attributes=attributes)).attributes == {"job": "train"}


@pytest.mark.parametrize("attributes", [None, [], "job=train", 7])
def test_a_message_may_lack_attributes(attributes: object) -> None:
    assert read(push(data="", attributes=attributes)).attributes == {}


@pytest.mark.parametrize("data", [None, ""])
def test_a_message_may_have_attributes_and_no_data(data: str | None) -> None:
    message = read(push(data=data, attributes={"job": "train"}))
    assert message == Message(id="", data=b"", attributes={"job": "train"})
    assert read(without(push(data=data, attributes={"job": "train"}), ("message", "data"))) == message


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"x" * 1_000_000])
def test_data_comes_out_byte_by_byte(data: bytes) -> None:
    assert read(push(data=base64.b64encode(data).decode())).data == data


def test_publishing_times_with_nanoseconds_are_cut_off() -> None:
    message = read(push(data="", publishTime="2026-03-02T10:15:32.123456789Z"))
    assert message.published == datetime(2026, 3, 2, 10, 15, 32, 123_456, UTC)


# fmt: off
NO_MESSAGES = [
    # body                                                     field
    (b"",                                                      "push request"),
    (b"\xff\xfe\x00",                                          "push request"),
    (b"x" * 1_000_000,                                         "push request"),
    (b'{"message": {"data": "e30="',                           "push request"),
    (b"null",                                                  "push request"),
    (b"[]",                                                    "push request"),
    (b'"message"',                                             "push request"),
    (b"{}",                                                    "push request"),
    (b'{"message": null}',                                     "push request"),
    (b'{"message": []}',                                       "push request"),
    (b'{"data": {}}',                                          "push request"),
    (b'{"data": {"message": "text"}}',                         "push request"),
    (b'{"message": {"data": 7}}',                              "message.data"),
    (b'{"message": {"data": {"job": "train"}}}',               "message.data"),
    (b'{"message": {"data": "*"}}',                            "message.data"),
    (b'{"message": {"data": "e30"}}',                          "message.data"),
    (b'{"message": {"data": "e30= "}}',                        "message.data"),
    ('{"message": {"data": "Aé=="}}'.encode(),                 "message.data"),
]
# fmt: on


@pytest.mark.parametrize(("body", "field"), NO_MESSAGES)
def test_what_holds_no_message_is_invalid_with_the_field_named(body: bytes, field: str) -> None:
    with pytest.raises(Invalid, match=f"^{field}: ") as caught:
        read_envelope(body)
    assert len(str(caught.value)) < 300


# fmt: off
LEAKS = [
    json.dumps({"token": TOKEN}),                                                    # a report without its envelope
    json.dumps({"message": json.dumps({"token": TOKEN})}),
    json.dumps({"message": {"data": json.dumps({"token": TOKEN})}}),                 # not encoded
    json.dumps({"message": {"data": {"token": TOKEN}}}),
    json.dumps({"message": {"data": base64.b64encode(TOKEN.encode()).decode() + "*"}}),
    '{"token": "' + TOKEN,
]
# fmt: on


@pytest.mark.parametrize("body", LEAKS)
def test_a_message_about_a_bad_envelope_never_shows_what_is_in_it(body: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_envelope(body.encode())
    assert TOKEN not in str(caught.value)
    assert base64.b64encode(TOKEN.encode()).decode() not in str(caught.value)


def test_fields_nobody_knows_are_left_alone() -> None:
    document = changed(sample(PUSH), ("message", "orderingKey"), {"a": [1]})
    assert read({**document, "deliveryAttempt": 3}) == read(sample(PUSH))
