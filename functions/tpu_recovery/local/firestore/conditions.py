"""Filters of a query, as what they mean: alternatives (disjuncts) of conditions that must all hold."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from google.cloud.firestore_v1.types import StructuredQuery as Named

from tpu_recovery.local.firestore.messages import Message
from tpu_recovery.local.firestore.paths import NAME, FieldPath, parse_field_path
from tpu_recovery.local.firestore.refusals import invalid, not_served
from tpu_recovery.local.firestore.values import ARRAY_RANK, NAN_KEY, NULL_KEY, Key, order_key, value_at

MOST_DISJUNCTS = 30
_MOST_VALUES = {"IN": 30, "ARRAY_CONTAINS_ANY": 30, "NOT_IN": 10}
_EXCLUDING = ("NOT_EQUAL", "NOT_IN", "IS_NOT_NAN", "IS_NOT_NULL")


class Operator(Enum):
    """How a condition compares; every operator of the API is one of these, or several of them as alternatives."""

    EQUAL = auto()
    CONTAINS = auto()
    LESS = auto()
    AT_MOST = auto()
    MORE = auto()
    AT_LEAST = auto()
    UNEQUAL = auto()
    NOT_IN = auto()


_SIMPLE = {
    "EQUAL": Operator.EQUAL,
    "ARRAY_CONTAINS": Operator.CONTAINS,
    "LESS_THAN": Operator.LESS,
    "LESS_THAN_OR_EQUAL": Operator.AT_MOST,
    "GREATER_THAN": Operator.MORE,
    "GREATER_THAN_OR_EQUAL": Operator.AT_LEAST,
    "NOT_EQUAL": Operator.UNEQUAL,
}
_ALTERNATIVES = {"IN": Operator.EQUAL, "ARRAY_CONTAINS_ANY": Operator.CONTAINS}
_UNARY = {
    "IS_NULL": (Operator.EQUAL, NULL_KEY),
    "IS_NAN": (Operator.EQUAL, NAN_KEY),
    "IS_NOT_NULL": (Operator.UNEQUAL, NULL_KEY),
    "IS_NOT_NAN": (Operator.UNEQUAL, NAN_KEY),
}


class Bound(NamedTuple):
    """A place between keys: just before ``key``, or just after it."""

    key: Key
    after: bool = False

    def is_before(self, key: Key) -> bool:
        """Whether ``key`` lies beyond this bound."""
        return key > self.key if self.after else key >= self.key


@dataclass(frozen=True)
class Condition:
    """One comparison of a field with an operand (for NOT_IN: with the keys of all values)."""

    field: FieldPath
    operator: Operator
    operand: Key

    @property
    def is_exact(self) -> bool:
        """Whether an index entry answers it without an order: equality, or an element of an array."""
        return self.operator in (Operator.EQUAL, Operator.CONTAINS)

    def interval(self) -> tuple[Bound, Bound] | None:
        """The keys that a range condition admits; None for other operators. Never a value of another type, nor NaN."""
        rank = self.operand[0]
        first = Bound(self.operand[:2] if rank == NAN_KEY[0] else self.operand[:1])
        last = Bound((rank + 1,))
        return {
            Operator.LESS: (first, Bound(self.operand)),
            Operator.AT_MOST: (first, Bound(self.operand, after=True)),
            Operator.MORE: (Bound(self.operand, after=True), last),
            Operator.AT_LEAST: (Bound(self.operand), last),
        }.get(self.operator)

    def holds(self, document: Message) -> bool:
        """Whether ``document`` meets it; a document without the field meets nothing."""
        value = value_at(document, self.field)
        if value is None:
            return False
        key = order_key(value)
        match self.operator:
            case Operator.EQUAL:
                return key == self.operand
            case Operator.CONTAINS:
                return key[0] == ARRAY_RANK and self.operand in key[1]
            case Operator.UNEQUAL:
                return key not in (self.operand, NULL_KEY)
            case Operator.NOT_IN:
                return NULL_KEY not in self.operand and key not in (*self.operand, NULL_KEY)
        interval = self.interval()
        return interval is not None and interval[0].is_before(key) and not interval[1].is_before(key)


Disjunct: TypeAlias = tuple[Condition, ...]


def disjuncts_of(where: Message) -> tuple[Disjunct, ...]:
    """The alternatives of a filter: a document matches when all conditions of one of them hold.

    Raises Refusal (INVALID_ARGUMENT) for combinations that Firestore refuses.
    """
    _check_combination(Counter(_operator_names(where)))
    disjuncts = tuple(_expand(where))
    for disjunct in disjuncts:
        if sum(condition.operator is Operator.CONTAINS for condition in disjunct) > 1:
            raise invalid("A maximum of 1 'ARRAY_CONTAINS' filter is allowed per disjunction.")
    return disjuncts


def _operator_names(where: Message) -> Iterator[str]:
    kind = where.WhichOneof("filter_type")
    if kind == "composite_filter":
        if where.composite_filter.op == Named.CompositeFilter.Operator.OR:
            yield "OR"
        for part in where.composite_filter.filters:
            yield from _operator_names(part)
    elif kind == "field_filter":
        yield Named.FieldFilter.Operator(where.field_filter.op).name
    elif kind == "unary_filter":
        yield Named.UnaryFilter.Operator(where.unary_filter.op).name


def _check_combination(used: Counter[str]) -> None:
    if sum(used[name] for name in _EXCLUDING) > 1:
        raise invalid("Only a single 'NOT_EQUAL', 'NOT_IN', 'IS_NOT_NAN', or 'IS_NOT_NULL' filter allowed per query.")
    if used["NOT_IN"] and (used["IN"] or used["ARRAY_CONTAINS_ANY"] or used["OR"]):
        raise invalid("'NOT_IN' cannot be used in the same query with 'IN', 'ARRAY_CONTAINS_ANY' or 'OR'.")


def _expand(where: Message) -> list[Disjunct]:
    match where.WhichOneof("filter_type"):
        case None:
            return [()]
        case "composite_filter":
            return _expand_composite(where.composite_filter)
        case "unary_filter":
            name = Named.UnaryFilter.Operator(where.unary_filter.op).name
            if name not in _UNARY:
                raise not_served(f"the unary filter {name}")
            return [(Condition(parse_field_path(where.unary_filter.field.field_path), *_UNARY[name]),)]
        case _:
            return [(condition,) for condition in _alternatives(where.field_filter)]


def _expand_composite(composite: Message) -> list[Disjunct]:
    parts = [_expand(part) for part in composite.filters]
    if composite.op == Named.CompositeFilter.Operator.OR:
        disjuncts = [disjunct for part in parts for disjunct in part]
    else:
        disjuncts = [()]
        for part in parts:
            disjuncts = [(*left, *right) for left, right in itertools.product(disjuncts, part)]
            _check_count(disjuncts)
    _check_count(disjuncts)
    return disjuncts


def _check_count(disjuncts: list[Disjunct]) -> None:
    if len(disjuncts) > MOST_DISJUNCTS:
        raise invalid(
            f"Too many disjunctions after normalization. Result had {len(disjuncts)} disjunctions "
            f"which is more than the maximum of {MOST_DISJUNCTS}"
        )


def _alternatives(field_filter: Message) -> list[Condition]:
    name = Named.FieldFilter.Operator(field_filter.op).name
    field = parse_field_path(field_filter.field.field_path)
    operand = field_filter.value
    if name in _MOST_VALUES:
        values = list(operand.array_value.values)
        if not values:
            raise invalid(f"'{name}' requires an non-empty ArrayValue.")
        if len(values) > _MOST_VALUES[name]:
            raise invalid(f"'{name}' supports up to {_MOST_VALUES[name]} comparison values.")
        keys = tuple(_operand_key(field, value) for value in values)
        if name == "NOT_IN":
            return [Condition(field, Operator.NOT_IN, keys)]
        # Null and NaN are never "in" a list: only the unary filters find them.
        return [Condition(field, _ALTERNATIVES[name], key) for key in keys if key not in (NULL_KEY, NAN_KEY)]
    if name not in _SIMPLE:
        raise not_served(f"the field filter {name}")
    return [Condition(field, _SIMPLE[name], _operand_key(field, operand))]


def _operand_key(field: FieldPath, value: Message) -> Key:
    if field == NAME and value.WhichOneof("value_type") != "reference_value":
        raise invalid("__key__ filter value must be a Key")
    return order_key(value)
