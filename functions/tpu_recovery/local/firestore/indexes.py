"""Which indexes exist, and whether a query can be answered from them, as real Firestore (Standard edition) decides it.

Every field has ascending, descending and array-contains indexes of its own, for queries of one collection, unless it is
exempted. Everything else must be declared. Indexes whose fields end with the order that the query wants can
be merged to answer its equalities: https://firebase.google.com/docs/firestore/query-data/index-overview
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tpu_recovery.local.firestore.conditions import Disjunct, Operator
from tpu_recovery.local.firestore.paths import NAME, FieldPath, parse_field_path
from tpu_recovery.local.firestore.queries import Query
from tpu_recovery.local.firestore.refusals import failed_precondition

Mode: TypeAlias = Literal["ASC", "DESC", "CONTAINS"]
Scope: TypeAlias = Literal["COLLECTION", "COLLECTION_GROUP"]
_Entry: TypeAlias = tuple[FieldPath, Mode]


@dataclass(frozen=True)
class CompositeIndex:
    """A declared index: of several fields, or of one field for queries over a collection group."""

    collection: str
    fields: tuple[tuple[str, Mode], ...]
    scope: Scope = "COLLECTION"


@dataclass(frozen=True)
class Indexes:
    """What is declared: composite indexes, and (collection id, field) pairs exempted from the automatic ones."""

    composite: tuple[CompositeIndex, ...] = ()
    exempted: frozenset[tuple[str, str]] = frozenset()

    def check(self, query: Query) -> None:
        """Refuse (FAILED_PRECONDITION, naming the index that is missing) what these indexes cannot answer."""
        for disjunct in query.disjuncts:
            missing = self._missing(query, disjunct)
            if missing:
                scope: Scope = "COLLECTION_GROUP" if query.all_descendants else "COLLECTION"
                fields = ", ".join(f"{'.'.join(field)} {mode}" for field, mode in missing)
                raise failed_precondition(
                    "The query requires an index that is not declared: "
                    f"collection {query.collection_id}, scope {scope}, fields {fields}"
                )

    def _missing(self, query: Query, disjunct: Disjunct) -> list[_Entry]:
        exact = {_exact_entry(part.field, part.operator) for part in disjunct if part.is_exact and part.field != NAME}
        equal = {field for field, mode in exact if mode == "ASC"}
        order = [_ordered_entry(entry.field, entry.descending) for entry in query.order if entry.field not in equal]
        if not exact and order == [(NAME, "ASC")]:
            return []  # every collection can be read in the order of its names
        usable = [prefix for index in self._available(query, disjunct) if (prefix := _prefix(index, order)) is not None]
        usable = [prefix for prefix in usable if prefix <= exact]
        covered: set[_Entry] = set().union(*usable)
        if usable and covered == exact:
            return []
        if order == [(NAME, "ASC")]:
            return sorted(exact - covered)  # each of them lacks an index of its own
        return sorted(exact) + _without_implied_name(order)

    def _available(self, query: Query, disjunct: Disjunct) -> Iterator[list[_Entry]]:
        """The fields of every index of the queried collection, each list ending with the document's name."""
        scope = "COLLECTION_GROUP" if query.all_descendants else "COLLECTION"
        for index in self.composite:
            if index.collection == query.collection_id and index.scope == scope:
                yield _with_name([(parse_field_path(field), mode) for field, mode in index.fields])
        if scope == "COLLECTION":
            used = {part.field for part in disjunct} | {entry.field for entry in query.order}
            modes: tuple[Mode, ...] = ("ASC", "DESC", "CONTAINS")
            for field in used - {NAME}:
                if not self._is_exempted(query.collection_id, field):
                    yield from (_with_name([(field, mode)]) for mode in modes)

    def _is_exempted(self, collection: str, field: FieldPath) -> bool:
        """Exempting a map exempts what is inside it."""
        return any((collection, ".".join(field[:length])) in self.exempted for length in range(1, len(field) + 1))


def _exact_entry(field: FieldPath, operator: Operator) -> _Entry:
    return field, "CONTAINS" if operator is Operator.CONTAINS else "ASC"


def _ordered_entry(field: FieldPath, descending: bool) -> _Entry:
    return field, "DESC" if descending else "ASC"


def _with_name(fields: list[_Entry]) -> list[_Entry]:
    """An index ends with the document's name, in the direction of its last field."""
    if fields[-1][0] == NAME:
        return fields
    return [*fields, (NAME, "DESC" if fields[-1][1] == "DESC" else "ASC")]


def _without_implied_name(order: list[_Entry]) -> list[_Entry]:
    shorter = order[:-1]
    return shorter if shorter and _with_name(shorter) == order else order


def _prefix(index: list[_Entry], order: list[_Entry]) -> set[_Entry] | None:
    """What an index can find exactly while it gives the wanted order; None when it cannot give that order.

    An equality can use a field of an index in either direction.
    """
    split = len(index) - len(order)
    if split < 0 or index[split:] != order:
        return None
    return {(field, mode if mode == "CONTAINS" else "ASC") for field, mode in index[:split]}
