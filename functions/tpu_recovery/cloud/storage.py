"""The CheckpointReader port on Cloud Storage: list calls with prefix and delimiter, never a walk of the bucket."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions

from tpu_recovery.checkpoints import Unreadable, Verdict, judge, newest_complete
from tpu_recovery.checkpoints.bucket import bucket_and_prefix, names_below
from tpu_recovery.cloud.clients import CALL_SECONDS
from tpu_recovery.model.observed import CheckpointFinding, CheckpointReading
from tpu_recovery.model.spec import Checkpoints

if TYPE_CHECKING:
    import google.cloud.storage

_CONNECT_SECONDS = 3.0
"""Connecting and reading are timed one after the other; together they may take CALL_SECONDS."""

_TIMEOUT = (_CONNECT_SECONDS, CALL_SECONDS - _CONNECT_SECONDS)

_FINDINGS = {
    Verdict.RESUME: CheckpointFinding.FOUND,
    Verdict.START: CheckpointFinding.EMPTY,
    Verdict.INCOMPLETE: CheckpointFinding.INCOMPLETE,
    Verdict.OLDER: CheckpointFinding.OLDER,
    Verdict.MISSING: CheckpointFinding.OLDER,
}


class BucketCheckpoints:
    """Checkpoints below gs:// paths. The client is made at the first reading: most looks need none."""

    def __init__(self, client: Callable[[], google.cloud.storage.Client]) -> None:
        self._client = client

    def newest(self, checkpoints: Checkpoints, seen_step: int | None) -> CheckpointReading:
        """See CheckpointReader.newest."""
        try:
            choice = newest_complete(_ClientListing(self._client), checkpoints.path, checkpoints.format)
        except Unreadable as problem:
            return CheckpointReading(finding=CheckpointFinding.UNREADABLE, why=str(problem))
        verdict, why = judge(choice, seen_step)
        return CheckpointReading(finding=_FINDINGS[verdict], step=choice.step, path=choice.path or "", why=why)


class _ClientListing:
    """One look into a directory of a bucket, through the real client."""

    def __init__(self, client: Callable[[], google.cloud.storage.Client]) -> None:
        self._client = client

    def directories(self, path: str) -> list[str]:
        """Names of the prefixes directly under the path."""
        return names_below(path, self._list(path).prefixes)

    def files(self, path: str) -> dict[str, int]:
        """Names and sizes of the objects directly under the path."""
        blobs = self._list(path).blobs
        return {name: size for blob, size in blobs for name in names_below(path, [blob])}

    def _list(self, path: str) -> _Page:
        bucket, prefix = bucket_and_prefix(path)
        fields = "prefixes,items(name,size),nextPageToken"
        try:
            pages: Any = self._client().list_blobs(
                bucket, prefix=prefix, delimiter="/", fields=fields, timeout=_TIMEOUT, retry=None
            )
            blobs = [(str(blob.name), int(blob.size or 0)) for blob in pages]
            return _Page(blobs, [str(prefix) for prefix in pages.prefixes])
        except (exceptions.GoogleAPICallError, auth_exceptions.GoogleAuthError, OSError) as error:
            raise Unreadable(path, _words(bucket, error)) from error


class _Page:
    """One directory of a bucket, all its pages."""

    def __init__(self, blobs: list[tuple[str, int]], prefixes: list[str]) -> None:
        self.blobs = blobs
        self.prefixes = prefixes


def _words(bucket: str, error: Exception) -> str:
    if isinstance(error, exceptions.NotFound):
        return f"bucket {bucket} does not exist"
    if isinstance(error, (exceptions.Forbidden, exceptions.Unauthorized)):
        return f"the service's account may not list bucket {bucket}; it needs storage.objects.list there"
    return f"bucket {bucket} cannot be listed: {error}"
