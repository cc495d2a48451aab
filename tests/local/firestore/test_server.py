"""What only the embedded server does: it enforces declared indexes, takes a clock, and refuses what nobody calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import firestore
from google.cloud.firestore import FieldFilter

from tpu_recovery.local.firestore import CompositeIndex, FirestoreServer, Indexes

INDEXES = Indexes(
    composite=(CompositeIndex("jobs", (("phase", "ASC"), ("wake_at", "ASC"))),),
    exempted=frozenset({("inbox", "raw")}),
)


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirestoreServer]:
    server = FirestoreServer(clock, INDEXES)
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{server.start()}")
    yield server
    server.stop()


@pytest.fixture
def client(server: FirestoreServer) -> Iterator[firestore.Client]:
    client = firestore.Client(project="project", database="tpu-recovery")
    yield client
    client.close()


def test_a_query_without_its_index_is_refused(client: firestore.Client) -> None:
    waiting = client.collection("jobs").where(filter=FieldFilter("phase", "==", "WAITING"))
    assert list(waiting.where(filter=FieldFilter("wake_at", "<", 1)).stream()) == []
    with pytest.raises(exceptions.FailedPrecondition, match=r"The query requires an index .* phase ASC, since ASC"):
        list(waiting.where(filter=FieldFilter("since", "<", 1)).stream())
    count: Any = waiting.order_by("since").count()
    with pytest.raises(exceptions.FailedPrecondition, match="The query requires an index"):
        count.get()
    with pytest.raises(exceptions.FailedPrecondition, match="scope COLLECTION_GROUP, fields phase ASC"):
        list(client.collection_group("jobs").where(filter=FieldFilter("phase", "==", "WAITING")).stream())
    with pytest.raises(exceptions.FailedPrecondition, match="fields raw ASC"):
        list(client.collection("inbox").where(filter=FieldFilter("raw", "==", "x")).stream())


def test_times_come_from_the_clock(client: firestore.Client, clock: Clock) -> None:
    job = client.document("jobs/train")
    job.set({"at": firestore.SERVER_TIMESTAMP})
    clock.now += 60
    job.update({"n": 1})
    snapshot = job.get()
    assert snapshot.create_time.timestamp() == snapshot.get("at").timestamp() == 1_800_000_000
    assert snapshot.update_time.timestamp() == 1_800_000_060


def test_a_reset_forgets_the_documents_but_no_version_returns(
    client: firestore.Client, server: FirestoreServer
) -> None:
    job = client.document("jobs/train")
    before = job.set({"n": 1}).update_time
    server.reset()
    assert not job.get().exists
    assert job.set({"n": 1}).update_time > before


def test_documents_survive_a_restart_of_the_server(server: FirestoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = firestore.Client(project="project", database="tpu-recovery")
    first.document("jobs/train").set({"n": 1})
    first.close()
    server.stop()
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{server.start()}")
    second = firestore.Client(project="project", database="tpu-recovery")
    assert second.document("jobs/train").get().to_dict() == {"n": 1}
    second.close()


def begin_transaction(client: firestore.Client) -> None:
    client.transaction()._begin()


def read_in_transaction(client: firestore.Client) -> None:
    transaction: Any = client.transaction()
    transaction._id = b"made up"
    client.document("jobs/train").get(transaction=transaction)


def commit_transaction(client: firestore.Client) -> None:
    transaction: Any = client.transaction()
    transaction._id = b"made up"
    transaction.set(client.document("jobs/train"), {})
    transaction._commit()


def read_the_past(client: firestore.Client) -> None:
    client.document("jobs/train").get(read_time=client.document("jobs/train").set({}).update_time)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (begin_transaction, "BeginTransaction .*commits by precondition"),
        (read_in_transaction, "reads with transaction"),
        (commit_transaction, "transactions"),
        (read_the_past, "reads with read_time"),
        (lambda client: client._firestore_api.rollback({"database": "d", "transaction": b"x"}), "Rollback"),
        (lambda client: list(client._firestore_api.listen(iter([]))), "Listen"),
        (lambda client: list(client._firestore_api.write(iter([]))), "Write"),
        (lambda client: client._firestore_api.batch_write({"database": "d"}), "BatchWrite"),
        (lambda client: list(client.collections()), "ListCollectionIds"),
        (lambda client: list(client.collection("jobs").list_documents()), "ListDocuments"),
        (lambda client: client.collection("jobs").sum("n").get(), "the aggregation sum"),
        (lambda client: client.document("jobs/a").set({"n": firestore.Maximum(1)}), "the field transform maximum"),
    ],
)
def test_what_the_project_never_calls_fails_loudly(
    client: firestore.Client, call: Callable[[firestore.Client], Any], message: str
) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match=message):
        call(client)


ROOT = "projects/project/databases/tpu-recovery/documents"
JOBS: dict[str, Any] = {"from_": [{"collection_id": "jobs"}]}


@pytest.mark.parametrize(
    ("request_of", "error"),
    [
        ({"structured_query": {}}, exceptions.MethodNotImplemented),
        ({"structured_query": JOBS, "explain_options": {}}, exceptions.MethodNotImplemented),
        ({"structured_query": {**JOBS, "find_nearest": {}}}, exceptions.MethodNotImplemented),
        (
            {"structured_query": {**JOBS, "start_at": {"values": [{"boolean_value": True}] * 2}}},
            exceptions.InvalidArgument,
        ),
        ({"structured_query": JOBS, "parent": f"{ROOT}/jobs"}, exceptions.InvalidArgument),
        ({"structured_query": JOBS, "parent": "projects/project"}, exceptions.InvalidArgument),
    ],
)
def test_queries_that_the_client_would_not_send(
    client: firestore.Client, request_of: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        list(client._firestore_api.run_query({"parent": ROOT, **request_of}))


def test_a_count_stops_at_its_limit(client: firestore.Client) -> None:
    for number in range(3):
        client.document(f"jobs/{number}").set({})
    counts = {"structured_query": JOBS, "aggregations": [{"count": {"up_to": 2}}, {"count": {}, "alias": "all"}]}
    request = {"parent": ROOT, "structured_aggregation_query": counts}
    [response] = client._firestore_api.run_aggregation_query(request)
    assert {name: count.integer_value for name, count in response.result.aggregate_fields.items()} == {
        "field_1": 2,
        "all": 3,
    }


def test_documents_of_another_database_cannot_be_read(client: firestore.Client) -> None:
    other = f"{ROOT.replace('tpu-recovery', 'other')}/jobs/train"
    request = {"database": "projects/project/databases/tpu-recovery", "documents": [other]}
    with pytest.raises(exceptions.InvalidArgument, match="is not in the database"):
        list(client._firestore_api.batch_get_documents(request))


def test_get_document_serves_and_refuses_like_the_batch_call(client: firestore.Client) -> None:
    client.document("jobs/train").set({"a": 1, "b": 2})
    found = client._firestore_api.get_document({"name": f"{ROOT}/jobs/train", "mask": {"field_paths": ["a"]}})
    assert list(found.fields) == ["a"]
    with pytest.raises(exceptions.NotFound):
        client._firestore_api.get_document({"name": f"{ROOT}/jobs/missing"})
