"""Names of documents and paths of fields: how they are split, and which ones Firestore refuses."""

from __future__ import annotations

import functools
import re
from typing import TypeAlias

from tpu_recovery.local.firestore.refusals import invalid

FieldPath: TypeAlias = tuple[str, ...]
"""Field names from the document's root downwards."""

NAME: FieldPath = ("__name__",)
"""The pseudo field that stands for the document's own name."""

_DATABASE = re.compile(r"projects/[^/]+/databases/[^/]+")
_RESERVED = re.compile(r"__.*__", re.DOTALL)
_FIELD = re.compile(r"(?P<plain>[a-zA-Z_][a-zA-Z_0-9]*)|`(?P<quoted>(?:[^`\\]|\\.)+)`", re.DOTALL)
_LONGEST_ID = 1500  # bytes: https://firebase.google.com/docs/firestore/quotas, "Maximum size for a document ID"
_LONGEST_NAME = 6 * 1024  # bytes: the same page, "Maximum size for a document name"


def check_database(name: str) -> str:
    """``name`` itself when it is ``projects/P/databases/D``.

    Raises Refusal (INVALID_ARGUMENT) for anything else.
    """
    if not _DATABASE.fullmatch(name):
        raise invalid(f'Database name "{name}" is not projects/PROJECT/databases/DATABASE.')
    return name


def database_of(name: str) -> str:
    """``projects/P/databases/D`` of a document's or parent's full name; Refusal (INVALID_ARGUMENT) when it has none."""
    found = _DATABASE.match(name)
    if found is None or name[found.end() :].split("/")[:2] != ["", "documents"]:
        raise invalid(f'Document name "{name}" is not projects/PROJECT/databases/DATABASE/documents/….')
    return found.group()


@functools.lru_cache(maxsize=65_536)
def check_document_name(name: str) -> None:
    """Refuse (INVALID_ARGUMENT) a name that Firestore would not store a document under."""
    segments = _segments(name)
    if not segments or len(segments) % 2:
        raise invalid(f'Document name "{name}" lacks a document id: collection and id must alternate.')


def check_parent(name: str) -> None:
    """Refuse (INVALID_ARGUMENT) what cannot have collections below it: it must be the root or a document."""
    if len(_segments(name)) % 2:
        raise invalid(f'Parent "{name}" is a collection: it must be a document or the root of the documents.')


def _segments(name: str) -> list[str]:
    """Collections and ids below the database's root, each one checked."""
    relative = name[len(database_of(name)) + len("/documents") :]
    segments = relative.split("/")[1:]
    for segment in segments:
        _check_segment(segment, name)
    if len(relative.encode()) > _LONGEST_NAME:
        raise invalid(f"Document name is longer than {_LONGEST_NAME} bytes: {name[:100]}…")
    return segments


def _check_segment(segment: str, name: str) -> None:
    if not segment:
        raise invalid(f'Document name "{name}" lacks a resource id: two slashes in a row, or one at the end.')
    if segment in (".", ".."):
        raise invalid(f'Document name "{name}" contains a resource id "{segment}".')
    if _RESERVED.fullmatch(segment):
        raise invalid(f'Resource id "{segment}" is invalid because it is reserved.')
    if len(segment.encode()) > _LONGEST_ID:
        raise invalid(f"The key path element name is longer than {_LONGEST_ID} bytes: {segment[:100]}…")


def collection_of(name: str) -> str:
    """The full path of the collection that holds the document ``name``."""
    return name.rpartition("/")[0]


def collection_id_of(name: str) -> str:
    """The last part of the collection's path: ``incidents`` for ``…/jobs/train/incidents/1``."""
    return collection_of(name).rpartition("/")[2]


@functools.lru_cache(maxsize=4096)
def parse_field_path(text: str) -> FieldPath:
    """Split a dotted path; names other than plain identifiers are in backquotes.

    Raises Refusal (INVALID_ARGUMENT) when it is malformed.
    """
    path: list[str] = []
    position = 0
    while found := _FIELD.match(text, position):
        quoted = found["quoted"]
        path.append(found["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        position = found.end() + 1
        if found.end() == len(text):
            return tuple(path)
        if text[found.end()] != ".":
            break
    raise invalid(
        f'Invalid property path "{text}". Unquoted property paths must match regex ([a-zA-Z_][a-zA-Z_0-9]*), '
        r"and quoted property paths must match regex (`(?:[^`\\]|(?:\\.))+`)"
    )


def check_field_name(name: str) -> None:
    """Refuse (INVALID_ARGUMENT) a name that a field of a document or map cannot have."""
    if not name:
        raise invalid("field name is empty")
    if _RESERVED.fullmatch(name):
        raise invalid(f"field name {name} is reserved")
    if len(name.encode()) > _LONGEST_ID:
        raise invalid(f"field name is longer than {_LONGEST_ID} bytes: {name[:100]}…")
