"""Client of the VM's metadata server: the hand-off, who this worker is, access tokens, guest attributes."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Callable, NamedTuple, Optional

_ROOT = "/computeMetadata/v1"
_TOKEN_MARGIN = 60.0  # seconds before its end at which a token is asked for anew


class MetadataSilent(OSError):
    """The metadata server did not give an answer that can be used. It can be silent for minutes, so ask again."""


class Value(NamedTuple):
    """A value of the metadata server and the tag by which a change of it is noticed."""

    text: str
    etag: str


class MetadataServer:
    """Asks without any proxy; ``timeout`` is in seconds, for each request."""

    def __init__(self, host: str, timeout: float = 5, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._base = f"http://{host}{_ROOT}"
        self._timeout = timeout
        self._monotonic = monotonic
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""
        self._token_until = 0.0

    def get(self, path: str) -> Optional[Value]:
        """The value at a path such as ``instance/name``; None when there is none. Raises MetadataSilent."""
        return self._ask(urllib.request.Request(f"{self._base}/{path}"), self._timeout)

    def wait_for_change(self, path: str, etag: str, seconds: float) -> Optional[Value]:
        """The value once it has another tag than ``etag``, or the present one after that time.

        Returns None at once when there is no value. Raises MetadataSilent.
        """
        query = {"wait_for_change": "true", "last_etag": etag, "timeout_sec": str(int(seconds))}
        url = f"{self._base}/{path}?{urllib.parse.urlencode(query)}"
        return self._ask(urllib.request.Request(url), seconds + self._timeout)

    def put_guest_attribute(self, namespace: str, key: str, value: str) -> None:
        """Write a guest attribute, which the TPU API's GetGuestAttributes shows. Raises MetadataSilent."""
        url = f"{self._base}/instance/guest-attributes/{namespace}/{key}"
        if self._ask(urllib.request.Request(url, data=value.encode(), method="PUT"), self._timeout) is None:
            raise MetadataSilent("guest attributes are not served here (404)")

    def token(self) -> str:
        """An access token of the VM's service account, kept until shortly before its end. Raises MetadataSilent."""
        if self._monotonic() >= self._token_until:
            value = self.get("instance/service-accounts/default/token")
            if value is None:
                raise MetadataSilent("this VM has no service account, so there is no access token")
            try:
                answer = json.loads(value.text)
                self._token = str(answer["access_token"])
                self._token_until = self._monotonic() + float(answer["expires_in"]) - _TOKEN_MARGIN
            except (ValueError, TypeError, KeyError):
                # Not chained: the message of the error could quote the answer, and with it the token.
                raise MetadataSilent("the metadata server's answer holds no access token") from None
        return self._token

    def _ask(self, request: urllib.request.Request, timeout: float) -> Optional[Value]:
        request.add_header("Metadata-Flavor", "Google")
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return Value(response.read().decode("utf-8"), response.headers.get("ETag", ""))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == http.client.NOT_FOUND:
                    return None
                raise MetadataSilent(f"the metadata server answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            raise MetadataSilent(f"the metadata server did not answer: {error}") from error
