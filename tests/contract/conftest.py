"""The servers that the contract suites run against. Add one to a table here and the whole suite must pass on it too."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from google.cloud import firestore

from tpu_recovery.local.firestore import FirestoreServer


@contextlib.contextmanager
def _embedded_firestore() -> Iterator[str]:
    server = FirestoreServer()
    port = server.start()
    yield f"127.0.0.1:{port}"
    server.stop()


_FIRESTORES: dict[str, Callable[[], AbstractContextManager[str]]] = {"embedded": _embedded_firestore}


@pytest.fixture(scope="session", params=list(_FIRESTORES))
def firestore_host(request: pytest.FixtureRequest) -> Iterator[str]:
    with _FIRESTORES[request.param]() as host:
        yield host


@pytest.fixture
def firestore_open(firestore_host: str) -> Iterator[Callable[[str, str], firestore.Client]]:
    """Opens a real client for a project and a database; all are closed after the test."""
    with contextlib.ExitStack() as closing, pytest.MonkeyPatch.context() as environment:
        environment.setitem(os.environ, "FIRESTORE_EMULATOR_HOST", firestore_host)

        def open_client(project: str, database: str) -> firestore.Client:
            client = firestore.Client(project=project, database=database)
            closing.callback(client.close)
            return client

        yield open_client


@pytest.fixture
def firestore_client(firestore_open: Callable[[str, str], firestore.Client]) -> firestore.Client:
    """A client whose database is empty: no other test has its project."""
    return firestore_open(f"project-{uuid.uuid4().hex[:8]}", "tpu-recovery")
