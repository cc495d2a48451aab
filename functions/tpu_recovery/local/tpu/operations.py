"""Long-running operations, as google.longrunning.Operations shows them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.cloud.tpu_v2alpha1.types import OperationMetadata
from google.longrunning import operations_pb2
from google.rpc import status_pb2


@dataclass
class Operation:
    """Work on one node that was accepted at ``created`` and has ended once it has a response or an error."""

    name: str
    method: str
    target: str
    principal: str
    created: float
    ended: float | None = None
    response: Any = None
    error: status_pb2.Status | None = None

    def message(self) -> operations_pb2.Operation:
        """The operation as the API gives it out."""
        metadata = OperationMetadata(
            create_time=datetime.fromtimestamp(self.created, UTC),
            target=self.target,
            verb=self.method.removesuffix("Node").lower(),
            api_version="v2alpha1",
        )
        message = operations_pb2.Operation(name=self.name, done=self.ended is not None)
        if self.ended is not None:
            metadata.end_time = datetime.fromtimestamp(self.ended, UTC)
        message.metadata.Pack(OperationMetadata.pb(metadata))
        if self.error is not None:
            message.error.CopyFrom(self.error)
        elif self.response is not None:
            message.response.Pack(self.response)
        return message


def new_name(parent: str, now: float) -> str:
    """A name of the platform's form: operation-<milliseconds>-<13 hex>-<8 hex>-<8 hex>."""
    unique = secrets.token_hex(15)
    return f"{parent}/operations/operation-{int(now * 1000)}-{unique[:13]}-{unique[13:21]}-{unique[21:29]}"
