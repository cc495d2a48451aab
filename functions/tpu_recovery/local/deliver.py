"""How the local Pub/Sub and Cloud Tasks servers call a handler: one HTTP request, with the caller's identity."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Protocol, cast

import urllib3

NOT_SIGNED = "not-signed"
"""The signature of every token made here. No verifier of Google's tokens accepts it."""


class Post(Protocol):
    """Something that sends HTTP requests."""

    def __call__(
        self, url: str, *, body: bytes, headers: Mapping[str, str], timeout: float, method: str = "POST"
    ) -> int | None:
        """Send one request; its status, or None when no answer came in ``timeout`` seconds."""


class Poster:
    """Sends HTTP requests over connections that are kept open; the real :class:`Post`."""

    def __init__(self, connections: int = 64) -> None:
        self._pool = urllib3.PoolManager(maxsize=connections, retries=False)

    def __call__(
        self, url: str, *, body: bytes, headers: Mapping[str, str], timeout: float, method: str = "POST"
    ) -> int | None:
        """Send it once. A refused, broken or too slow connection is no answer; a redirect is not followed."""
        try:
            answer = self._pool.request(
                method, url, body=body or None, headers=dict(headers), timeout=timeout, redirect=False
            )
        except urllib3.exceptions.HTTPError:
            return None
        return answer.status

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._pool.clear()


def bearer(email: str, audience: str) -> str:
    """The Authorization header of a call made as service account ``email``.

    It has the shape of Google's OIDC tokens but is an obvious fake: algorithm "none" and no signature. It exists so
    that tests can see which calls carry an identity, and whose.
    """
    claims = {"iss": "tpu-recovery local stack", "email": email, "email_verified": True, "aud": audience}
    return f"Bearer {_encode({'alg': 'none', 'typ': 'JWT'})}.{_encode(claims)}.{NOT_SIGNED}"


def claims_of(authorization: str) -> dict[str, object]:
    """What a header made by :func:`bearer` says; ValueError when it was made by somebody else."""
    scheme, _, token = authorization.partition(" ")
    parts = token.split(".")
    if scheme != "Bearer" or len(parts) != 3 or parts[2] != NOT_SIGNED:
        raise ValueError(f"not a token of the local stack: {authorization!r}")
    return cast("dict[str, object]", json.loads(base64.urlsafe_b64decode(parts[1] + "==")))


def _encode(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
