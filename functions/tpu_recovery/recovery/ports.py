"""What recovering needs from outside, as small protocols. Real implementations: tpu_recovery.cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tpu_recovery.model.decision import Notify
from tpu_recovery.model.observed import CheckpointReading, NodeReading, OperationReading
from tpu_recovery.model.spec import Checkpoints
from tpu_recovery.recovery.settings import Settings


class Stored(NamedTuple):
    """A document as it was read. ``version`` is opaque; a replacement needs it."""

    path: str
    fields: Mapping[str, Any]
    version: object


class Create(NamedTuple):
    """Write a document that must not exist yet."""

    path: str
    fields: Mapping[str, Any]


class Replace(NamedTuple):
    """Write a document over the very version that was read."""

    path: str
    fields: Mapping[str, Any]
    version: object


class Change(NamedTuple):
    """Set some fields of a document that exists."""

    path: str
    fields: Mapping[str, Any]


Write = Create | Replace | Change
Filter = tuple[str, str, object]
"""Field, operator (``==``, ``in``, ``array_contains``), value."""


class Store(Protocol):
    """Documents. Every method raises Unreadable when the service gives no answer that can be relied on."""

    def get(self, *paths: str) -> Sequence[Stored | None]:
        """The documents at these paths, in this order, by one call."""
        ...

    def find(self, collection: str, *filters: Filter, limit: int = 0) -> Sequence[Stored]:
        """Documents of a collection that match all filters; limit 0: all of them."""
        ...

    def commit(self, writes: Sequence[Write]) -> Sequence[object]:
        """Make all writes or none of them; gives each document's new version.

        Raises Conflict when a document has another version or is gone, AlreadyExists when one is there already,
        Unstorable when one of them would be too large.
        """
        ...


class NodeRequest(NamedTuple):
    """A CreateNode call: where, under which id, which request id, and the node's fields by the API's own names."""

    parent: str
    node_id: str
    request_id: str
    node: Mapping[str, Any]


class Attributes(NamedTuple):
    """What the workers wrote into guest attributes: their host names, and the newest reports as JSON."""

    hostnames: tuple[str, ...]
    reports: tuple[str, ...]


class Capacity(Protocol):
    """Capacity by full resource name. Nothing outside an implementation knows which API is behind it."""

    def describe(self, name: str) -> NodeReading:
        """A fresh reading. An error of the API is a reading too: unreadable."""
        ...

    def describe_operation(self, name: str) -> OperationReading:
        """A fresh reading of a long-running operation."""
        ...

    def list_nodes(self, project: str, zone: str) -> Sequence[NodeReading]:
        """All nodes of a zone. Raises Refused when there is no such zone or no permission for it, or Unreadable."""
        ...

    def create(self, request: NodeRequest) -> str:
        """Ask for a node; gives the operation's name. The same request id again gives the same operation.

        Raises AlreadyExists, Refused, or Unreadable when it is unknown whether the call arrived.
        """
        ...

    def delete(self, name: str) -> None:
        """Ask for a node's deletion. Raises NotFound, Refused or Unreadable."""
        ...

    def write_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Set keys of a node's metadata and leave the others as they are. Raises NotFound, Refused or Unreadable."""
        ...

    def attributes(self, name: str) -> Attributes:
        """What the workers wrote. Raises Unreadable, also when guest attributes are switched off."""
        ...


class Timers(Protocol):
    """Calls of this service by itself, later. Creating the same one again is success. All raise Unreadable."""

    def call_later(self, path: str, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """POST ``body`` as JSON to ``path`` of this service at ``at``, once for this ``key``."""
        ...

    def queue_create(self, body: Mapping[str, Any], *, key: str, at: datetime) -> None:
        """The same through the rate-limited queue of creations."""
        ...


class CheckpointReader(Protocol):
    """The checkpoint location of a job."""

    def newest(self, checkpoints: Checkpoints, seen_step: int | None) -> CheckpointReading:
        """The newest complete checkpoint. What cannot be read is a finding too: unreadable."""
        ...


class Notifier(Protocol):
    """Where people are told."""

    def tell(self, job: str, notice: Notify) -> None:
        """Send a notice. Raises Unreadable."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Everything outside, in one place. The clock gives UTC; ``fresh`` gives an unguessable word at each call."""

    store: Store
    capacity: Capacity
    timers: Timers
    checkpoints: CheckpointReader
    notifier: Notifier
    clock: Callable[[], datetime]
    fresh: Callable[[], str]
    settings: Settings
    startup_script: Callable[[], str]
