from __future__ import annotations

from typing import Any

import grpc
import pytest
from tests.local.firestore.protobuf import DATABASE, ROOT, document, setting, value

from tpu_recovery.local.firestore.database import Database
from tpu_recovery.local.firestore.messages import Message, Value, Write, timestamp
from tpu_recovery.local.firestore.writes import commit
from tpu_recovery.local.rpc import Refusal

TRAIN = f"{ROOT}/jobs/train"


def content(database: Database) -> dict[str, Any] | None:
    found = database.get(TRAIN)
    return None if found is None else dict(found.fields)


def transforming(path: str, **transform: Any) -> Message:
    return Write(update=document("jobs/train"), update_mask={}, update_transforms=[{"field_path": path, **transform}])


def test_a_commit_stamps_what_it_creates_and_changes() -> None:
    database = Database()
    commit(database, DATABASE, [setting("jobs/train", n=1)], now=1_000)
    [result] = commit(database, DATABASE, [setting("jobs/train", n=2)], now=2_000)
    stored = database.get(TRAIN)
    assert stored is not None
    assert (stored.create_time, stored.update_time) == (timestamp(1_000), timestamp(2_000))
    assert result.update_time == timestamp(2_000)


def test_a_refused_commit_leaves_everything_as_it_was() -> None:
    database = Database()
    commit(database, DATABASE, [setting("jobs/train", n=1)], now=1)
    create_again = Write(update=document("jobs/train"), current_document={"exists": False})
    with pytest.raises(Refusal) as refused:
        commit(database, DATABASE, [setting("inbox/1"), create_again], now=2)
    assert refused.value.code is grpc.StatusCode.ALREADY_EXISTS
    assert database.get(f"{ROOT}/inbox/1") is None
    assert content(database) == {"n": value(1)}


def test_a_mask_without_a_value_removes_the_field() -> None:
    database = Database()
    commit(database, DATABASE, [setting("jobs/train", a=1, b=2)], now=1)
    masked = Write(update=document("jobs/train", a=9, ignored=1), update_mask={"field_paths": ["a", "b"]})
    commit(database, DATABASE, [masked], now=2)
    assert content(database) == {"a": value(9)}


@pytest.mark.parametrize(
    ("before", "transform", "after", "told"),
    [
        ({"n": 1}, {"increment": value(2)}, 3, value(3)),
        ({"n": 1}, {"increment": value(0.5)}, 1.5, value(1.5)),
        ({"n": "x"}, {"increment": value(2)}, 2, value(2)),
        ({}, {"increment": value(2)}, 2, value(2)),
        ({"n": -(2**63)}, {"increment": value(-1)}, -(2**63), value(-(2**63))),
        ({"n": [1]}, {"append_missing_elements": value([1.0, 2, 2]).array_value}, [1, 2], value(None)),
        ({"n": "x"}, {"append_missing_elements": value([]).array_value}, [], value(None)),
        ({"n": [1, 2, 1.0]}, {"remove_all_from_array": value([1]).array_value}, [2], value(None)),
    ],
)
def test_transforms(before: dict[str, Any], transform: dict[str, Any], after: Any, told: Message) -> None:
    database = Database()
    commit(database, DATABASE, [setting("jobs/train", **before)], now=1)
    [result] = commit(database, DATABASE, [transforming("n", **transform)], now=2)
    assert content(database) == {"n": value(after)}
    assert list(result.transform_results) == [told]


def test_the_server_time_has_milliseconds() -> None:
    database = Database()
    commit(database, DATABASE, [transforming("m.at", set_to_server_value=1)], now=1_234_567)
    at = Value(timestamp_value=timestamp(1_234_000))
    assert content(database) == {"m": Value(map_value={"fields": {"at": at}})}


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (transforming("n", maximum=value(1)), grpc.StatusCode.UNIMPLEMENTED),
        (transforming("n", increment=value("x")), grpc.StatusCode.INVALID_ARGUMENT),
        (transforming("a..b", increment=value(1)), grpc.StatusCode.INVALID_ARGUMENT),
        (Write(transform={"document": TRAIN}), grpc.StatusCode.UNIMPLEMENTED),
        (Write(), grpc.StatusCode.UNIMPLEMENTED),
        (Write(delete=f"{ROOT}/jobs"), grpc.StatusCode.INVALID_ARGUMENT),
        (Write(delete="projects/p/databases/other/documents/jobs/train"), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_writes_that_are_refused(write: Message, code: grpc.StatusCode) -> None:
    with pytest.raises(Refusal) as refused:
        commit(Database(), DATABASE, [write], now=1)
    assert refused.value.code is code


def test_a_stored_message_is_not_changed_by_later_commits() -> None:
    database = Database()
    commit(database, DATABASE, [setting("jobs/train", m={"n": 1})], now=1)
    read = database.get(TRAIN)
    assert read is not None
    commit(database, DATABASE, [transforming("m.n", increment=value(1))], now=2)
    assert read.fields["m"] == value({"n": 1})
