from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import grpc
import pytest
from tests.cloud.served import FAILURES, FIRESTORE, ServedApi

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.errors import AlreadyExists, Conflict, Unreadable, Unstorable
from tpu_recovery.local.firestore import FirestoreServer
from tpu_recovery.local.rpc import Refusal
from tpu_recovery.local.stack import INDEXES
from tpu_recovery.model.codec import from_document, to_document
from tpu_recovery.model.incident import Incident
from tpu_recovery.model.spec import Placement
from tpu_recovery.model.state import Create as CreateState
from tpu_recovery.model.state import JobState, Lease, Patience, Phase, Progress, Slice, Spending
from tpu_recovery.recovery.ports import Change, Create, Replace, Write
from tpu_recovery.recovery.records import (
    InboxEntry,
    InboxKind,
    InboxStatus,
    Records,
    incident_path,
    put_entry,
    put_state,
)

NOW = datetime(2026, 12, 1, 15, 0, 0, 123457, tzinfo=UTC)


def fields(store: FirestoreStore, path: str) -> dict[str, Any]:
    (stored,) = store.get(path)
    assert stored is not None
    return dict(stored.fields)


class TestReading:
    def test_documents_come_in_the_order_asked_for_with_none_where_there_is_none(self, store: FirestoreStore) -> None:
        store.commit([Create("jobs/a", {"n": 1}), Create("jobs/b", {"n": 2})])
        b, missing, a = store.get("jobs/b", "jobs/missing", "jobs/a")
        assert missing is None
        assert (b and b.path, b and b.fields, a and a.fields) == ("jobs/b", {"n": 2}, {"n": 1})

    def test_a_document_below_a_document_is_found_by_its_path(self, store: FirestoreStore) -> None:
        store.commit([Create("jobs/a/incidents/x-1", {"n": 1})])
        assert [one.path for one in store.find("jobs/a/incidents")] == ["jobs/a/incidents/x-1"]
        assert list(store.find("jobs/b/incidents")) == []
        assert list(store.find("jobs")) == []

    def test_filters_are_all_to_be_met_and_a_limit_holds(self, store: FirestoreStore) -> None:
        writes = [Create(f"inbox/{n}", {"job": "ab"[n % 2], "status": "waiting", "tags": [n]}) for n in range(6)]
        store.commit(writes)
        found = store.find("inbox", ("job", "==", "b"), ("status", "==", "waiting"))
        assert {one.path for one in found} == {"inbox/1", "inbox/3", "inbox/5"}
        assert [one.path for one in store.find("inbox", ("tags", "array_contains", 4))] == ["inbox/4"]
        assert len(store.find("inbox", ("job", "in", ["a", "b"]), limit=4)) == 4


class TestMoments:
    @pytest.mark.parametrize("microsecond", [0, 1, 2, 123457, 499999, 500000, 999998, 999999])
    @pytest.mark.parametrize("year", [1970, 2026, 2100])
    def test_they_come_back_to_the_microsecond(self, store: FirestoreStore, year: int, microsecond: int) -> None:
        moment = datetime(year, 2, 3, 4, 5, 6, microsecond, tzinfo=UTC)
        store.commit([Create("jobs/a", {"at": moment, "inside": {"at": moment}, "many": [moment, {"at": moment}]})])
        read = fields(store, "jobs/a")
        assert read == {"at": moment, "inside": {"at": moment}, "many": [moment, {"at": moment}]}
        assert type(read["at"]) is type(read["inside"]["at"]) is type(read["many"][0]) is datetime
        assert read["at"].tzinfo is UTC

    def test_another_time_zone_becomes_utc(self, store: FirestoreStore) -> None:
        store.commit([Create("jobs/a", {"at": NOW.astimezone(timezone(timedelta(hours=-8)))})])
        assert fields(store, "jobs/a")["at"].isoformat() == NOW.isoformat()


