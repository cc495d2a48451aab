"""The RPCs: which requests are served, and what each answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from tpu_recovery.local import rpc
from tpu_recovery.local.firestore import messages
from tpu_recovery.local.firestore.database import Database, Versions
from tpu_recovery.local.firestore.indexes import Indexes
from tpu_recovery.local.firestore.messages import Message, Value, timestamp
from tpu_recovery.local.firestore.paths import check_database, check_document_name, database_of, parse_field_path
from tpu_recovery.local.firestore.queries import parse_query, run_query
from tpu_recovery.local.firestore.refusals import invalid, not_found, not_served
from tpu_recovery.local.firestore.values import project
from tpu_recovery.local.firestore.writes import commit

_SERVICE = "google.firestore.v1.Firestore"


class FirestoreServer:
    """Firestore on loopback, in this process and in memory; a database exists as soon as it is named.

    ``clock`` gives seconds since 1970; ``indexes`` are the declared ones, or None to let every query pass.
    """

    def __init__(self, clock: Callable[[], float] = time.time, indexes: Indexes | None = None) -> None:
        self._versions = Versions(clock)
        self._indexes = indexes
        self._databases: dict[str, Database] = {}
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self, port: int = 0) -> int:
        """Serve on 127.0.0.1; the port (a free one for 0) is what FIRESTORE_EMULATOR_HOST needs."""
        calls = rpc.calls_of(
            "google.cloud.firestore_v1.services.firestore.transports.grpc", "FirestoreGrpcTransport", _SERVICE
        )
        unary: dict[str, rpc.Handler] = {"GetDocument": self._get_document, "Commit": self._commit}
        handlers = {
            name: rpc.unary(_without_wrapping(unary[name]) if name in unary else _refusing(name), call.parse)
            for name, call in calls.items()
        }
        self._server, bound = rpc.serve({_SERVICE: handlers | self._streams()}, port=port)
        return bound

    def stop(self) -> None:
        """Stop serving and wait until the port is free; the documents stay."""
        if self._server is not None:
            self._server.stop(grace=1).wait()
            self._server = None

    def reset(self) -> None:
        """Forget all documents of all databases; commit times still only grow."""
        with self._lock:
            self._databases.clear()

    def _streams(self) -> dict[str, grpc.RpcMethodHandler]:
        return {
            "BatchGetDocuments": _stream(self._batch_get_documents, messages.BatchGetDocumentsRequest),
            "RunQuery": _stream(self._run_query, messages.RunQueryRequest),
            "RunAggregationQuery": _stream(self._run_aggregation_query, messages.RunAggregationQueryRequest),
            "ExecutePipeline": _stream(_refusing("ExecutePipeline"), messages.ExecutePipelineRequest),
            "Listen": _conversation(_refusing("Listen"), messages.ListenRequest),
            "Write": _conversation(_refusing("Write"), messages.WriteRequest),
        }

    def _database(self, name: str) -> Database:
        with self._lock:
            return self._databases.setdefault(check_database(name), Database())

    def _get_document(self, request: Message) -> Message:
        _check_consistency(request)
        check_document_name(request.name)
        database = self._database(database_of(request.name))
        with database.lock:
            document = database.get(request.name)
        if document is None:
            raise not_found(f'Document "{request.name}" not found.')
        return _masked(document, request)

    def _batch_get_documents(self, request: Message) -> Iterable[Message]:
        _check_consistency(request)
        names = list(dict.fromkeys(request.documents))
        for name in names:
            check_document_name(name)
            if database_of(name) != request.database:
                raise invalid(f'Document name "{name}" is not in the database {request.database} of this request.')
        database = self._database(request.database)
        with database.lock:
            found = [(name, database.get(name)) for name in names]
            read_time = timestamp(self._versions.now())
        for name, document in found:
            if document is None:
                yield messages.BatchGetDocumentsResponse(missing=name, read_time=read_time)
            else:
                yield messages.BatchGetDocumentsResponse(found=_masked(document, request), read_time=read_time)

    def _run_query(self, request: Message) -> Iterable[Message]:
        documents, read_time = self._find(request, request.structured_query)
        for document in documents:
            yield messages.RunQueryResponse(document=document, read_time=read_time)
        if not documents:
            yield messages.RunQueryResponse(read_time=read_time)

    def _run_aggregation_query(self, request: Message) -> Iterable[Message]:
        aggregation_query = request.structured_aggregation_query
        response = messages.RunAggregationQueryResponse()
        documents, read_time = self._find(request, aggregation_query.structured_query)
        response.read_time.CopyFrom(read_time)
        for number, aggregation in enumerate(aggregation_query.aggregations, start=1):
            operator = aggregation.WhichOneof("operator")
            if operator != "count":
                raise not_served(f"the aggregation {operator}")
            count = len(documents)
            if aggregation.count.HasField("up_to"):
                count = min(count, aggregation.count.up_to.value)
            alias = aggregation.alias or f"field_{number}"
            response.result.aggregate_fields[alias].CopyFrom(Value(integer_value=count))
        yield response

    def _find(self, request: Message, structured: Message) -> tuple[list[Message], Message]:
        _check_consistency(request)
        if request.HasField("explain_options"):
            raise not_served("query explain")
        query = parse_query(request.parent, structured)
        if self._indexes is not None:
            self._indexes.check(query)
        database = self._database(database_of(request.parent))
        with database.lock:
            return run_query(database, query), timestamp(self._versions.now())

    def _commit(self, request: Message) -> Message:
        if request.transaction:
            raise not_served("transactions")
        database = self._database(request.database)
        with database.lock:
            now = self._versions.next()
            results = commit(database, request.database, request.writes, now)
        return messages.CommitResponse(write_results=results, commit_time=timestamp(now))


def _check_consistency(request: Message) -> None:
    selector = request.WhichOneof("consistency_selector")
    if selector is not None:
        raise not_served(f"reads with {selector} (transactions and reads of the past)")


def _masked(document: Message, request: Message) -> Message:
    if not request.HasField("mask"):
        return document
    return project(document, map(parse_field_path, request.mask.field_paths))


def _refusing(name: str) -> rpc.Handler:
    def refuse(_request: Any) -> Any:
        raise not_served(f"{name} (it commits by precondition, never by transaction or listener)")

    return refuse


def _without_wrapping(handler: rpc.Handler) -> rpc.Handler:
    """Give ``handler`` the plain protobuf message that is inside the client's proto-plus one."""
    return lambda request: handler(type(request).pb(request))


def _responder(handler: rpc.Handler) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
    def respond(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from handler(request)
        except rpc.Refusal as refusal:
            context.abort(refusal.code, refusal.message)

    return respond


def _stream(handler: rpc.Handler, request_class: Any) -> grpc.RpcMethodHandler:
    return grpc.unary_stream_rpc_method_handler(_responder(handler), request_class.FromString, rpc.serialize)


def _conversation(handler: rpc.Handler, request_class: Any) -> grpc.RpcMethodHandler:
    return grpc.stream_stream_rpc_method_handler(_responder(handler), request_class.FromString, rpc.serialize)
