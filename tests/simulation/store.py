"""The service's documents in memory, with Firestore's rules and quick enough for weeks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpu_recovery.errors import AlreadyExists, Conflict
from tpu_recovery.recovery.ports import Change, Create, Filter, Replace, Stored, Write

Watcher = Callable[[str, Mapping[str, Any] | None, Mapping[str, Any]], None]
"""Sees each document that is written: its path, what it held before, what it holds now."""


class SimulatedStore:
    """A Store without calls in between: `tests.simulation.wires` puts the world between the service and this.

    Documents are never changed in place, so they are handed out as they are.
    """

    def __init__(self) -> None:
        self.collections: dict[str, dict[str, Stored]] = {}
        self.watchers: list[Watcher] = []
        self._versions = 0
        self._waiting: dict[str, Stored] = {}

    def read(self, path: str) -> Stored | None:
        """One document."""
        return self.collections.get(path.rpartition("/")[0], {}).get(path)

    def get(self, *paths: str) -> Sequence[Stored | None]:
        """See Store.get."""
        return [self.read(path) for path in paths]

    def find(self, collection: str, *filters: Filter, limit: int = 0) -> Sequence[Stored]:
        """See Store.find. Waiting inbox entries are kept apart, as an index would."""
        waits = collection == "inbox" and ("status", "==", "waiting") in filters
        among = self._waiting if waits else self.collections.get(collection, {})
        found = [one for one in among.values() if all(_matches(one.fields, *condition) for condition in filters)]
        return sorted(found, key=lambda one: one.path)[: limit or None]

    def commit(self, writes: Sequence[Write]) -> Sequence[object]:
        """See Store.commit."""
        self._versions += 1
        written = [self._written(write) for write in writes]
        self._put(*written)
        return [stored.version for stored in written]

    def put(self, path: str, fields: Mapping[str, Any]) -> None:
        """A person writes a document."""
        self._versions += 1
        self._put(Stored(path, dict(fields), self._versions))

    def _written(self, write: Write) -> Stored:
        known = self.read(write.path)
        match write:
            case Create() if known is not None:
                raise AlreadyExists(write.path)
            case Replace() | Change() if known is None:
                raise Conflict(f"{write.path} does not exist")
            case Replace(version=version) if known is not None and known.version != version:
                raise Conflict(f"{write.path} has changed")
        fields = {**(known.fields if known else {}), **write.fields}
        if known is not None and fields == known.fields:
            return known
        return Stored(write.path, fields, self._versions)

    def _put(self, *written: Stored) -> None:
        """All documents first; those who watch see them as they are together."""
        before = [self.read(stored.path) for stored in written]
        for stored in written:
            self.collections.setdefault(stored.path.rpartition("/")[0], {})[stored.path] = stored
            if stored.path.startswith("inbox/"):
                self._waiting.pop(stored.path, None)
                if stored.fields.get("status") == "waiting":
                    self._waiting[stored.path] = stored
        for known, stored in zip(before, written, strict=True):
            for watcher in self.watchers:
                watcher(stored.path, known.fields if known else None, stored.fields)


def _matches(fields: Mapping[str, Any], field: str, operator: str, value: Any) -> bool:
    if field not in fields:
        return False
    match operator:
        case "==":
            return bool(fields[field] == value)
        case "in":
            return fields[field] in value
        case "array_contains":
            return value in fields[field]
    raise NotImplementedError(f"operator {operator}")