class TestStructs:
    def test_a_job_state_comes_back_as_it_was_written(self, store: FirestoreStore) -> None:
        state = JobState(
            job="train",
            uid="k3v",
            phase=Phase.RUNNING,
            since=NOW,
            generation=2,
            token="secret",
            slices=(Slice(name="n", id="7", create_time=NOW, hostnames=("t1v-n-1-w-0",)),),
            create=CreateState(request_id="r", intended=NOW, placement=0, where=Placement(zone="z"), launch=1, due=NOW),
            progress=Progress(step=2**40, checkpoint_step=5, at=NOW),
            patience={"beacon": Patience(since=NOW, until=NOW)},
            spending={"loss": Spending(spent=3, forgiven=1)},
            lease=Lease(id="l", until=NOW),
        )
        store.commit([Create("jobs/train", to_document(state))])
        assert from_document(fields(store, "jobs/train"), JobState) == state

    def test_replacing_a_map_forgets_its_old_keys(self, store: FirestoreStore) -> None:
        store.commit([Create("jobs/a", {"patience": {"beacon": 1, "capacity": 2}, "other": 1})])
        (stored,) = store.get("jobs/a")
        assert stored is not None
        store.commit([Replace("jobs/a", {"patience": {"reading": 3}, "other": 1}, stored.version)])
        assert fields(store, "jobs/a")["patience"] == {"reading": 3}

    def test_keys_of_a_map_may_hold_any_character(self, store: FirestoreStore) -> None:
        written = {"environment": {"A.B": "1", "c`d": "2", "e/f": "3", "ü": "4", "__x": "5"}}
        store.commit([Create("specs/a", written)])
        (stored,) = store.get("specs/a")
        assert stored is not None
        store.commit([Replace("specs/a", written, stored.version)])
        assert fields(store, "specs/a") == written


class TestCommitting:
    def test_a_new_version_is_good_for_the_next_replacement(self, store: FirestoreStore) -> None:
        (first,) = store.commit([Create("jobs/a", {"n": 1})])
        (second,) = store.commit([Replace("jobs/a", {"n": 2}, first)])
        store.commit([Replace("jobs/a", {"n": 3}, second)])
        assert fields(store, "jobs/a") == {"n": 3}

    def test_versions_come_in_the_order_of_the_writes(self, store: FirestoreStore) -> None:
        store.commit([Create("inbox/x", {"status": "waiting"})])
        version, _ = store.commit([Create("jobs/a", {"n": 1}), Change("inbox/x", {"status": "done"})])
        (stored,) = store.get("jobs/a")
        assert stored is not None
        assert version == stored.version

    def test_a_change_leaves_the_other_fields_as_they_are(self, store: FirestoreStore) -> None:
        store.commit([Create("inbox/x", {"status": "waiting", "raw": "text"})])
        store.commit([Change("inbox/x", {"status": "done"})])
        assert fields(store, "inbox/x") == {"status": "done", "raw": "text"}

    @pytest.mark.parametrize("name", ["stale", "gone", "absent"])
    def test_a_conflict_leaves_everything_as_it_was(self, store: FirestoreStore, name: str) -> None:
        (old,) = store.commit([Create("jobs/stale", {"n": 1})])
        store.commit([Replace("jobs/stale", {"n": 2}, old)])
        writes: dict[str, Write] = {
            "stale": Replace("jobs/stale", {"n": 3}, old),
            "gone": Replace("jobs/gone", {"n": 3}, old),
            "absent": Change("jobs/absent", {"n": 3}),
        }
        with pytest.raises(Conflict):
            store.commit([Create("jobs/new", {"n": 0}), writes[name]])
        assert list(store.get("jobs/new", "jobs/gone", "jobs/absent")) == [None, None, None]
        assert fields(store, "jobs/stale") == {"n": 2}

    def test_what_is_there_already_is_not_created_and_nothing_else_is_written(self, store: FirestoreStore) -> None:
        store.commit([Create("jobs/a", {"n": 1})])
        with pytest.raises(AlreadyExists, match="jobs/a"):
            store.commit([Create("jobs/b", {"n": 0}), Create("jobs/a", {"n": 2})])
        assert list(store.get("jobs/b")) == [None]
        assert fields(store, "jobs/a") == {"n": 1}


