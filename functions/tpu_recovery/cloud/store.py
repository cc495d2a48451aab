"""The Store port on Firestore: plain reads and atomic batches with preconditions; no transactions (docs/design.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.api_core import exceptions
from google.api_core.retry import Retry
from google.api_core.timeout import TimeToDeadlineTimeout
from google.cloud import firestore
from google.cloud.firestore_v1.base_query import FieldFilter

from tpu_recovery.cloud.clients import AGAIN, CALL_SECONDS
from tpu_recovery.errors import AlreadyExists, Conflict, Unreadable, Unstorable
from tpu_recovery.recovery.ports import Change, Create, Filter, Replace, Stored, Write

_ONCE = Retry(predicate=lambda _error: False)
"""A stream that breaks is begun anew as a whole. The query's own way to go on takes no None and knows no deadline."""


class FirestoreStore:
    """Documents in one named database."""

    def __init__(self, client: firestore.Client) -> None:
        self._client = client

    def get(self, *paths: str) -> Sequence[Stored | None]:
        """See Store.get."""
        references = [self._client.document(path) for path in paths]
        found = {
            snapshot.reference.path: snapshot
            for snapshot in _read(lambda timeout: self._client.get_all(references, retry=_ONCE, timeout=timeout))
            if snapshot.exists
        }
        return [_stored(found[path]) if path in found else None for path in paths]

    def find(self, collection: str, *filters: Filter, limit: int = 0) -> Sequence[Stored]:
        """See Store.find."""
        query: Any = self._client.collection(collection)
        for field, operator, value in filters:
            query = query.where(filter=FieldFilter(field, operator, value))
        if limit:
            query = query.limit(limit)
        return [_stored(one) for one in _read(lambda timeout: query.stream(retry=_ONCE, timeout=timeout))]

    def commit(self, writes: Sequence[Write]) -> Sequence[object]:
        """See Store.commit.

        Made once: repeated after a lost answer, it would find its own writes and call them a conflict.
        """
        batch = self._client.batch()
        for write in writes:
            reference = self._client.document(write.path)
            match write:
                case Create(fields=fields):
                    batch.create(reference, dict(fields))
                case Replace(fields=fields, version=version):
                    self._replace(batch, reference, fields, version)
                case Change(fields=fields):
                    batch.update(reference, dict(fields))
        try:
            return [result.update_time for result in batch.commit(retry=None, timeout=CALL_SECONDS)]
        except exceptions.AlreadyExists as error:
            raise AlreadyExists(str(error)) from error
        except (exceptions.FailedPrecondition, exceptions.Aborted, exceptions.NotFound) as error:
            raise Conflict(str(error)) from error
        except exceptions.InvalidArgument as error:
            raise Unstorable(f"Firestore refuses what is to be written: {error}") from error
        except exceptions.GoogleAPIError as error:
            raise Unreadable(f"Firestore does not answer: {error}") from error

    def _replace(self, batch: Any, reference: Any, fields: Mapping[str, Any], version: object) -> None:
        """Update all top-level fields: an absent one was absent before, because every field is written every time."""
        batch.update(reference, dict(fields), option=self._client.write_option(last_update_time=version))


def _read(stream: Callable[[float], Any]) -> list[Any]:
    """All of a stream of documents, however often it has to be begun. Raises Unreadable."""

    def attempt(timeout: float) -> list[Any]:
        return list(stream(timeout))

    try:
        documents: list[Any] = AGAIN(TimeToDeadlineTimeout(CALL_SECONDS)(attempt))()
    except exceptions.GoogleAPIError as error:
        raise Unreadable(f"Firestore does not answer: {error}") from error
    return documents


def _stored(snapshot: Any) -> Stored:
    return Stored(snapshot.reference.path, _plain(snapshot.to_dict() or {}), snapshot.update_time)


def _plain(value: Any) -> Any:
    """Firestore's own datetimes become the standard library's, to the microsecond, in UTC."""
    if isinstance(value, datetime):
        return datetime.fromtimestamp(value.timestamp(), UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
