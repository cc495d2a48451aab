"""Serve a Google API's gRPC service from plain Python functions, so that the real client can talk to it.

The table of calls (path, request class, response class) is read off the installed client itself: its transport
is pointed at a channel that only records what it is asked to set up. So no .proto file is needed and
the server cannot drift from the client that the service uses.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.auth.credentials import AnonymousCredentials
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

Handler = Callable[[Any], Any]
"""Takes the request message and gives the response message; refuses by raising :class:`Refusal`."""


LARGEST_REQUEST = 16 << 20
"""Bytes; above every limit of the APIs themselves, so that their own refusals are what a client sees."""


class Refusal(Exception):
    """An error that the server answers with, as the real API would."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Call:
    """One RPC of a service: its short name and how its messages travel."""

    name: str
    parse: Callable[[bytes], Any]
    serialize: Callable[[Any], bytes]
    response_class: Any


class _Recorder:
    """Stands in for a channel; keeps what the transport asks for."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Any, Any]] = {}

    def unary_unary(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Callable[..., None]:
        self.calls[path] = (request_serializer, response_deserializer)
        return lambda *_args, **_kwargs: None

    def unary_stream(self, _path: str, **_: Any) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None

    stream_unary = stream_stream = unary_stream


def calls_of(transport_module: str, transport_class: str, service: str) -> dict[str, Call]:
    """The unary calls of ``service`` (for example ``google.cloud.tpu.v2alpha1.Tpu``), by short name.

    Raises LookupError when nothing was recorded: the client's private attribute that this relies on has moved.
    """
    transport_type = getattr(importlib.import_module(transport_module), transport_class)
    transport = transport_type(channel=grpc.insecure_channel("127.0.0.1:1"), credentials=AnonymousCredentials())
    recorder = _Recorder()
    transport._logged_channel = recorder
    transport._stubs = {}
    for name, member in vars(transport_type).items():
        if isinstance(member, property) and not name.startswith("_"):
            getattr(transport, name)  # creating the stub is what records the call
    calls = {
        path.rsplit("/", 1)[1]: _call(path.rsplit("/", 1)[1], serializer, deserializer)
        for path, (serializer, deserializer) in recorder.calls.items()
        # Calls whose request is a bare protobuf class are the IAM mixin, which has no class of this service.
        if path.startswith(f"/{service}/") and hasattr(serializer, "__self__")
    }
    if not calls:
        raise LookupError(f"{transport_class} of {transport_module} set up no call of {service}")
    return calls


def _call(name: str, request_serializer: Any, response_deserializer: Any) -> Call:
    request_class = request_serializer.__self__  # both are class methods of the message class
    response_class = getattr(response_deserializer, "__self__", operations_pb2.Operation)
    if response_deserializer == empty_pb2.Empty.FromString:
        response_class = empty_pb2.Empty
    parse = getattr(request_class, "deserialize", None) or request_class.FromString
    return Call(name, cast("Callable[[bytes], Any]", parse), serialize, response_class)


def serialize(message: Any) -> bytes:
    """Bytes of a protobuf or proto-plus message."""
    kind = type(message)
    encode = getattr(kind, "serialize", None)
    return cast("bytes", encode(message) if encode else message.SerializeToString())


def serve(
    services: Mapping[str, Mapping[str, grpc.RpcMethodHandler]], *, port: int = 0, workers: int = 16
) -> tuple[grpc.Server, int]:
    """Serve the given services on loopback; returns the server (keep it: a collected server stops) and its port."""
    server = grpc.server(
        futures.ThreadPoolExecutor(workers), options=[("grpc.max_receive_message_length", LARGEST_REQUEST)]
    )
    for service, handlers in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound


def unary(handler: Handler, parse: Callable[[bytes], Any]) -> grpc.RpcMethodHandler:
    """A unary-unary RPC handler; a :class:`Refusal` becomes the RPC's status."""

    def respond(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return handler(request)
        except Refusal as refusal:
            context.abort(refusal.code, refusal.message)

    return grpc.unary_unary_rpc_method_handler(respond, parse, serialize)


def unimplemented(name: str) -> Handler:
    """The handler of a call that this project does not make: it fails loudly instead of guessing an answer."""

    def refuse(_request: Any) -> Any:
        raise Refusal(grpc.StatusCode.UNIMPLEMENTED, f"the local stack does not serve {name}: nothing here calls it")

    return refuse
