"""Log entries to start from in tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpu_recovery.events.entry import parse_entry
from tpu_recovery.model.messages import Event

SAMPLES = Path(__file__).parent / "samples"
SERVICE_ACCOUNT = "tpu-recovery@demo-proj-123.iam.gserviceaccount.com"

SYSTEM_EVENT = "tpu_nodes_terminate_preempted.json"
WORKER_EVENT = "compute_instances_preempted_worker.json"
CALL = "tpu_v2_createnode_last_stockout.json"

Place = tuple[str | int, ...]


def sample(name: str) -> dict[str, Any]:
    """One sample entry."""
    entry: dict[str, Any] = json.loads((SAMPLES / name).read_text())
    return entry


def event_of(entry: object) -> Event:
    """The event in an entry, as the service would read it."""
    return parse_entry(json.dumps(entry).encode(), service_account=SERVICE_ACCOUNT)


def changed(document: Any, path: Place, value: object) -> Any:
    """A copy of a document with another value at one place."""
    document = copy.deepcopy(document)
    holder = document
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return document


def without(document: Any, path: Place) -> Any:
    """A copy of a document that lacks one member."""
    document = copy.deepcopy(document)
    holder = document
    for part in path[:-1]:
        holder = holder[part]
    del holder[path[-1]]
    return document


def places(document: object, path: Place = ()) -> Iterator[Place]:
    """Every place in a document."""
    members: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(document, dict):
        members = iter(document.items())
    elif isinstance(document, list):
        members = iter(enumerate(document))
    for name, value in members:
        yield (*path, name)
        yield from places(value, (*path, name))
