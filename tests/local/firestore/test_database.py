from __future__ import annotations

from tests.local.firestore.protobuf import ROOT, document, value

from tpu_recovery.local.firestore.conditions import Bound
from tpu_recovery.local.firestore.database import Database, FieldIndex, Versions
from tpu_recovery.local.firestore.values import order_key


def test_commit_times_grow_even_when_the_clock_stands_or_goes_back() -> None:
    times = iter([100.0, 100.0, 99.0, 100.5])
    versions = Versions(lambda: next(times))
    assert [versions.next() for _ in range(4)] == [100_000_000, 100_000_001, 100_000_002, 100_500_000]


def test_a_read_is_never_earlier_than_the_last_commit() -> None:
    times = iter([100.0, 99.0, 101.0])
    versions = Versions(lambda: next(times))
    commit = versions.next()
    assert versions.now() == commit
    assert versions.now() == 101_000_000


def test_documents_are_kept_by_name_and_collection() -> None:
    database = Database()
    first, nested = document("jobs/a", n=1), document("jobs/a/jobs/b", n=2)
    database.put_all([(first.name, first), (nested.name, nested)])
    assert database.get(first.name) == first
    assert database.group("jobs").names_in(f"{ROOT}/jobs") == {first.name}
    assert database.group("jobs").names_in(f"{ROOT}/jobs/a/jobs") == {nested.name}
    database.put_all([(first.name, None), (f"{ROOT}/jobs/never", None)])
    assert database.get(first.name) is None
    assert database.get(nested.name) == nested
    assert not database.group("jobs").names_in(f"{ROOT}/jobs")


def test_an_index_of_a_field_follows_changes() -> None:
    def between(low: int, high: int) -> list[str]:
        return list(index.between(Bound(order_key(value(low))), Bound(order_key(value(high)), after=True)))

    index = FieldIndex(("n",), elements=False)
    documents = {name: document(f"jobs/{name}", n=number) for name, number in (("a", 1), ("b", 3), ("c", 3))}
    for name, entry in documents.items():
        index.replace(name, None, entry)
    assert between(1, 2) == ["a"]
    index.replace("a", documents["a"], document("jobs/a", n=2))
    index.replace("b", documents["b"], None)
    index.replace("d", None, document("jobs/d", other=1))
    assert between(0, 9) == ["a", "c"]
    assert between(3, 3) == ["c"]
    assert not index.equal(order_key(value(1)))
    assert set(index.equal(order_key(value(2.0)))) == {"a"}


def test_an_index_of_an_array_holds_each_element_once() -> None:
    index = FieldIndex(("tags",), elements=True)
    old, new = document("jobs/a", tags=["x", "y", "x"]), document("jobs/a", tags=["y"])
    index.replace("a", None, old)
    index.replace("b", None, document("jobs/b", tags="x"))
    assert set(index.equal(order_key(value("x")))) == {"a"}
    index.replace("a", old, new)
    assert not index.equal(order_key(value("x")))
    assert set(index.equal(order_key(value("y")))) == {"a"}
