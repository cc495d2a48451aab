"""Servers that the adapters are tested against, always through Google's own clients."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.cloud.served import TPU, ServedApi

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.local.firestore import FirestoreServer
from tpu_recovery.local.stack import INDEXES


@pytest.fixture(autouse=True)
def fresh_clients() -> Iterator[None]:
    """A process makes each client once; a test has its own servers."""
    yield
    clients.forget()


@pytest.fixture(scope="session")
def firestore_port() -> Iterator[int]:
    server = FirestoreServer(indexes=INDEXES)
    yield server.start()
    server.stop()


@pytest.fixture
def store(firestore_port: int, monkeypatch: pytest.MonkeyPatch) -> FirestoreStore:
    """An empty database: no other test has its project."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{firestore_port}")
    return FirestoreStore(clients.firestore_client(f"project-{uuid.uuid4().hex[:8]}", "tpu-recovery"))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[ServedApi, str], None]]:
    """Starts an API that answers as the test says, and points a client's variable at it."""
    started: list[ServedApi] = []

    def start(api: ServedApi, variable: str) -> None:
        monkeypatch.setenv(variable, api.start())
        started.append(api)

    yield start
    for api in started:
        api.stop()


@pytest.fixture
def tpu(serve: Callable[[ServedApi, str], None]) -> ServedApi:
    api = ServedApi(*TPU)
    serve(api, clients.TPU_HOST)
    return api
