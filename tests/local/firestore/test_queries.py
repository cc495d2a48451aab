from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from google.cloud import firestore
from google.cloud.firestore import FieldFilter, Or
from tests.local.firestore.protobuf import document

from tpu_recovery.local.firestore.database import Database
from tpu_recovery.local.firestore.queries import Query, parse_query, run_query
from tpu_recovery.local.rpc import Refusal

Parsed = Callable[[Any], Query]


def order_of(query: Query) -> list[str]:
    return [("-" if entry.descending else "") + ".".join(entry.field) for entry in query.order]


def test_the_order_is_completed_by_inequalities_and_the_name(builder: firestore.Client, parsed: Parsed) -> None:
    jobs = builder.collection("jobs")
    two = jobs.where(filter=FieldFilter("z", ">", 1)).where(filter=FieldFilter("a", "<", 1))
    assert order_of(parsed(jobs.limit(1))) == ["__name__"]
    assert order_of(parsed(two)) == ["a", "z", "__name__"]
    assert order_of(parsed(two.order_by("m", direction="DESCENDING"))) == ["-m", "-a", "-z", "-__name__"]
    named = two.order_by("z").order_by("a").order_by("__name__", direction="DESCENDING")
    assert order_of(parsed(named)) == ["z", "a", "-__name__"]
    with pytest.raises(Refusal, match="more fields after the key"):
        parsed(two.order_by("z").order_by("__name__"))


def test_reading_by_descending_name_alone_is_refused(builder: firestore.Client, parsed: Parsed) -> None:
    by_name = builder.collection("jobs").order_by("__name__", direction="DESCENDING")
    with pytest.raises(Refusal, match="descending key scans"):
        parsed(by_name)
    assert order_of(parsed(by_name.where(filter=FieldFilter("a", "==", 1)))) == ["-__name__"]


def large_database() -> tuple[Database, list[Any]]:
    """Enough documents for indexes to be used, with a few that have other types or lack fields."""
    chance = random.Random(7)
    documents = [
        document(
            f"jobs/{number:03}",
            n=chance.choice([None, "x", number % 10, float(number % 7), float("nan")]),
            tags=[chance.choice("abc"), chance.choice("abc")],
        )
        for number in range(300)
    ]
    documents += [document(f"jobs/{number:03}/jobs/{number:03}", n=number) for number in range(50)]
    documents += [document("jobs/absent", other=1), document("jobs/scalar", tags="a")]
    database = Database()
    database.put_all((entry.name, entry) for entry in documents)
    return database, documents


FILTERS = {
    "equality": FieldFilter("n", "==", 3),
    "null": FieldFilter("n", "==", None),
    "range": FieldFilter("n", ">=", 4),
    "texts": FieldFilter("n", "<", "y"),
    "element": FieldFilter("tags", "array_contains", "a"),
    "elements": FieldFilter("tags", "array_contains_any", ["a", "b"]),
    "list": FieldFilter("n", "in", [1, 2, "x"]),
    "either": Or([FieldFilter("n", "==", 3), FieldFilter("tags", "array_contains", "c")]),
    "unequal": FieldFilter("n", "!=", 3),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("group", [False, True])
def test_an_index_finds_what_reading_everything_finds(
    builder: firestore.Client, parsed: Parsed, name: str, group: bool
) -> None:
    database, documents = large_database()
    source = builder.collection_group("jobs") if group else builder.collection("jobs")
    query = parsed(source.where(filter=FILTERS[name]))

    def expected() -> set[str]:
        candidates = [entry for entry in documents if query.covers(entry.name)]
        return {
            entry.name for entry in candidates if any(all(c.holds(entry) for c in part) for part in query.disjuncts)
        }

    assert {found.name for found in run_query(database, query)} == expected() != set()

    # The indexes now exist; they follow changes, removals and additions.
    for number in range(0, 300, 3):
        documents[number] = document(f"jobs/{number:03}", n=3 if number % 2 else "x", tags=["a"])
        database.put_all([(documents[number].name, documents[number])])
    for _ in range(60):
        database.put_all([(documents.pop(1).name, None)])
    documents.append(document("jobs/new", n=5, tags=["c", "c"]))
    database.put_all([(documents[-1].name, documents[-1])])
    assert {found.name for found in run_query(database, query)} == expected() != set()


def test_a_query_below_a_document_sees_only_what_is_there(builder: firestore.Client) -> None:
    database, _ = large_database()
    nested = builder.collection("jobs/007/jobs")
    query = parse_query(nested._parent_info()[0], nested.limit(9)._to_protobuf()._pb)
    assert [found.name.rpartition("/")[2] for found in run_query(database, query)] == ["007"]
