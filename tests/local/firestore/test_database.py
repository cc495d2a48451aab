from __future__ import annotations

from tests.local.firestore.protobuf import ROOT, document

from tpu_recovery.local.firestore.database import Database, Versions


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
