"""The protobuf classes of google.firestore.v1, without the client's proto-plus wrapping: a server needs the speed."""

from __future__ import annotations

from typing import Any, TypeAlias

from google.cloud.firestore_v1.types import document, firestore, query, write
from google.protobuf.timestamp_pb2 import Timestamp

Message: TypeAlias = Any
"""A protobuf message; the parameter's name says which. The generated classes carry no types."""

Document: Any = document.Document.pb()
Value: Any = document.Value.pb()
StructuredQuery: Any = query.StructuredQuery.pb()
Write: Any = write.Write.pb()
WriteResult: Any = write.WriteResult.pb()

CommitResponse: Any = firestore.CommitResponse.pb()
BatchGetDocumentsRequest: Any = firestore.BatchGetDocumentsRequest.pb()
BatchGetDocumentsResponse: Any = firestore.BatchGetDocumentsResponse.pb()
RunQueryRequest: Any = firestore.RunQueryRequest.pb()
RunQueryResponse: Any = firestore.RunQueryResponse.pb()
RunAggregationQueryRequest: Any = firestore.RunAggregationQueryRequest.pb()
RunAggregationQueryResponse: Any = firestore.RunAggregationQueryResponse.pb()
ExecutePipelineRequest: Any = firestore.ExecutePipelineRequest.pb()
ListenRequest: Any = firestore.ListenRequest.pb()
WriteRequest: Any = firestore.WriteRequest.pb()


def timestamp(microseconds: int) -> Message:
    """The protobuf timestamp of an instant in microseconds since 1970, UTC."""
    message = Timestamp()
    message.FromMicroseconds(microseconds)
    return message
