from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from tpu_recovery.local.firestore.queries import Query, parse_query

PARENT = "projects/p/databases/tpu-recovery/documents"


@pytest.fixture(scope="session")
def builder() -> Iterator[firestore.Client]:
    """A real client that connects to nothing: it only builds queries."""
    client = firestore.Client(project="p", database="tpu-recovery", credentials=AnonymousCredentials())
    yield client
    client.close()


@pytest.fixture
def parsed() -> Callable[[Any], Query]:
    """The server's reading of a query that the real client built."""
    return lambda query: parse_query(PARENT, query._to_protobuf()._pb)
