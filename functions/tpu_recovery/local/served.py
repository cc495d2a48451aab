"""What the local servers have in common: which calls and fields they serve, and pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import grpc

from tpu_recovery.local.rpc import Call, Refusal, unary, unimplemented

Item = TypeVar("Item")

Message = Any
"""A bare protobuf message (not the proto-plus object around it)."""


def bare(message: Any) -> Message:
    """The protobuf message inside a proto-plus object."""
    return type(message).pb(message)


def handlers(
    calls: Mapping[str, Call], served: Mapping[str, Callable[[Message], Message]]
) -> dict[str, grpc.RpcMethodHandler]:
    """RPC handlers of a service: the served calls get bare messages, all others are refused as UNIMPLEMENTED."""
    unknown = served.keys() - calls.keys()
    if unknown:
        raise LookupError(f"the installed client makes no such calls: {sorted(unknown)}")
    return {
        name: unary(_given_bare(served[name]) if name in served else unimplemented(name), call.parse)
        for name, call in calls.items()
    }


def _given_bare(handler: Callable[[Message], Message]) -> Callable[[Any], Message]:
    return lambda request: handler(bare(request))


def refuse_unserved(message: Message, served: Collection[str]) -> None:
    """Refuse a message that sets a field which would silently have no effect here."""
    for field, _ in message.ListFields():
        if field.name not in served:
            raise Refusal(
                grpc.StatusCode.UNIMPLEMENTED,
                f"the local stack does not serve {message.DESCRIPTOR.name}.{field.name}: nothing here uses it",
            )


def page(items: Sequence[Item], size: int, token: str) -> tuple[Sequence[Item], str]:
    """The items of one page and the token of the next ('' after the last). ``size`` 0 means 1,000."""
    if token and not token.isdecimal():
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"page_token {token!r} was not given out by this server")
    start = int(token or 0)
    end = start + (size or 1000)
    return items[start:end], str(end) if end < len(items) else ""


def invalid(message: str) -> Refusal:
    """A refusal of what the caller sent."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


def seconds(duration: Message) -> float:
    """A protobuf Duration in seconds."""
    return float(duration.seconds + duration.nanos / 1e9)
