"""What the service relies on in Firestore, through the real client."""

from __future__ import annotations

import datetime
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import firestore
from google.cloud.firestore import FieldFilter, Or

pytestmark = pytest.mark.contract

NOON = datetime.datetime(2026, 12, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def ids(query: Any) -> list[str]:
    return [snapshot.id for snapshot in query.stream()]


def race(count: int, attempt: Callable[[int], object]) -> Counter[str]:
    """Run ``attempt`` in ``count`` threads that start together; how often each outcome happened."""
    outcomes: Counter[str] = Counter()
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            attempt(number)
        except exceptions.GoogleAPICallError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["done"] += 1

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


class TestOneDocument:
    def test_every_type_comes_back_as_it_was_written(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        content = {
            "none": None,
            "flag": True,
            "count": 2**53 + 1,
            "ratio": 1.5,
            "at": NOON,
            "text": "naïve ✓",
            "raw": b"\x00\xff",
            "reference": firestore_client.document("specs/train"),
            "place": firestore.GeoPoint(1.5, -2),
            "list": [1, {"k": [None]}, "x"],
            "map": {"inner": {"deep": True}, "empty": {}, "odd key.`": 1},
            "empty_list": [],
        }
        job.create(content)
        assert job.get().to_dict() == content

    def test_a_missing_document_does_not_exist(self, firestore_client: firestore.Client) -> None:
        snapshot = firestore_client.document("jobs/nobody").get()
        assert not snapshot.exists
        assert snapshot.to_dict() is None

    def test_creating_what_exists_is_refused_and_changes_nothing(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.create({"phase": "RUNNING"})
        with pytest.raises(exceptions.AlreadyExists):
            job.create({"phase": "HELD"})
        assert job.get().to_dict() == {"phase": "RUNNING"}

    def test_updating_what_is_missing_is_refused(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        with pytest.raises(exceptions.NotFound):
            job.update({"phase": "HELD"})
        assert not job.get().exists

    def test_set_replaces_and_merge_adds(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"a": 1, "m": {"x": 1}})
        job.set({"m": {"y": 2}}, merge=True)
        assert job.get().to_dict() == {"a": 1, "m": {"x": 1, "y": 2}}
        job.set({"b": 3})
        assert job.get().to_dict() == {"b": 3}

    def test_update_reaches_into_maps_and_deletes_fields(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"m": {"x": 1, "y": 2}, "gone": 1, "kept": 1})
        job.update({"m.x": 9, "m.y": firestore.DELETE_FIELD, "gone": firestore.DELETE_FIELD, "new.path": "made"})
        assert job.get().to_dict() == {"m": {"x": 9}, "kept": 1, "new": {"path": "made"}}

    def test_deleting_is_idempotent_unless_it_must_exist(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({})
        job.delete()
        job.delete()
        assert not job.get().exists
        with pytest.raises(exceptions.NotFound):
            job.delete(option=firestore_client.write_option(exists=True))

    def test_transforms_change_what_is_there(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 1, "list": [1, 2], "text": "x"})
        job.update(
            {
                "n": firestore.Increment(4),
                "text": firestore.Increment(1.5),
                "fresh": firestore.Increment(-1),
                "list": firestore.ArrayUnion([2, 3, 3, {"k": 1}]),
                "made": firestore.ArrayUnion([1]),
                "at": firestore.SERVER_TIMESTAMP,
            }
        )
        job.update({"list": firestore.ArrayRemove([1, {"k": 1}])})
        snapshot = job.get()
        assert snapshot.update_time - datetime.timedelta(seconds=1) < snapshot.get("at") <= snapshot.update_time
        content = {"n": 5, "text": 1.5, "fresh": -1, "list": [2, 3], "made": [1], "at": snapshot.get("at")}
        assert snapshot.to_dict() == content

    def test_an_increment_stops_at_the_largest_integer(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 2**63 - 2})
        job.update({"n": firestore.Increment(5)})
        assert job.get().get("n") == 2**63 - 1

    def test_get_all_tells_found_from_missing(self, firestore_client: firestore.Client) -> None:
        first, missing = firestore_client.document("jobs/a"), firestore_client.document("jobs/b")
        first.set({"n": 1, "m": 2})
        snapshots = {found.id: found.to_dict() for found in firestore_client.get_all([first, missing, first], ["n"])}
        assert snapshots == {"a": {"n": 1}, "b": None}


class TestVersions:
    def test_each_change_has_a_later_update_time(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        times = [job.set({"n": number}).update_time for number in range(20)]
        assert sorted(set(times)) == times
        snapshot = job.get()
        assert snapshot.update_time == times[-1]
        assert snapshot.create_time == times[0]

    def test_a_write_that_changes_nothing_keeps_the_update_time(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        first = job.set({"n": 1}).update_time
        assert job.set({"n": 1}).update_time == first
        assert job.get().update_time == first

    def test_the_commit_time_is_the_update_time_of_what_changed(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        batch = firestore_client.batch()
        batch.set(job, {"n": 1})
        batch.commit()
        assert job.get().update_time == batch.commit_time

    def test_a_write_on_the_version_that_was_read_succeeds(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 1})
        job.update({"n": 2}, option=firestore_client.write_option(last_update_time=job.get().update_time))
        assert job.get().get("n") == 2

    @pytest.mark.parametrize("how", ["update", "delete"])
    def test_a_write_on_an_older_version_is_refused(self, firestore_client: firestore.Client, how: str) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 1})
        stale = firestore_client.write_option(last_update_time=job.get().update_time)
        job.update({"n": 2})
        with pytest.raises(exceptions.FailedPrecondition):
            job.update({"n": 3}, option=stale) if how == "update" else job.delete(option=stale)
        assert job.get().to_dict() == {"n": 2}

    def test_a_version_of_a_deleted_document_is_refused(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 1})
        stale = firestore_client.write_option(last_update_time=job.get().update_time)
        job.delete()
        with pytest.raises(exceptions.FailedPrecondition):
            job.update({"n": 3}, option=stale)

    def test_a_version_from_the_future_is_invalid(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 1})
        future = job.get().update_time + datetime.timedelta(days=1)
        with pytest.raises(exceptions.InvalidArgument):
            job.update({"n": 2}, option=firestore_client.write_option(last_update_time=future))

    def test_times_are_kept_to_the_microsecond(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        later = NOON + datetime.timedelta(microseconds=1)
        job.set({"at": NOON, "list": [later]})
        assert job.get().to_dict() == {"at": NOON, "list": [later]}
        jobs = firestore_client.collection("jobs")
        assert ids(jobs.where(filter=FieldFilter("at", "<", NOON))) == []
        assert ids(jobs.where(filter=FieldFilter("at", "<", later))) == ["train"]


class TestBatches:
    def test_all_writes_of_a_batch_happen_at_one_time(self, firestore_client: firestore.Client) -> None:
        old, new = firestore_client.document("jobs/old"), firestore_client.document("jobs/new")
        old.set({"n": 1})
        batch = firestore_client.batch()
        batch.update(old, {"n": 2})
        batch.create(new, {"n": 3})
        batch.delete(firestore_client.document("jobs/absent"))
        batch.commit()
        assert old.get().update_time == new.get().update_time

    @pytest.mark.parametrize(
        ("write", "error"),
        [
            ("create what exists", exceptions.AlreadyExists),
            ("update what is missing", exceptions.NotFound),
            ("update a stale version", exceptions.FailedPrecondition),
            ("write a reserved name", exceptions.InvalidArgument),
        ],
    )
    def test_one_refused_write_leaves_nothing_of_the_batch(
        self, firestore_client: firestore.Client, write: str, error: type[Exception]
    ) -> None:
        job, entry = firestore_client.document("jobs/train"), firestore_client.document("inbox/entry")
        job.set({"n": 1})
        stale = firestore_client.write_option(last_update_time=job.get().update_time)
        job.update({"n": 2})
        batch = firestore_client.batch()
        batch.create(entry, {"status": "waiting"})
        match write:
            case "create what exists":
                batch.create(firestore_client.document("other/x"), {})
                firestore_client.document("other/x").set({})
            case "update what is missing":
                batch.update(firestore_client.document("jobs/missing"), {"n": 1})
            case "update a stale version":
                batch.update(job, {"n": 3}, option=stale)
            case _:
                batch.set(firestore_client.document("jobs/__reserved__"), {})
        with pytest.raises(error):
            batch.commit()
        assert job.get().to_dict() == {"n": 2}
        assert not entry.get().exists

    def test_writes_of_one_document_in_a_batch_build_on_each_other(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"old": True})
        batch = firestore_client.batch()
        batch.delete(job)
        batch.create(job, {"n": 1})
        batch.update(job, {"n": firestore.Increment(1)})
        batch.commit()
        snapshot = job.get()
        assert snapshot.to_dict() == {"n": 2}
        assert snapshot.create_time == snapshot.update_time

    def test_conditions_that_the_batch_itself_contradicts_are_invalid(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/train")
        twice = firestore_client.batch()
        twice.create(job, {})
        twice.create(job, {})
        with pytest.raises(exceptions.InvalidArgument):
            twice.commit()
        gone = firestore_client.batch()
        gone.delete(job)
        gone.update(job, {"n": 1})
        with pytest.raises(exceptions.InvalidArgument):
            gone.commit()

    def test_a_version_belongs_to_the_first_write_of_a_document_in_a_batch(
        self, firestore_client: firestore.Client
    ) -> None:
        job = firestore_client.document("jobs/train")
        job.set({"n": 1})
        version = firestore_client.write_option(last_update_time=job.get().update_time)
        late = firestore_client.batch()
        late.update(job, {"n": 2})
        late.update(job, {"n": 3}, option=version)
        with pytest.raises(exceptions.InvalidArgument):
            late.commit()
        early = firestore_client.batch()
        early.update(job, {"n": 2}, option=version)
        early.update(job, {"m": 3})
        early.commit()
        assert job.get().to_dict() == {"n": 2, "m": 3}


class TestRaces:
    def test_exactly_one_of_twenty_creates_wins(self, firestore_client: firestore.Client) -> None:
        entry = firestore_client.document("inbox/entry")
        outcomes = race(20, lambda number: entry.create({"winner": number}))
        assert outcomes == {"done": 1, "AlreadyExists": 19}

    def test_no_increment_by_version_is_lost(self, firestore_client: firestore.Client) -> None:
        counter = firestore_client.document("jobs/counter")
        counter.set({"n": 0})

        def increment(number: int) -> None:
            while True:
                snapshot = counter.get()
                batch = firestore_client.batch()
                version = firestore_client.write_option(last_update_time=snapshot.update_time)
                batch.update(counter, {"n": snapshot.get("n") + 1}, option=version)
                batch.create(firestore_client.document(f"inbox/entry-{number}"), {})
                try:
                    batch.commit()
                except (exceptions.FailedPrecondition, exceptions.Aborted):
                    continue
                return

        assert race(20, increment) == {"done": 20}
        assert counter.get().get("n") == 20
        assert len(ids(firestore_client.collection("inbox"))) == 20

    def test_no_increment_by_transform_is_lost(self, firestore_client: firestore.Client) -> None:
        counter = firestore_client.document("jobs/counter")
        counter.set({"n": 0})
        assert race(20, lambda _: counter.update({"n": firestore.Increment(1)})) == {"done": 20}
        assert counter.get().get("n") == 20


class TestLimits:
    @pytest.mark.parametrize("path", ["jobs/__x__", "__x__/train", "jobs/..", "jobs//a/b", "jobs/" + "x" * 1501])
    def test_names_that_firestore_refuses(self, firestore_client: firestore.Client, path: str) -> None:
        with pytest.raises(exceptions.InvalidArgument):
            firestore_client.document(path).set({"n": 1})

    @pytest.mark.parametrize("content", [{"__x__": 1}, {"m": {"__x__": 1}}, {"a": [[1]]}])
    def test_content_that_firestore_refuses(self, firestore_client: firestore.Client, content: dict[str, Any]) -> None:
        with pytest.raises(exceptions.InvalidArgument):
            firestore_client.document("jobs/train").set(content)

    def test_maps_nest_twenty_deep(self, firestore_client: firestore.Client) -> None:
        def nested(depth: int) -> dict[str, Any]:
            return {"m": nested(depth - 1)} if depth else {"n": 1}

        firestore_client.document("jobs/train").set(nested(20))
        with pytest.raises(exceptions.InvalidArgument):
            firestore_client.document("jobs/train").set(nested(21))

    def test_a_document_has_at_most_a_mebibyte(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/a")

        def parts(size: int) -> dict[str, str]:
            return {"f1": "x" * (size // 2), "f2": "x" * (size // 2)}

        # 23 bytes of name, 2 names of 3, 2 ends of texts, 32 of every document.
        job.set(parts(1_048_576 - 64))
        with pytest.raises(exceptions.InvalidArgument):
            job.set(parts(1_048_576 - 62))

    def test_a_field_has_89_bytes_less(self, firestore_client: firestore.Client) -> None:
        job = firestore_client.document("jobs/a")
        job.set({"raw": "x" * (1_048_576 - 89)})
        with pytest.raises(exceptions.InvalidArgument):
            job.set({"raw": "x" * (1_048_576 - 88)})


@pytest.fixture
def jobs(firestore_client: firestore.Client) -> firestore.CollectionReference:
    """Six jobs, numbered 0 to 5: even ones run, odd ones wait."""
    collection = firestore_client.collection("jobs")
    batch = firestore_client.batch()
    for number in range(6):
        batch.set(
            collection.document(f"job-{number}"),
            {
                "phase": "WAITING" if number % 2 else "RUNNING",
                "generation": number,
                "zone": f"zone-{number % 3}",
                "resources": [f"node-{number}", "shared"],
                "wake_at": NOON + datetime.timedelta(minutes=number),
                "lease": {"holder": f"h{number}"},
            },
        )
    batch.commit()
    return collection


def numbers(query: Any) -> list[int]:
    return [int(name.removeprefix("job-")) for name in ids(query)]


class TestQueries:
    @pytest.mark.parametrize(
        ("filters", "found"),
        [
            ([("phase", "==", "RUNNING")], [0, 2, 4]),
            ([("generation", "==", 2.0)], [2]),
            ([("lease.holder", "==", "h3")], [3]),
            ([("generation", "<", 2)], [0, 1]),
            ([("generation", "<=", 2)], [0, 1, 2]),
            ([("generation", ">", 3)], [4, 5]),
            ([("generation", ">=", 3)], [3, 4, 5]),
            ([("generation", ">", "text")], []),
            ([("generation", "!=", 3)], [0, 1, 2, 4, 5]),
            ([("generation", "in", [1, 5, 9])], [1, 5]),
            ([("generation", "not-in", [1, 5])], [0, 2, 3, 4]),
            ([("resources", "array_contains", "node-4")], [4]),
            ([("resources", "array_contains", "shared")], [0, 1, 2, 3, 4, 5]),
            ([("resources", "array_contains_any", ["node-1", "node-2", "none"])], [1, 2]),
            ([("wake_at", "<=", NOON + datetime.timedelta(minutes=1))], [0, 1]),
            ([("phase", "==", "RUNNING"), ("zone", "==", "zone-1")], [4]),
            ([("phase", "==", "RUNNING"), ("generation", ">", 0)], [2, 4]),
            ([("phase", "==", "WAITING"), ("resources", "array_contains", "shared")], [1, 3, 5]),
            ([("phase", "in", ["RUNNING", "HELD"]), ("generation", ">=", 1), ("generation", "<", 4)], [2]),
            ([("absent", "==", 1)], []),
            ([("absent", "!=", 1)], []),
            ([("absent", "==", None)], []),
        ],
    )
    def test_filters(
        self, jobs: firestore.CollectionReference, filters: list[tuple[str, str, Any]], found: list[int]
    ) -> None:
        query: Any = jobs
        for field, operator, value in filters:
            query = query.where(filter=FieldFilter(field, operator, value))
        assert numbers(query) == found
        assert query.count().get()[0][0].value == len(found)

    def test_alternatives(self, jobs: firestore.CollectionReference) -> None:
        either = Or([FieldFilter("generation", "==", 1), FieldFilter("phase", "==", "RUNNING")])
        assert numbers(jobs.where(filter=either)) == [0, 1, 2, 4]
        assert numbers(jobs.where(filter=either).where(filter=FieldFilter("zone", "==", "zone-1"))) == [1, 4]

    def test_order_limit_and_offset(self, jobs: firestore.CollectionReference) -> None:
        descending = jobs.order_by("generation", direction="DESCENDING")
        assert numbers(descending.limit(2)) == [5, 4]
        assert numbers(descending.offset(4)) == [1, 0]
        assert numbers(jobs.order_by("phase", direction="DESCENDING").order_by("generation")) == [1, 3, 5, 0, 2, 4]
        assert numbers(jobs.order_by("zone").order_by("generation", direction="DESCENDING")) == [3, 0, 4, 1, 5, 2]
        assert numbers(jobs.limit(0)) == []

    def test_the_last_ones_of_an_order(self, jobs: firestore.CollectionReference) -> None:
        assert [found.id for found in jobs.order_by("generation").limit_to_last(2).get()] == ["job-4", "job-5"]

    def test_cursors(self, jobs: firestore.CollectionReference) -> None:
        ordered = jobs.order_by("generation")
        assert numbers(ordered.start_at({"generation": 4})) == [4, 5]
        assert numbers(ordered.start_after({"generation": 4})) == [5]
        assert numbers(ordered.end_at({"generation": 1})) == [0, 1]
        assert numbers(ordered.end_before({"generation": 1})) == [0]
        by_phase = jobs.order_by("phase", direction="DESCENDING")
        assert numbers(by_phase.start_after(jobs.document("job-3").get())) == [1, 4, 2, 0]

    def test_pages_by_name(self, jobs: firestore.CollectionReference) -> None:
        after = jobs.document("job-3")
        page = jobs.order_by("__name__").start_after({"__name__": after}).limit(5)
        assert numbers(page) == [4, 5]
        assert numbers(jobs.where(filter=FieldFilter("__name__", ">=", after))) == [3, 4, 5]

    def test_selected_fields(self, jobs: firestore.CollectionReference) -> None:
        found = list(jobs.select(["generation", "lease.holder", "absent"]).limit(1).stream())
        assert [snapshot.to_dict() for snapshot in found] == [{"generation": 0, "lease": {"holder": "h0"}}]
        assert found[0].update_time == jobs.document("job-0").get().update_time
        assert [snapshot.to_dict() for snapshot in jobs.select([]).limit(1).stream()] == [{}]

    def test_types_have_an_order_of_their_own(self, firestore_client: firestore.Client) -> None:
        collection = firestore_client.collection("mixed")
        values = [
            None,
            False,
            True,
            float("nan"),
            float("-inf"),
            -1,
            0.5,
            1,
            NOON,
            "",
            "Z",
            "a",
            "é",
            "\uffee",
            "😀",
            b"\x01",
            firestore_client.document("a/b"),
            firestore.GeoPoint(0, 1),
            [],
            [1],
            [1, 0],
            [2],
            {},
            {"a": 1},
            {"a": 1, "b": 0},
            {"a": 2},
            {"b": 0},
        ]
        for position, value in reversed(list(enumerate(values))):
            collection.document(f"{(position * 7) % 27:02}").set({"value": value, "position": position})
        collection.document("absent").set({"position": -1})
        found = collection.order_by("value").stream()
        assert [snapshot.get("position") for snapshot in found] == list(range(len(values)))
        found = collection.order_by("value", direction="DESCENDING").stream()
        assert [snapshot.get("position") for snapshot in found] == list(reversed(range(len(values))))

    def test_null_and_nan_are_found_by_name_only(self, firestore_client: firestore.Client) -> None:
        collection = firestore_client.collection("odd")
        for name, value in {"null": None, "nan": float("nan"), "one": 1, "text": "x"}.items():
            collection.document(name).set({"v": value})
        expected: list[tuple[str, Any, list[str]]] = [
            ("==", None, ["null"]),
            ("==", float("nan"), ["nan"]),
            ("!=", None, ["nan", "one", "text"]),
            ("!=", float("nan"), ["one", "text"]),
            ("!=", 1, ["nan", "text"]),
            ("<", 5, ["one"]),
            ("in", [None, 1], ["one"]),
            ("not-in", [1], ["nan", "text"]),
            ("not-in", [None, 1], []),
        ]
        for operator, value, found in expected:
            assert ids(collection.where(filter=FieldFilter("v", operator, value))) == found, (operator, value)

    @pytest.mark.parametrize(
        "filters",
        [
            [("a", "in", [])],
            [("a", "in", list(range(31)))],
            [("a", "not-in", list(range(11)))],
            [("a", "in", list(range(6))), ("b", "in", list(range(6)))],
            [("a", "array_contains", 1), ("b", "array_contains", 1)],
            [("a", "!=", 1), ("b", "not-in", [1])],
            [("a", "in", [1]), ("b", "not-in", [1])],
            [("__name__", "==", "text")],
        ],
    )
    def test_filters_that_firestore_refuses(
        self, firestore_client: firestore.Client, filters: list[tuple[str, str, Any]]
    ) -> None:
        query: Any = firestore_client.collection("jobs")
        for field, operator, value in filters:
            query = query.where(filter=FieldFilter(field, operator, value))
        with pytest.raises(exceptions.InvalidArgument):
            ids(query)

    def test_orders_that_firestore_refuses(self, firestore_client: firestore.Client) -> None:
        collection = firestore_client.collection("jobs")
        for query in (
            collection.order_by("a").order_by("a"),
            collection.order_by("__name__").order_by("a"),
            collection.limit(-1),
            collection.offset(-1),
        ):
            with pytest.raises(exceptions.InvalidArgument):
                ids(query)

    def test_a_change_is_seen_by_the_next_query(self, jobs: firestore.CollectionReference) -> None:
        jobs.document("job-0").update({"phase": "HELD", "resources": firestore.ArrayUnion(["extra"])})
        jobs.document("job-2").delete()
        assert numbers(jobs.where(filter=FieldFilter("phase", "==", "RUNNING"))) == [4]
        assert numbers(jobs.where(filter=FieldFilter("resources", "array_contains", "extra"))) == [0]


class TestIsolation:
    def test_a_collection_group_reaches_every_depth_of_its_name(self, firestore_client: firestore.Client) -> None:
        for path in ("jobs/a/incidents/1", "jobs/b/incidents/2", "incidents/3", "jobs/a/other/4"):
            firestore_client.document(path).set({"open": True})
        everywhere = firestore_client.collection_group("incidents")
        assert ids(everywhere) == ["3", "1", "2"]
        assert ids(everywhere.where(filter=FieldFilter("open", "==", True))) == ["3", "1", "2"]
        assert ids(firestore_client.collection("jobs/a/incidents")) == ["1"]
        assert ids(firestore_client.collection("jobs")) == []

    def test_projects_and_databases_do_not_see_each_other(
        self, firestore_client: firestore.Client, firestore_open: Callable[[str, str], firestore.Client]
    ) -> None:
        other_database = firestore_open(firestore_client.project, "other-database")
        other_project = firestore_open(f"{firestore_client.project}-b", "tpu-recovery")
        firestore_client.document("jobs/train").set({"n": 1})
        for other in (other_database, other_project):
            assert not other.document("jobs/train").get().exists
            assert ids(other.collection("jobs")) == []
            other.document("jobs/train").create({"n": 2})
        assert firestore_client.document("jobs/train").get().to_dict() == {"n": 1}
