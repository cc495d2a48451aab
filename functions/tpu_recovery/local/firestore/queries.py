"""A query as Firestore understands it: validated, its implicit order made explicit, and run over a database."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tpu_recovery.local.firestore.conditions import Disjunct, disjuncts_of
from tpu_recovery.local.firestore.database import CollectionGroup, Database
from tpu_recovery.local.firestore.messages import Message, StructuredQuery
from tpu_recovery.local.firestore.paths import NAME, FieldPath, check_parent, collection_of, parse_field_path
from tpu_recovery.local.firestore.refusals import failed_precondition, invalid, not_served
from tpu_recovery.local.firestore.values import Key, order_key, project, value_at

_WORTH_AN_INDEX = 100  # documents; fewer are compared faster than an index is looked up and maintained


@dataclass(frozen=True)
class Order:
    """One field to sort by."""

    field: FieldPath
    descending: bool


@dataclass(frozen=True)
class Cursor:
    """A place in the order: the keys of its first fields; ``before`` or after the documents that have exactly these."""

    keys: tuple[Key, ...]
    before: bool


@dataclass(frozen=True)
class Query:
    """What to find and how to give it back. ``order`` is complete: it always ends with the document's name."""

    parent: str
    collection_id: str
    all_descendants: bool
    disjuncts: tuple[Disjunct, ...]
    order: tuple[Order, ...]
    start: Cursor | None
    end: Cursor | None
    offset: int
    limit: int | None
    fields: tuple[FieldPath, ...]

    @property
    def collection(self) -> str:
        """The collection's full path (of a query that is not over a collection group)."""
        return f"{self.parent}/{self.collection_id}"

    def covers(self, name: str) -> bool:
        """Whether the document ``name`` is in the collection or collection group."""
        return name.startswith(f"{self.parent}/") if self.all_descendants else collection_of(name) == self.collection


def parse_query(parent: str, structured: Message) -> Query:
    """Read a StructuredQuery below ``parent``.

    Raises Refusal: INVALID_ARGUMENT for what Firestore refuses, UNIMPLEMENTED for what only this server does not serve.
    """
    check_parent(parent)
    if structured.HasField("find_nearest"):
        raise not_served("vector search")
    if len(structured.from_) != 1 or not structured.from_[0].collection_id:
        raise not_served("a query over other than one collection or collection group")
    if structured.offset < 0:
        raise invalid("offset is negative")
    if structured.limit.value < 0:
        raise invalid("limit is negative")
    disjuncts = disjuncts_of(structured.where)
    order = _complete_order(structured.order_by, disjuncts)
    return Query(
        parent=parent,
        collection_id=structured.from_[0].collection_id,
        all_descendants=structured.from_[0].all_descendants,
        disjuncts=disjuncts,
        order=order,
        start=_cursor(structured, "start_at", len(order)),
        end=_cursor(structured, "end_at", len(order)),
        offset=structured.offset,
        limit=structured.limit.value if structured.HasField("limit") else None,
        fields=tuple(parse_field_path(field.field_path) for field in structured.select.fields),
    )


def _complete_order(order_by: Any, disjuncts: tuple[Disjunct, ...]) -> tuple[Order, ...]:
    """The given order, then the fields of inequalities that it lacks, by name, then the document's name."""
    order = [
        Order(parse_field_path(entry.field.field_path), entry.direction == StructuredQuery.DESCENDING)
        for entry in order_by
    ]
    named = [entry.field for entry in order]
    for field in named:
        if named.count(field) > 1:
            raise invalid(f"order by clause cannot contain duplicate fields {'.'.join(field)}")
    last_descends = bool(order) and order[-1].descending
    inequalities = {part.field for disjunct in disjuncts for part in disjunct if not part.is_exact}
    order += [Order(field, last_descends) for field in sorted(inequalities - {NAME, *named})]
    if NAME in [entry.field for entry in order[:-1]]:
        raise invalid("order by clause cannot contain more fields after the key")
    if NAME not in named:
        order.append(Order(NAME, last_descends))
    if order[0] == Order(NAME, descending=True) and not any(disjuncts):
        raise failed_precondition("Firestore does not support descending key scans")
    return tuple(order)


def _cursor(structured: Message, field: str, longest: int) -> Cursor | None:
    if not structured.HasField(field):
        return None
    cursor = getattr(structured, field)
    if len(cursor.values) > longest:
        raise invalid("Cursor has too many values: it may have one for each field of the order.")
    return Cursor(tuple(order_key(value) for value in cursor.values), cursor.before)


def run_query(database: Database, query: Query) -> list[Message]:
    """The documents that ``query`` finds, in its order, cut to its cursors, offset, limit and fields."""
    rows = [(keys, document) for document in _matching(database, query) if (keys := _order_keys(document, query.order))]
    for position in reversed(range(len(query.order))):
        rows.sort(key=lambda row: row[0][position], reverse=query.order[position].descending)
    found = [document for keys, document in rows if _within_cursors(keys, query)][query.offset :]
    if query.limit is not None:
        found = found[: query.limit]
    return [project(document, query.fields) for document in found] if query.fields else found


def _matching(database: Database, query: Query) -> list[Message]:
    group = database.group(query.collection_id)
    names = {name for disjunct in query.disjuncts for name in _candidates(group, query, disjunct)}
    return [
        document
        for document in (group.documents[name] for name in names if query.covers(name))
        if any(all(condition.holds(document) for condition in disjunct) for disjunct in query.disjuncts)
    ]


def _candidates(group: CollectionGroup, query: Query, disjunct: Disjunct) -> Collection[str]:
    """The smallest set of names at hand that has all that can match."""
    everything = group.documents if query.all_descendants else group.names_in(query.collection)
    if len(everything) < _WORTH_AN_INDEX:
        return everything
    looked_up = [names for condition in disjunct if (names := group.lookup(condition)) is not None]
    return min([everything, *looked_up], key=len)


def _order_keys(document: Message, order: tuple[Order, ...]) -> tuple[Key, ...] | None:
    """The keys to sort by; None when the document lacks one of the fields: an ordered query leaves it out."""
    values = [value_at(document, entry.field) for entry in order]
    return None if None in values else tuple(order_key(value) for value in values)


def _within_cursors(keys: tuple[Key, ...], query: Query) -> bool:
    if query.start is not None:
        side = _side(keys, query.start, query.order)
        if side < 0 or (side == 0 and not query.start.before):
            return False
    if query.end is not None:
        side = _side(keys, query.end, query.order)
        if side > 0 or (side == 0 and query.end.before):
            return False
    return True


def _side(keys: tuple[Key, ...], cursor: Cursor, order: tuple[Order, ...]) -> int:
    """-1 when ``keys`` come before the cursor's keys in the query's order, 1 when after them, 0 when they are equal."""
    for key, other, entry in zip(keys, cursor.keys, order, strict=False):
        if key != other:
            return 1 if (key > other) != entry.descending else -1
    return 0
