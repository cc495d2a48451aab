from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.cloud import firestore
from google.cloud.firestore import FieldFilter, Or

from tpu_recovery.local.firestore import CompositeIndex, Indexes
from tpu_recovery.local.firestore.queries import Query
from tpu_recovery.local.rpc import Refusal

DECLARED = Indexes(
    composite=(
        CompositeIndex("jobs", (("phase", "ASC"), ("wake_at", "ASC"))),
        CompositeIndex("jobs", (("zone", "ASC"), ("wake_at", "ASC"))),
        CompositeIndex("jobs", (("phase", "ASC"), ("since", "DESC"))),
        CompositeIndex("jobs", (("resources", "CONTAINS"), ("wake_at", "ASC"))),
        CompositeIndex("jobs", (("a", "ASC"), ("b", "DESC"))),
        CompositeIndex("incidents", (("outcome", "ASC"),), scope="COLLECTION_GROUP"),
        CompositeIndex("incidents", (("tags", "CONTAINS"),), scope="COLLECTION_GROUP"),
        CompositeIndex("incidents", (("cause", "ASC"), ("occurred", "DESC")), scope="COLLECTION_GROUP"),
    ),
    exempted=frozenset({("inbox", "raw"), ("inbox", "meta"), ("jobs", "since")}),
)

Build = Callable[[Any], Any]


def where(*filters: tuple[str, str, Any]) -> Build:
    def build(query: Any) -> Any:
        for field, operator, operand in filters:
            query = query.where(filter=FieldFilter(field, operator, operand))
        return query

    return build


SERVED: list[tuple[str, Build]] = [
    ("jobs", lambda jobs: jobs.limit(1)),
    ("jobs", lambda jobs: jobs.order_by("__name__")),
    ("jobs", where(("phase", "==", "A"))),
    ("jobs", where(("phase", "==", "A"), ("zone", "==", "z"), ("other", "==", None))),
    ("jobs", where(("wake_at", "<=", 1))),
    ("jobs", where(("wake_at", "!=", 1))),
    ("jobs", where(("wake_at", ">", 1), ("wake_at", "<", 5))),
    ("jobs", lambda jobs: jobs.order_by("wake_at", direction="DESCENDING")),
    ("jobs", where(("resources", "array_contains", "n"))),
    ("jobs", where(("resources", "array_contains", "n"), ("phase", "==", "A"))),
    ("jobs", where(("phase", "in", ["A", "B"]), ("zone", "==", "z"))),
    ("jobs", where(("phase", "==", "A"), ("wake_at", "<=", 1))),
    ("jobs", where(("phase", "in", ["A", "B"]), ("wake_at", "<=", 1))),
    # Two composite indexes with the same order are merged.
    ("jobs", where(("phase", "==", "A"), ("zone", "==", "z"), ("wake_at", "<=", 1))),
    ("jobs", where(("resources", "array_contains", "n"), ("wake_at", "<=", 1))),
    ("jobs", lambda jobs: where(("phase", "==", "A"))(jobs).order_by("since", direction="DESCENDING")),
    ("jobs", lambda jobs: jobs.order_by("a").order_by("b", direction="DESCENDING")),
    # Ordering by a field that has one value only costs nothing.
    ("jobs", lambda jobs: where(("phase", "==", "A"))(jobs).order_by("phase").order_by("wake_at")),
    ("jobs", lambda jobs: where(("phase", "==", "A"))(jobs).order_by("__name__")),
    ("jobs", lambda jobs: where(("phase", "==", "A"))(jobs).order_by("__name__", direction="DESCENDING")),
    ("jobs", lambda jobs: jobs.where(filter=Or([FieldFilter("phase", "==", 1), FieldFilter("zone", "==", 1)]))),
    # An exempted field still works through a declared index.
    ("inbox", where(("status", "==", "waiting"))),
    ("+incidents", lambda incidents: incidents.limit(1)),
    ("+incidents", where(("outcome", "==", None))),
    ("+incidents", where(("outcome", "in", ["a", "b"]))),
    ("+incidents", where(("tags", "array_contains", "x"), ("outcome", "==", 1))),
    ("+incidents", lambda group: where(("cause", "==", "LOST"))(group).order_by("occurred", direction="DESCENDING")),
    ("incidents", where(("anything", ">", 1))),
]

