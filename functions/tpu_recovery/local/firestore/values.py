"""Values: the order between them, reading and writing one inside a document, and what Firestore refuses to store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tpu_recovery.local.firestore.messages import Document, Message, Value
from tpu_recovery.local.firestore.paths import NAME, FieldPath, check_field_name
from tpu_recovery.local.firestore.refusals import invalid

Key: TypeAlias = tuple[Any, ...]
"""A value as a hashable tuple that compares as Firestore orders values; its first item is the rank of the type."""

NULL_KEY: Key = (0,)
NAN_KEY: Key = (2, 0)
ARRAY_RANK = 8

# https://firebase.google.com/docs/firestore/quotas: document and field value.
LARGEST_DOCUMENT = 1_048_576  # bytes
LARGEST_FIELD_VALUE = LARGEST_DOCUMENT - 89  # bytes
DEEPEST_NESTING = 20  # maps and arrays inside each other


def _number_key(number: float) -> Key:
    return (2, 1, number) if number == number else NAN_KEY  # noqa: PLR0124 - only NaN differs from itself


# Null < booleans < numbers (NaN first) < timestamps < strings < bytes < references < points < arrays < maps:
# https://firebase.google.com/docs/firestore/manage-data/data-types#value_type_ordering
# Strings go by UTF-8 bytes there, which is the order of code points that Python compares by.
_KEYS: dict[str, Callable[[Message], Key]] = {
    "null_value": lambda _: NULL_KEY,
    "boolean_value": lambda value: (1, value.boolean_value),
    "integer_value": lambda value: _number_key(value.integer_value),
    "double_value": lambda value: _number_key(value.double_value),
    "timestamp_value": lambda value: (3, value.timestamp_value.seconds, value.timestamp_value.nanos),
    "string_value": lambda value: (4, value.string_value),
    "bytes_value": lambda value: (5, value.bytes_value),
    "reference_value": lambda value: (6, *value.reference_value.split("/")),
    "geo_point_value": lambda value: (7, value.geo_point_value.latitude, value.geo_point_value.longitude),
    "array_value": lambda value: (ARRAY_RANK, tuple(order_key(item) for item in value.array_value.values)),
    "map_value": lambda value: (
        9,
        tuple(
            (name, order_key(item)) for name, item in sorted(value.map_value.fields.items(), key=lambda pair: pair[0])
        ),
    ),
}


def order_key(value: Message) -> Key:
    """The key by which ``value`` is compared: equal keys are equal values (1 and 1.0 too), smaller ones come first."""
    return _KEYS[_kind(value)](value)


def _kind(value: Message) -> str:
    kind = value.WhichOneof("value_type")
    if kind not in _KEYS:
        raise invalid(f"Value has no type that a document can hold: {kind or 'none set'}")
    return str(kind)


def value_at(document: Message, path: FieldPath) -> Message | None:
    """The value that ``document`` has at ``path``, or None."""
    if path == NAME:
        return Value(reference_value=document.name)
    return get_value(document.fields, path)


def get_value(fields: Message, path: FieldPath) -> Message | None:
    """The value at ``path`` below ``fields``, or None."""
    for name in path[:-1]:
        if name not in fields or fields[name].WhichOneof("value_type") != "map_value":
            return None
        fields = fields[name].map_value.fields
    return fields.get(path[-1])


def put_value(fields: Message, path: FieldPath, value: Message | None) -> None:
    """Set the value at ``path`` below ``fields``, replacing what is no map on the way; None removes it."""
    for name in path[:-1]:
        if name in fields and fields[name].WhichOneof("value_type") == "map_value":
            fields = fields[name].map_value.fields
        elif value is None:
            return
        else:
            fields[name].map_value.SetInParent()
            fields = fields[name].map_value.fields
    if value is not None:
        fields[path[-1]].CopyFrom(value)
    elif path[-1] in fields:
        del fields[path[-1]]


def project(document: Message, paths: Iterable[FieldPath]) -> Message:
    """A copy of ``document`` with only the fields at ``paths``."""
    copy = Document(name=document.name, create_time=document.create_time, update_time=document.update_time)
    for path in paths:
        value = None if path == NAME else value_at(document, path)
        if value is not None:
            put_value(copy.fields, path, value)
    return copy


def prepare_for_storage(document: Message) -> None:
    """Cut timestamps to microseconds, as stored; refuse (INVALID_ARGUMENT) what no document may hold."""
    size = _name_size(document.name) + 32  # what the documented storage size adds to every document
    for name, value in document.fields.items():
        check_field_name(name)
        _prepare(value, depth=0)
        size += _text_size(name) + _size(value)
    if size > LARGEST_DOCUMENT:
        raise invalid(
            f"Document '{document.name}' cannot be written because its size ({size:,} bytes) "
            f"exceeds the maximum allowed size of {LARGEST_DOCUMENT:,} bytes."
        )


def _prepare(value: Message, depth: int) -> None:
    kind = _kind(value)
    if kind == "timestamp_value":
        value.timestamp_value.nanos -= value.timestamp_value.nanos % 1000
    elif kind in ("string_value", "bytes_value"):
        if _size(value) - (kind == "string_value") > LARGEST_FIELD_VALUE:  # a text's size has one byte more than it
            raise invalid(f"The value of a property is longer than {LARGEST_FIELD_VALUE} bytes.")
    elif kind in ("array_value", "map_value"):
        if depth == DEEPEST_NESTING:
            raise invalid(f"Value is nested too deeply: at most {DEEPEST_NESTING} maps and arrays inside each other.")
        for item in _items(value):
            if kind == "array_value" and item.WhichOneof("value_type") == "array_value":
                raise invalid("Cannot convert an array value in an array value.")
            _prepare(item, depth + 1)


def _items(value: Message) -> Iterable[Message]:
    if value.WhichOneof("value_type") == "array_value":
        return list(value.array_value.values)
    for name in value.map_value.fields:
        check_field_name(name)
    return list(value.map_value.fields.values())


# https://firebase.google.com/docs/firestore/storage-size
_SIZES: dict[str, Callable[[Message], int]] = {
    "null_value": lambda _: 1,
    "boolean_value": lambda _: 1,
    "integer_value": lambda _: 8,
    "double_value": lambda _: 8,
    "timestamp_value": lambda _: 8,
    "string_value": lambda value: _text_size(value.string_value),
    "bytes_value": lambda value: len(value.bytes_value),
    "reference_value": lambda value: _name_size(value.reference_value),
    "geo_point_value": lambda _: 16,
    "array_value": lambda value: sum(map(_size, value.array_value.values)),
    "map_value": lambda value: sum(_text_size(name) + _size(item) for name, item in value.map_value.fields.items()),
}


def _size(value: Message) -> int:
    return _SIZES[_kind(value)](value)


def _text_size(text: str) -> int:
    return len(text.encode()) + 1


def _name_size(name: str) -> int:
    """Size of a document's name: its parts below the database's root, plus 16 bytes."""
    return 16 + sum(map(_text_size, name.split("/")[5:]))
