"""Values, documents and writes as the real client sends them."""

from __future__ import annotations

from typing import Any

from google.cloud.firestore_v1 import _helpers

from tpu_recovery.local.firestore.messages import Document, Message, Value, Write

DATABASE = "projects/p/databases/tpu-recovery"
ROOT = f"{DATABASE}/documents"


def value(python: Any) -> Message:
    encoded: Message = Value()
    encoded.CopyFrom(_helpers.encode_value(python)._pb)
    return encoded


def document(path: str, **fields: Any) -> Message:
    return Document(name=f"{ROOT}/{path}", fields={name: value(item) for name, item in fields.items()})


def setting(path: str, **fields: Any) -> Message:
    return Write(update=document(path, **fields))
