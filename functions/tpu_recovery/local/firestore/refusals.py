"""The refusals of this server, one function per status code."""

from __future__ import annotations

import grpc

from tpu_recovery.local.rpc import Refusal


def invalid(message: str) -> Refusal:
    """The request can never succeed as it is."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


def failed_precondition(message: str) -> Refusal:
    """The stored state, or the declared indexes, do not allow the request."""
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, message)


def not_found(message: str) -> Refusal:
    """The document is not there."""
    return Refusal(grpc.StatusCode.NOT_FOUND, message)


def already_exists(message: str) -> Refusal:
    """The document is there already."""
    return Refusal(grpc.StatusCode.ALREADY_EXISTS, message)


def not_served(what: str) -> Refusal:
    """Real Firestore has it, this server does not."""
    return Refusal(
        grpc.StatusCode.UNIMPLEMENTED,
        f"the local stack's Firestore does not serve {what}: nothing in tpu-recovery uses it",
    )
