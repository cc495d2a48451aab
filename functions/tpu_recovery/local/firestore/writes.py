"""A commit: preconditions, changes of fields and transforms of several documents, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tpu_recovery.local.firestore.database import Database
from tpu_recovery.local.firestore.messages import Document, Message, Value, WriteResult, timestamp
from tpu_recovery.local.firestore.paths import check_document_name, database_of, parse_field_path
from tpu_recovery.local.firestore.refusals import (
    already_exists,
    failed_precondition,
    invalid,
    not_found,
    not_served,
)
from tpu_recovery.local.firestore.values import Key, get_value, order_key, prepare_for_storage, put_value

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**63 - 1


def commit(database: Database, database_name: str, writes: Iterable[Message], now: int) -> list[Message]:
    """Apply ``writes`` in their order at the time ``now`` (microseconds since 1970); the result of each.

    Raises Refusal, and then nothing is changed: ALREADY_EXISTS, NOT_FOUND or FAILED_PRECONDITION when a precondition
    does not hold, INVALID_ARGUMENT, UNIMPLEMENTED.
    """
    named = [(_name_of(write), write) for write in writes]
    _check_request(named, database_name)
    staged: dict[str, Message | None] = {}
    results = []
    for name, write in named:
        stored = database.get(name)
        current = staged.get(name, stored)
        _check_precondition(write.current_document, name, current, stored)
        staged[name], result = _apply(write, name, current, now)
        results.append(result)
    database.put_all(staged.items())
    return results


def _name_of(write: Message) -> str:
    match write.WhichOneof("operation"):
        case "update":
            return str(write.update.name)
        case "delete":
            return str(write.delete)
        case operation:
            raise not_served(f"the write operation {operation}")


@dataclass
class _Earlier:
    """What earlier writes of the same request mean for a document: its version asked for, and whether it is left."""

    version: int | None
    is_left: bool


def _check_request(named: Iterable[tuple[str, Message]], database_name: str) -> None:
    """Refuse wrong names, and conditions that cannot hold or do not fit after an earlier write of the same request."""
    seen: dict[str, _Earlier] = {}
    for name, write in named:
        check_document_name(name)
        if database_of(name) != database_name:
            raise invalid(f'Document name "{name}" is not in the database {database_name} of this request.')
        if name in seen:
            _check_repeated(name, write, seen[name])
        else:
            seen[name] = _Earlier(_required_version(write), is_left=False)
        seen[name].is_left = write.WhichOneof("operation") == "update"


def _check_repeated(name: str, write: Message, earlier: _Earlier) -> None:
    condition, version = write.current_document, _required_version(write)
    is_update = write.WhichOneof("operation") == "update"
    must_exist = condition.exists or (is_update and version is not None)
    must_not_exist = condition.WhichOneof("condition_type") == "exists" and not condition.exists
    if must_exist and not earlier.is_left:
        raise invalid(f"Cannot delete then update an entity in the same request: {name}")
    if must_not_exist and earlier.is_left:
        raise invalid(f"Cannot write then insert an entity in the same request: {name}")
    if version is not None and version != earlier.version:
        raise invalid(
            f"Cannot collapse mutations with different version preconditions: the first write of {name} in this "
            f"request must ask for the same version ({earlier.version or 'none'} and {version})"
        )


def _required_version(write: Message) -> int | None:
    """The update time (microseconds since 1970) that the write asks for."""
    if write.current_document.WhichOneof("condition_type") != "update_time":
        return None
    return int(write.current_document.update_time.ToMicroseconds())


def _check_precondition(condition: Message, name: str, current: Message | None, stored: Message | None) -> None:
    """``stored`` is the document before this commit: an update time never refers to a write of the same request."""
    match condition.WhichOneof("condition_type"):
        case "exists":
            if condition.exists and current is None:
                raise not_found(f"No document to update: {name}")
            if not condition.exists and current is not None:
                raise already_exists(f"Document already exists: {name}")
        case "update_time":
            actual = 0 if stored is None else stored.update_time.ToMicroseconds()
            required = condition.update_time.ToMicroseconds()
            if 0 < actual < required:
                raise invalid(
                    f"Invalid base version ({required}), it is greater than the stored version ({actual}): {name}"
                )
            if actual != required:
                raise failed_precondition(
                    f"the stored version ({actual}) does not match the required base version ({required}): {name}"
                )


def _apply(write: Message, name: str, current: Message | None, now: int) -> tuple[Message | None, Message]:
    result = WriteResult(update_time=timestamp(now))
    if write.WhichOneof("operation") == "delete":
        return None, result
    document = Document(name=name, create_time=timestamp(now) if current is None else current.create_time)
    if write.HasField("update_mask"):
        if current is not None:
            document.MergeFrom(current)
        for path in map(parse_field_path, write.update_mask.field_paths):
            put_value(document.fields, path, get_value(write.update.fields, path))
    else:
        document.MergeFrom(Document(fields=write.update.fields))
    result.transform_results.extend(_transform(document, transform, now) for transform in write.update_transforms)
    prepare_for_storage(document)
    document.update_time.CopyFrom(timestamp(now) if current is None else current.update_time)
    if document == current:
        # Real Firestore does not count a write that changes nothing as a change:
        # https://github.com/GoogleCloudPlatform/spring-cloud-gcp/issues/2163
        result.update_time.CopyFrom(current.update_time)
        return current, result
    document.update_time.CopyFrom(timestamp(now))
    return document, result


def _transform(document: Message, transform: Message, now: int) -> Message:
    """Change the field that ``transform`` names; what the client is told about it."""
    path = parse_field_path(transform.field_path)
    old = get_value(document.fields, path)
    kind = transform.WhichOneof("transform_type")
    if kind not in _TRANSFORMS:
        raise not_served(f"the field transform {kind}")
    new, told = _TRANSFORMS[kind](_Transform(old, transform, now))
    put_value(document.fields, path, new)
    return told


@dataclass(frozen=True)
class _Transform:
    old: Message | None
    transform: Message
    now: int

    def old_items(self) -> list[Message]:
        """The elements the array has; a field that is no array counts as an empty one."""
        return [] if self.old is None else list(self.old.array_value.values)


def _server_time(change: _Transform) -> tuple[Message, Message]:
    # The API documents millisecond precision for it (FieldTransform.ServerValue.REQUEST_TIME).
    new = Value(timestamp_value=timestamp(change.now - change.now % 1000))
    return new, new


def _increment(change: _Transform) -> tuple[Message, Message]:
    operand = change.transform.increment
    old, step = _number(change.old), _number(operand)
    if step is None:
        raise invalid(f"Increment of {change.transform.field_path} by something that is no number.")
    if old is None:
        return operand, operand
    total = old + step
    if isinstance(total, float):
        new = Value(double_value=total)
    else:
        new = Value(integer_value=max(_SMALLEST_INTEGER, min(_LARGEST_INTEGER, total)))
    return new, new


def _number(value: Message | None) -> int | float | None:
    match value.WhichOneof("value_type") if value is not None else None:
        case "integer_value":
            return int(value.integer_value)  # type: ignore[union-attr]
        case "double_value":
            return float(value.double_value)  # type: ignore[union-attr]
        case _:
            return None


def _union(change: _Transform) -> tuple[Message, Message]:
    items = change.old_items()
    known: set[Key] = {order_key(item) for item in items}
    for item in change.transform.append_missing_elements.values:
        key = order_key(item)
        if key not in known:
            known.add(key)
            items.append(item)
    return _array(items), Value(null_value=0)


def _remove(change: _Transform) -> tuple[Message, Message]:
    unwanted = {order_key(item) for item in change.transform.remove_all_from_array.values}
    return _array([item for item in change.old_items() if order_key(item) not in unwanted]), Value(null_value=0)


def _array(items: list[Message]) -> Message:
    value = Value()
    value.array_value.SetInParent()  # an empty array is still an array
    value.array_value.values.extend(items)
    return value


_TRANSFORMS: dict[str, Callable[[_Transform], tuple[Message, Message]]] = {
    "set_to_server_value": _server_time,
    "increment": _increment,
    "append_missing_elements": _union,
    "remove_all_from_array": _remove,
}
