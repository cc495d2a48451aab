from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.cloud import firestore
from google.cloud.firestore import And, FieldFilter, Or
from tests.local.firestore.protobuf import document

from tpu_recovery.local.firestore.conditions import Operator
from tpu_recovery.local.firestore.queries import Query
from tpu_recovery.local.rpc import Refusal

Parsed = Callable[[Any], Query]


def shape(query: Query) -> list[list[tuple[str, Operator]]]:
    return [[(".".join(part.field), part.operator) for part in disjunct] for disjunct in query.disjuncts]


def test_no_filter_is_one_alternative_that_everything_meets(builder: firestore.Client, parsed: Parsed) -> None:
    assert parsed(builder.collection("jobs").limit(1)).disjuncts == ((),)


def test_lists_and_alternatives_are_multiplied_out(builder: firestore.Client, parsed: Parsed) -> None:
    query = builder.collection("jobs").where(
        filter=And(
            [
                FieldFilter("phase", "in", ["A", "B"]),
                Or([FieldFilter("n", ">", 1), FieldFilter("list", "array_contains_any", [1, 2])]),
            ]
        )
    )
    equal, more, contains = ("phase", Operator.EQUAL), ("n", Operator.MORE), ("list", Operator.CONTAINS)
    each = [[equal, more], [equal, contains], [equal, contains]]
    assert shape(parsed(query)) == [*each, *each]


def test_a_list_with_nothing_but_null_can_match_nothing(builder: firestore.Client, parsed: Parsed) -> None:
    assert parsed(builder.collection("jobs").where(filter=FieldFilter("a", "in", [None]))).disjuncts == ()


def test_two_array_filters_may_stand_in_different_alternatives(builder: firestore.Client, parsed: Parsed) -> None:
    both: list[Any] = [FieldFilter("a", "array_contains", 1), FieldFilter("b", "array_contains", 1)]
    assert len(parsed(builder.collection("jobs").where(filter=Or(both))).disjuncts) == 2
    with pytest.raises(Refusal, match="maximum of 1 'ARRAY_CONTAINS'"):
        parsed(builder.collection("jobs").where(filter=And(both)))


def test_at_most_thirty_alternatives(builder: firestore.Client, parsed: Parsed) -> None:
    many = Or([FieldFilter("a", "==", number) for number in range(31)])
    with pytest.raises(Refusal, match="31 disjunctions which is more than the maximum of 30"):
        parsed(builder.collection("jobs").where(filter=many))


@pytest.mark.parametrize(
    ("operator", "operand", "value", "holds"),
    [
        ("==", 1, 1.0, True),
        ("==", 1, True, False),
        ("<", 5, float("nan"), False),
        ("<", 5, 4.9, True),
        ("<", 5, None, False),
        (">=", "a", "a", True),
        (">", "a", "a", False),
        (">", "a", b"z", False),
        ("<=", 5, 5, True),
        ("!=", 1, "other type", True),
        ("!=", 1, None, False),
        ("not-in", [1, 2], 3, True),
        ("not-in", [1, None], 3, False),
        ("array_contains", 1, [0, 1.0], True),
        ("array_contains", 1, 1, False),
        ("array_contains", {"a": 1}, [{"a": 1}], True),
    ],
)
def test_conditions(
    builder: firestore.Client, parsed: Parsed, *, operator: str, operand: Any, value: Any, holds: bool
) -> None:
    query = parsed(builder.collection("jobs").where(filter=FieldFilter("field", operator, operand)))
    assert query.disjuncts[0][0].holds(document("jobs/train", field=value)) is holds
    assert not query.disjuncts[0][0].holds(document("jobs/train", other=value))
