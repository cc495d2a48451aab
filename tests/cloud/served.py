"""A Google API over gRPC that answers as the test says: for what a local server would never do by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.longrunning import operations_pb2

from tpu_recovery.local import rpc
from tpu_recovery.local.rpc import Refusal

TPU = (
    "google.cloud.tpu_v2alpha1.services.tpu.transports.grpc",
    "TpuGrpcTransport",
    "google.cloud.tpu.v2alpha1.Tpu",
)
TASKS = (
    "google.cloud.tasks_v2.services.cloud_tasks.transports.grpc",
    "CloudTasksGrpcTransport",
    "google.cloud.tasks.v2.CloudTasks",
)
FIRESTORE = (
    "google.cloud.firestore_v1.services.firestore.transports.grpc",
    "FirestoreGrpcTransport",
    "google.firestore.v1.Firestore",
)
OPERATIONS = "google.longrunning.Operations"

FAILURES = tuple(code for code in grpc.StatusCode if code is not grpc.StatusCode.OK)


class ServedApi:
    """Every call gets the next of `answers`, the last one again and again: a message, or a code to be refused with.

    ``calls`` lists the short names of the calls that arrived.
    """

    def __init__(self, transports: str, transport: str, service: str) -> None:
        self.answers: list[Any] = [grpc.StatusCode.UNIMPLEMENTED]
        self.calls: list[str] = []
        self._table = (transports, transport, service)
        self._server: grpc.Server | None = None

    def start(self) -> str:
        """Serve; gives host and port."""
        calls = rpc.calls_of(*self._table)
        services = {
            self._table[2]: {name: rpc.unary(self._answer(name), call.parse) for name, call in calls.items()},
            OPERATIONS: {
                "GetOperation": rpc.unary(self._answer("GetOperation"), operations_pb2.GetOperationRequest.FromString)
            },
        }
        self._server, port = rpc.serve(services)
        return f"127.0.0.1:{port}"

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.stop(None).wait()

    def _answer(self, name: str) -> Callable[[Any], Any]:
        def answer(_request: Any) -> Any:
            self.calls.append(name)
            given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(given, grpc.StatusCode):
                raise Refusal(given, "because the test says so")
            return given

        return answer
