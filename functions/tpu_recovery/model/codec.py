"""Between our structs and plain documents (dicts, lists, strings, numbers, datetimes)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tpu_recovery.errors import Invalid
from tpu_recovery.model.duration import Duration

T = TypeVar("T")


def to_document(value: object) -> dict[str, Any]:
    """A struct as a document; datetimes stay datetimes, durations become text like ``1h30m``."""
    document = msgspec.to_builtins(value, builtin_types=(datetime,), enc_hook=_encode)
    if not isinstance(document, dict):
        raise TypeError(f"{type(value).__name__} is not a document")
    return document


def from_document(document: object, kind: type[T], *, strict: bool = True) -> T:
    """A struct from a document. Raises msgspec.ValidationError when it does not fit."""
    return msgspec.convert(document, kind, strict=strict, dec_hook=_decode)


def _encode(value: object) -> object:
    if isinstance(value, Duration):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no document form")


def _decode(kind: type, value: object) -> object:
    if kind is Duration:
        try:
            return Duration.parse(value)
        except Invalid as problem:
            raise ValueError(problem.expected) from problem  # msgspec adds which field it is
    raise TypeError(f"{kind.__name__} has no document form")
