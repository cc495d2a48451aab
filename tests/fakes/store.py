"""Documents in memory, with the rules that the service relies on in Firestore (tests/contract pins them)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.fakes.wire import Wire

from tpu_recovery.errors import AlreadyExists, Conflict, Unreadable, Unstorable
from tpu_recovery.recovery.ports import Change, Create, Filter, Replace, Stored, Write

LARGEST_DOCUMENT = 1_048_576
_RESERVED = re.compile(r"__.*__", re.DOTALL)


class MemoryStore:
    """A Store. A document keeps its version when a write changes nothing about it."""

    def __init__(self, wire: Wire) -> None:
        self.documents: dict[str, Stored] = {}
        self._wire = wire
        self._versions = 0

    def get(self, *paths: str) -> Sequence[Stored | None]:
        """See Store.get."""
        return self._wire.carry("store", "get", " ".join(paths), lambda: [self._read(path) for path in paths])

    def find(self, collection: str, *filters: Filter, limit: int = 0) -> Sequence[Stored]:
        """See Store.find."""
        return self._wire.carry("store", "find", collection, lambda: self._found(collection, filters)[: limit or None])

    def commit(self, writes: Sequence[Write]) -> Sequence[object]:
        """See Store.commit."""
        return self._wire.carry(
            "store", "commit", " ".join(write.path for write in writes), lambda: self._apply(writes)
        )

    def document(self, path: str) -> Mapping[str, Any]:
        """What a document holds, for a test to look at. Raises KeyError."""
        return self.documents[path].fields

    def put(self, path: str, fields: Mapping[str, Any]) -> None:
        """What somebody else writes: a person a specification, a test a state of its own."""
        _check_path(path)
        self._versions += 1
        self.documents[path] = Stored(path, _plain(path, fields), self._versions)

    def _read(self, path: str) -> Stored | None:
        _check_path(path)
        found = self.documents.get(path)
        return found._replace(fields=_value(found.fields)) if found else None

    def _found(self, collection: str, filters: Sequence[Filter]) -> list[Stored]:
        depth = collection.count("/") + 1
        paths = sorted(p for p in self.documents if p.startswith(f"{collection}/") and p.count("/") == depth)
        stored = (self.documents[path] for path in paths)
        found = [one for one in stored if all(_matches(one.fields, *condition) for condition in filters)]
        return [one._replace(fields=_value(one.fields)) for one in found]

    def _apply(self, writes: Sequence[Write]) -> list[object]:
        self._versions += 1
        after = dict(self.documents)
        for write in writes:
            after[write.path] = self._written(after.get(write.path), write)
        self.documents = after
        return [after[write.path].version for write in writes]

    def _written(self, known: Stored | None, write: Write) -> Stored:
        _check_path(write.path)
        match write:
            case Create() if known is not None:
                raise AlreadyExists(write.path)
            case Replace() | Change() if known is None:
                raise Conflict(f"{write.path} does not exist")
            case Replace(version=version) if known is not None and known.version != version:
                raise Conflict(f"{write.path} has changed")
        fields = {**(known.fields if known else {}), **_plain(write.path, write.fields)}
        if known is not None and fields == known.fields:
            return known
        return Stored(write.path, fields, self._versions)


def _matches(fields: Mapping[str, Any], field: str, operator: str, value: Any) -> bool:
    if field not in fields:
        return False
    match operator:
        case "==":
            return bool(fields[field] == value)
        case "in":
            return fields[field] in value
        case "array_contains":
            return isinstance(fields[field], list) and value in fields[field]
    raise NotImplementedError(f"operator {operator}")


def _check_path(path: str) -> None:
    """Raises ValueError for a path that the client refuses, Unreadable for one that the service does."""
    segments = path.split("/")
    if len(segments) % 2:
        raise ValueError(f"{path!r}: a document has an even number of path segments")
    for segment in segments:
        if segment in ("", ".", "..") or _RESERVED.fullmatch(segment):
            raise Unreadable(f"INVALID_ARGUMENT: {path!r} is no path of a document")


def _plain(path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with only what Firestore can hold. Raises Unstorable when it is too large, as the service does."""
    copied = {key: _value(value) for key, value in fields.items()}
    size = _size(copied)
    if size > LARGEST_DOCUMENT:
        raise Unstorable(f"INVALID_ARGUMENT: {path} would have {size} bytes")
    return copied


def _value(value: Any) -> Any:
    if type(value) in (str, int, float, bool, datetime, bytes, type(None)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _value(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    raise TypeError(f"Firestore holds no {type(value).__name__}")


def _size(value: Any) -> int:
    match value:
        case str():
            return len(value.encode()) + 1
        case dict():
            return sum(_size(key) + _size(one) for key, one in value.items())
        case list():
            return sum(_size(one) for one in value)
    return 8
