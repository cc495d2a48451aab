"""Listing of a Cloud Storage bucket by its JSON API, with nothing but the standard library.

For the runner, which cannot count on any package being installed on the TPU VM.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from tpu_recovery.checkpoints.listing import Unreadable

Token = Callable[[], Optional[str]]
"""Gives an OAuth access token, or None to ask without one. May raise OSError."""


def bucket_and_prefix(path: str) -> Tuple[str, str]:
    """The bucket of ``gs://bucket/some/directory``, and what the names of all objects in the directory begin with."""
    bucket, _, directory = path[len("gs://") :].partition("/")
    directory = directory.rstrip("/")
    return bucket, f"{directory}/" if directory else ""


def names_below(path: str, found: Iterable[str]) -> List[str]:
    """Names in the directory ``path``, from the names of its objects or its prefixes in the bucket.

    Leaves out the empty name: the object that consoles create for a "folder", and what lies below ``directory//``.
    """
    _bucket, prefix = bucket_and_prefix(path)
    names = [one[len(prefix) :].partition("/")[0] for one in found if one.startswith(prefix)]
    return [name for name in names if name]


class BucketListing:
    """Lists ``gs://bucket/prefix`` paths one directory at a time (prefix and delimiter, page by page)."""

    def __init__(self, token: Token, base_url: str = "https://storage.googleapis.com", timeout: float = 10) -> None:
        """``base_url`` has no trailing path; ``timeout`` is in seconds, for each request."""
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout

    def directories(self, path: str) -> List[str]:
        """Names of the prefixes directly under ``path``."""
        found = [prefix for page in self._pages(path) for prefix in page.get("prefixes", [])]
        return names_below(path, found)

    def files(self, path: str) -> Dict[str, int]:
        """Names and sizes in bytes of the objects directly under ``path``."""
        items = [item for page in self._pages(path) for item in page.get("items", [])]
        names = [(names_below(path, [item["name"]]), int(item["size"])) for item in items]
        return {name: size for found, size in names for name in found}

    def _pages(self, path: str) -> Iterator[Dict[str, Any]]:
        bucket, prefix = bucket_and_prefix(path)
        if not path.startswith("gs://") or not bucket:
            raise ValueError(f"{path!r} is not a path in a bucket: gs://bucket/prefix is needed")
        query = {
            "prefix": prefix,
            "delimiter": "/",
            "fields": "prefixes,items(name,size),nextPageToken",
        }
        url = f"{self._base_url}/storage/v1/b/{urllib.parse.quote(bucket, safe='')}/o"
        while True:
            page = self._get(path, bucket, f"{url}?{urllib.parse.urlencode(query)}")
            yield page
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def _get(self, path: str, bucket: str, url: str) -> Dict[str, Any]:
        try:
            request = urllib.request.Request(url)  # noqa: S310 - the address is ours, never the user's
            token = self._token()
            if token:
                request.add_header("Authorization", f"Bearer {token}")
            with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310
                page = json.load(response)
        except urllib.error.HTTPError as error:
            with error:  # closes the connection it holds
                raise Unreadable(path, _refusal(error, bucket)) from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreadable(path, f"Cloud Storage did not answer: {error}") from error
        except ValueError as error:
            raise Unreadable(path, f"Cloud Storage answered with something that is not JSON: {error}") from error
        if not isinstance(page, dict):
            raise Unreadable(path, "Cloud Storage answered with something that is not a listing")
        return page


def _refusal(error: urllib.error.HTTPError, bucket: str) -> str:
    if error.code == http.client.NOT_FOUND:
        return f"bucket {bucket} does not exist"
    if error.code == http.client.UNAUTHORIZED:
        return f"bucket {bucket} refused the account's token (401): check the account and its access scopes"
    if error.code == http.client.FORBIDDEN:
        return f"no access to bucket {bucket} (403): the account needs storage.objects.list, and the storage scope"
    return f"Cloud Storage answered {error.code} {error.reason}"
