"""Values of our structs for property-based tests, made from their type hints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from tpu_recovery.model.duration import LONGEST, Duration

moments = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
durations = st.integers(0, int(LONGEST.total_seconds())).map(lambda seconds: Duration(seconds=seconds))
numbers = st.integers(0, 2**31 - 1)

_SIMPLE: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=20),
    int: numbers,
    float: st.floats(0.001, 1e6),
    bool: st.booleans(),
    datetime: moments,
    Duration: durations,
    NoneType: st.none(),
}


_COMPOSED: dict[object, Callable[[tuple[Any, ...]], st.SearchStrategy[Any]]] = {
    Annotated: lambda arguments: values_of(arguments[0]),
    Literal: st.sampled_from,
    Union: lambda arguments: st.one_of(*map(values_of, arguments)),
    UnionType: lambda arguments: st.one_of(*map(values_of, arguments)),
    tuple: lambda arguments: st.lists(values_of(arguments[0]), max_size=2).map(tuple),
    dict: lambda arguments: st.dictionaries(*map(values_of, arguments), max_size=2),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """All values that fit a type hint as it occurs in our structs."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin := get_origin(hint):
        return _COMPOSED[origin](get_args(hint))
    if issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    return st.builds(hint, **fields_of(hint))


def fields_of(kind: Any) -> dict[str, st.SearchStrategy[Any]]:
    """For every field of a struct or named tuple: the values that fit."""
    hints = get_type_hints(kind, include_extras=True)
    names = kind._fields if issubclass(kind, tuple) else kind.__struct_fields__
    return {name: values_of(hints[name]) for name in names}
