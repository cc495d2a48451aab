"""Texts from outside are cut where they enter a document: one of more than 1 MiB could never be written again."""

from __future__ import annotations

from typing import Annotated

import msgspec

LONGEST_REASON = 2_000
"""Bytes of anything that says why: reasons, problems, errors, what a piece of evidence says."""

LONGEST_RAW = 8_000
"""Bytes of an entry's text that a piece of evidence keeps; the inbox keeps all of it."""

LONGEST_DETAIL = 500
"""Bytes of a runner's own words that a job's document keeps for each worker; the report is in the inbox."""

LONGEST_RESOURCE_NAME = 1_000
"""Bytes of a resource's full name."""

Word = Annotated[str, msgspec.Meta(max_length=256)]
"""A name or a word of the runner."""

Text = Annotated[str, msgspec.Meta(max_length=4_000)]
"""The longest text that a runner may send."""


def cut(text: str, most: int = LONGEST_REASON) -> str:
    """The text, or its beginning, in at most so many bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= most else data[: most - len("…".encode())].decode("utf-8", "ignore") + "…"