class TestQueriesOfTheService:
    """Every query is answered with the indexes that the installation declares."""

    def test_all_of_them_are_answered(self, store: FirestoreStore) -> None:
        records = Records(store)
        state = JobState(job="train", uid="k3v", phase=Phase.RUNNING, since=NOW, resources=("node",))
        incident = Incident(id="k3v-1", job="train", generation=1, cause="LOST", opened=NOW)  # type: ignore[arg-type]
        entry = InboxEntry(
            key="k", kind=InboxKind.EVENT, job="train", status=InboxStatus.WAITING, received=NOW, expire_at=NOW
        )
        path = incident_path("train", incident.id)
        records.commit(put_state(state, None), Create(path, to_document(incident)), put_entry(entry))

        owner = records.owner("node")
        assert owner is not None
        assert owner.job == "train"
        assert records.owner("another node") is None
        assert [one.job for one in records.unfinished()] == ["train"]
        assert list(records.everything()) == ["train"]
        assert records.incidents("train") == [incident]
        assert records.pauses() == {}
        assert records.waiting("train") == [entry]
        assert records.waiting_jobs() == {"train"}

    def test_a_query_without_its_index_is_refused_by_name(self, store: FirestoreStore) -> None:
        with pytest.raises(Unreadable, match="index that is not declared: collection inbox"):
            store.find("inbox", ("raw", "==", "x"))


@pytest.mark.parametrize("code", FAILURES)
def test_every_refusal_of_a_commit_has_its_meaning(
    serve: Callable[[ServedApi, str], None], code: grpc.StatusCode
) -> None:
    api = ServedApi(*FIRESTORE)
    serve(api, "FIRESTORE_EMULATOR_HOST")
    api.answers = [code]
    conflicts = (grpc.StatusCode.ABORTED, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND)
    expected: type[Exception] = Conflict if code in conflicts else Unreadable
    if code is grpc.StatusCode.ALREADY_EXISTS:
        expected = AlreadyExists
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        expected = Unstorable
    with pytest.raises(expected, match="because the test says so"):
        FirestoreStore(clients.firestore_client("p", "d")).commit([Create("jobs/a", {})])
    assert api.calls == ["Commit"]


class Faulty(FirestoreServer):
    """Fails a number of times: before it reads, in the middle of an answer, or after it has written."""

    def __init__(self) -> None:
        super().__init__(indexes=INDEXES)
        self.failures = list[grpc.StatusCode]()

    def _fail(self) -> None:
        if self.failures:
            raise Refusal(self.failures.pop(), "as the test says")

    def _batch_get_documents(self, request: Any) -> Iterator[Any]:
        self._fail()
        yield from super()._batch_get_documents(request)

    def _run_query(self, request: Any) -> Iterator[Any]:
        for answer in super()._run_query(request):
            yield answer
            self._fail()

    def _commit(self, request: Any) -> Any:
        answer = super()._commit(request)
        self._fail()
        return answer


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    server = Faulty()
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{server.start()}")
    yield server
    server.stop()


class TestFaults:
    def test_a_read_is_begun_again_when_the_service_is_away_for_a_moment(self, faulty: Faulty) -> None:
        store = FirestoreStore(clients.firestore_client("p", "d"))
        store.commit([Create(f"jobs/{name}", {"name": name}) for name in "abc"])
        faulty.failures = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL]
        assert [one and one.path for one in store.get("jobs/b")] == ["jobs/b"]
        faulty.failures = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE]
        assert [one.path for one in store.find("jobs", limit=2)] == ["jobs/a", "jobs/b"]

    @pytest.mark.parametrize("code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND])
    def test_a_read_that_is_refused_is_unreadable_at_once(self, faulty: Faulty, code: grpc.StatusCode) -> None:
        store = FirestoreStore(clients.firestore_client("p", "d"))
        store.commit([Create("jobs/a", {})])
        faulty.failures = [code]
        with pytest.raises(Unreadable, match="as the test says"):
            store.get("jobs/a")
        faulty.failures = [code]
        with pytest.raises(Unreadable, match="as the test says"):
            store.find("jobs")

    def test_a_commit_whose_answer_is_lost_is_unreadable_and_no_conflict_with_itself(self, faulty: Faulty) -> None:
        store = FirestoreStore(clients.firestore_client("p", "d"))
        (version,) = store.commit([Create("jobs/a", {"n": 1})])
        for write in (Replace("jobs/a", {"n": 2}, version), Create("jobs/b", {"n": 2})):
            faulty.failures = [grpc.StatusCode.UNAVAILABLE]
            with pytest.raises(Unreadable):
                store.commit([write])
        assert [one and one.fields for one in store.get("jobs/a", "jobs/b")] == [{"n": 2}, {"n": 2}]
