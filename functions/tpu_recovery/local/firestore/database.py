"""Documents in memory, kept by collection id, with an index for each field that a large collection is queried by."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from tpu_recovery.local.firestore.conditions import Bound, Condition, Operator
from tpu_recovery.local.firestore.messages import Message
from tpu_recovery.local.firestore.paths import FieldPath, collection_id_of, collection_of
from tpu_recovery.local.firestore.values import Key, order_key, value_at


class Versions:
    """Commit times in microseconds since 1970: the clock's, but each one later than the one before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """The time of a new commit."""
        with self._lock:
            self._last = max(int(self._clock() * 1_000_000), self._last + 1)
            return self._last

    def now(self) -> int:
        """The time of a read: not before any commit it can see."""
        with self._lock:
            return max(int(self._clock() * 1_000_000), self._last)


class FieldIndex:
    """The names of documents by the key of one field, or by the keys of the elements of that field's array."""

    def __init__(self, field: FieldPath, *, elements: bool) -> None:
        self._field = field
        self._elements = elements
        self._names: dict[Key, set[str]] = {}
        self._sorted_keys: list[Key] | None = None  # kept only once a range was asked for

    def replace(self, name: str, old: Message | None, new: Message | None) -> None:
        """Follow a change of the document ``name``; None means there is none."""
        old_keys, new_keys = self._keys(old), self._keys(new)
        for key in old_keys - new_keys:
            names = self._names[key]
            names.discard(name)
            if not names:
                del self._names[key]
                if self._sorted_keys is not None:
                    del self._sorted_keys[bisect_left(self._sorted_keys, key)]
        for key in new_keys - old_keys:
            if key not in self._names:
                self._names[key] = set()
                if self._sorted_keys is not None:
                    insort(self._sorted_keys, key)
            self._names[key].add(name)

    def equal(self, key: Key) -> Collection[str]:
        """Names of the documents with exactly this key."""
        return self._names.get(key, frozenset())

    def between(self, start: Bound, end: Bound) -> Collection[str]:
        """Names of the documents with a key between the two bounds."""
        if self._sorted_keys is None:
            self._sorted_keys = sorted(self._names)
        first, last = (
            (bisect_right if bound.after else bisect_left)(self._sorted_keys, bound.key) for bound in (start, end)
        )
        return list(itertools.chain.from_iterable(self._names[key] for key in self._sorted_keys[first:last]))

    def _keys(self, document: Message | None) -> set[Key]:
        value = None if document is None else value_at(document, self._field)
        if value is None:
            return set()
        return {order_key(item) for item in value.array_value.values} if self._elements else {order_key(value)}


class CollectionGroup:
    """All documents in collections of one id, wherever these are."""

    def __init__(self) -> None:
        self.documents: dict[str, Message] = {}
        self._names_in: defaultdict[str, set[str]] = defaultdict(set)
        self._indexes: dict[tuple[FieldPath, bool], FieldIndex] = {}

    def names_in(self, collection: str) -> Collection[str]:
        """Names of the documents in the collection of this full path."""
        return self._names_in.get(collection, frozenset())

    def put(self, name: str, document: Message | None) -> None:
        """Store ``document``, or remove it when None."""
        old = self.documents.get(name)
        for index in self._indexes.values():
            index.replace(name, old, document)
        collection = collection_of(name)
        if document is not None:
            self.documents[name] = document
            self._names_in[collection].add(name)
        elif old is not None:
            del self.documents[name]
            self._names_in[collection].discard(name)
            if not self._names_in[collection]:
                del self._names_in[collection]

    def lookup(self, condition: Condition) -> Collection[str] | None:
        """Names of the documents that meet ``condition``, from an index; None when no index can tell."""
        if condition.is_exact:
            return self._index(condition).equal(condition.operand)
        interval = condition.interval()
        return None if interval is None else self._index(condition).between(*interval)

    def _index(self, condition: Condition) -> FieldIndex:
        elements = condition.operator is Operator.CONTAINS
        index = self._indexes.get((condition.field, elements))
        if index is None:
            index = self._indexes[condition.field, elements] = FieldIndex(condition.field, elements=elements)
            for name, document in self.documents.items():
                index.replace(name, None, document)
        return index


class Database:
    """The documents of one database. Stored messages are never changed in place, so readers may keep them.

    Whoever reads or writes holds ``lock`` meanwhile.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._groups: defaultdict[str, CollectionGroup] = defaultdict(CollectionGroup)

    def get(self, name: str) -> Message | None:
        """The document of this full name, or None."""
        return self.group(collection_id_of(name)).documents.get(name)

    def put_all(self, changes: Iterable[tuple[str, Message | None]]) -> None:
        """Store each document under its name; None removes it."""
        for name, document in changes:
            self.group(collection_id_of(name)).put(name, document)

    def group(self, collection_id: str) -> CollectionGroup:
        """The documents in collections with this id."""
        return self._groups[collection_id]