REFUSED: list[tuple[str, Build, str]] = [
    (
        "jobs",
        where(("phase", "==", "A"), ("other", "<", 1)),
        "collection jobs, scope COLLECTION, fields phase ASC, other ASC",
    ),
    ("jobs", where(("phase", "==", "A"), ("wake_at", "<", 1), ("n", ">", 1)), "fields phase ASC, n ASC, wake_at ASC"),
    ("jobs", where(("a", "<", 1), ("b", "<", 1)), "fields a ASC, b ASC"),
    (
        "jobs",
        lambda jobs: where(("phase", "==", "A"))(jobs).order_by("wake_at", direction="DESCENDING"),
        "fields phase ASC, wake_at DESC",
    ),
    ("jobs", lambda jobs: jobs.order_by("a").order_by("b"), "fields a ASC, b ASC"),
    (
        "jobs",
        lambda jobs: jobs.order_by("a").order_by("b", direction="DESCENDING").order_by("__name__"),
        "fields a ASC, b DESC, __name__ ASC",
    ),
    (
        "jobs",
        lambda jobs: jobs.where(filter=Or([FieldFilter("phase", "==", 1), FieldFilter("n", "==", 1)])).order_by(
            "wake_at"
        ),
        "fields n ASC, wake_at ASC",
    ),
    ("jobs", where(("resources", "array_contains", "n"), ("since", ">", 1)), "fields resources CONTAINS, since ASC"),
    ("jobs", lambda jobs: jobs.order_by("since"), "fields since ASC"),
    ("inbox", where(("raw", "==", "x")), "collection inbox, scope COLLECTION, fields raw ASC"),
    ("inbox", where(("raw", "==", "x"), ("status", "==", "y")), "fields raw ASC"),
    ("inbox", where(("raw", "array_contains", "x")), "fields raw CONTAINS"),
    ("inbox", where(("meta.size", ">", 1)), "fields meta.size ASC"),
    ("+incidents", where(("cause", "==", "LOST")), "collection incidents, scope COLLECTION_GROUP, fields cause ASC"),
    ("+incidents", lambda incidents: incidents.order_by("occurred"), "fields occurred ASC"),
    ("+incidents", lambda group: group.order_by("outcome", direction="DESCENDING"), "fields outcome DESC"),
    ("+incidents", where(("outcome", "array_contains", 1)), "fields outcome CONTAINS"),
    ("+jobs", where(("phase", "==", "A")), "collection jobs, scope COLLECTION_GROUP, fields phase ASC"),
    (
        "incidents",
        where(("cause", "==", "A"), ("occurred", ">", 1)),
        "scope COLLECTION, fields cause ASC, occurred ASC",
    ),
]


def source(builder: firestore.Client, name: str) -> Any:
    return builder.collection_group(name[1:]) if name.startswith("+") else builder.collection(name)


@pytest.mark.parametrize(("name", "build"), SERVED)
def test_queries_that_the_indexes_answer(
    builder: firestore.Client, parsed: Callable[[Any], Query], name: str, build: Build
) -> None:
    DECLARED.check(parsed(build(source(builder, name))))


@pytest.mark.parametrize(("name", "build", "missing"), REFUSED)
def test_queries_that_need_another_index(
    builder: firestore.Client, parsed: Callable[[Any], Query], name: str, build: Build, missing: str
) -> None:
    with pytest.raises(Refusal) as refused:
        DECLARED.check(parsed(build(source(builder, name))))
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.message.startswith("The query requires an index")
    assert refused.value.message.endswith(missing)


def test_the_index_that_a_refusal_names_is_the_one_that_helps(
    builder: firestore.Client, parsed: Callable[[Any], Query]
) -> None:
    query = parsed(where(("phase", "==", "A"), ("other", "<", 1))(builder.collection("jobs")))
    Indexes((CompositeIndex("jobs", (("phase", "ASC"), ("other", "ASC"))),)).check(query)
    Indexes((CompositeIndex("jobs", (("phase", "DESC"), ("other", "ASC"), ("__name__", "ASC"))),)).check(query)
