from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.local.firestore.protobuf import document, value

from tpu_recovery.local.firestore.messages import Value, timestamp
from tpu_recovery.local.firestore.paths import NAME
from tpu_recovery.local.firestore.values import order_key, prepare_for_storage, project, put_value, value_at
from tpu_recovery.local.rpc import Refusal

ASCENDING: list[Any] = [
    value(None),
    value(False),
    value(True),
    value(float("nan")),
    value(float("-inf")),
    value(-(2**63)),
    value(-0.5),
    value(2**53),
    value(2**53 + 1),
    Value(timestamp_value=timestamp(1)),
    Value(timestamp_value=timestamp(2)),
    value(""),
    value("a"),
    value("\uffee"),
    value("😀"),
    value(b""),
    value(b"\xff"),
    Value(reference_value="projects/p/databases/d/documents/a/b"),
    Value(reference_value="projects/p/databases/d/documents/a/b/c/d"),
    Value(reference_value="projects/p/databases/d/documents/a-b/c"),
    Value(geo_point_value={"latitude": 1, "longitude": 2}),
    value([]),
    value(["a"]),
    value(["a", "a"]),
    value(["b"]),
    value({}),
    value({"a": 1}),
    value({"a": 1, "b": 1}),
    value({"b": 0}),
]


@pytest.mark.parametrize(("smaller", "larger"), list(itertools.pairwise(ASCENDING)))
def test_values_come_in_the_documented_order(smaller: Any, larger: Any) -> None:
    assert order_key(smaller) < order_key(larger)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (0.0, -0.0), (float("nan"), float("nan")), ([1], [1.0])])
def test_equal_numbers_are_equal_in_every_form(one: Any, other: Any) -> None:
    assert order_key(value(one)) == order_key(value(other))
    assert hash(order_key(value(one))) == hash(order_key(value(other)))


def test_true_is_not_one() -> None:
    assert order_key(value(True)) != order_key(value(1))


def test_a_value_without_a_type_is_refused() -> None:
    with pytest.raises(Refusal, match="no type"):
        order_key(Value())


def test_a_value_is_read_inside_maps_and_by_the_name() -> None:
    job = document("jobs/train", lease={"holder": {"id": 7}}, phase="RUNNING")
    assert value_at(job, ("lease", "holder", "id")) == value(7)
    assert value_at(job, ("phase", "inside")) is None
    assert value_at(job, ("absent",)) is None
    assert value_at(job, NAME) == Value(reference_value=job.name)


def test_putting_a_value_makes_the_maps_on_its_way() -> None:
    job = document("jobs/train", a=1, m={"kept": 1})
    put_value(job.fields, ("a", "b"), value(2))
    put_value(job.fields, ("m", "new"), value(3))
    assert job == document("jobs/train", a={"b": 2}, m={"kept": 1, "new": 3})


def test_removing_a_value_makes_nothing() -> None:
    job = document("jobs/train", a=1, m={"x": 1, "y": 2})
    put_value(job.fields, ("m", "x"), None)
    put_value(job.fields, ("a", "b"), None)
    put_value(job.fields, ("absent", "b"), None)
    put_value(job.fields, ("absent",), None)
    assert job == document("jobs/train", a=1, m={"y": 2})


def test_projection_keeps_only_what_is_asked_for() -> None:
    job = document("jobs/train", a=1, b={"c": 2, "d": 3})
    assert project(job, [("b", "c"), ("absent",), NAME]).fields == document("jobs/train", b={"c": 2}).fields
    assert job == document("jobs/train", a=1, b={"c": 2, "d": 3})


def test_timestamps_are_cut_to_microseconds_at_any_depth() -> None:
    job = document("jobs/train", m={"list": [0]})
    job.fields["m"].map_value.fields["list"].array_value.values[0].timestamp_value.nanos = 123_456_789
    prepare_for_storage(job)
    assert value_at(job, ("m", "list")).array_value.values[0].timestamp_value.nanos == 123_456_000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"__x__": 1}, "field name __x__ is reserved"),
        ({"m": {"__x__": 1}}, "field name __x__ is reserved"),
        ({"m": {"": 1}}, "field name is empty"),
        ({"x" * 1501: 1}, "longer than 1500 bytes"),
        ({"a": "x" * 1_048_488}, "longer than 1048487 bytes"),
        ({"a": b"x" * 1_048_488}, "longer than 1048487 bytes"),
        ({"a": "é" * 262_144, "b": "é" * 262_144}, "exceeds the maximum allowed size of 1,048,576 bytes"),
    ],
)
def test_what_no_document_may_hold(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        prepare_for_storage(document("jobs/train", **fields))
