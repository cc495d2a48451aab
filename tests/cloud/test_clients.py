from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tpu_recovery.cloud import clients

LOCAL = ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST", "TPU_RECOVERY_TPU_HOST",
         "TPU_RECOVERY_TASKS_HOST")  # fmt: skip


@pytest.fixture
def in_the_cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No local server is named, and there are credentials; making a client calls nobody."""
    for name in LOCAL:
        monkeypatch.delenv(name, raising=False)
    credentials = tmp_path / "credentials.json"
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    credentials.write_text(json.dumps(user))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(credentials))


@pytest.mark.filterwarnings("ignore:Your application has authenticated using end user credentials")
class TestInTheCloud:
    @pytest.mark.parametrize(
        ("make", "host"),
        [
            (clients.tpu_client, "tpu.googleapis.com:443"),
            (clients.tasks_client, "cloudtasks.googleapis.com:443"),
            (clients.publisher_client, "pubsub.googleapis.com:443"),
        ],
    )
    def test_clients_call_google(self, in_the_cloud: None, make: Any, host: str) -> None:
        assert make().transport.host == host

    def test_firestore_is_a_named_database_at_google(self, in_the_cloud: None) -> None:
        client = clients.firestore_client("p", "tpu-recovery")
        assert client._firestore_api.transport.host == "firestore.googleapis.com:443"
        assert client._database_string == "projects/p/databases/tpu-recovery"

    def test_storage_is_google_s(self, in_the_cloud: None) -> None:
        assert clients.storage_client("p")._connection.API_BASE_URL == "https://storage.googleapis.com"


def test_a_process_makes_each_client_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clients.TPU_HOST, "127.0.0.1:1")
    assert clients.tpu_client() is clients.tpu_client()


def test_importing_the_function_loads_no_client_but_firestore_s() -> None:
    program = (
        "import sys, main\n"
        "print(*(name for name in sys.modules if name.startswith(('google.cloud.', 'google.pubsub'))))"
    )
    functions = Path(__file__).parents[2] / "functions"
    done = subprocess.run([sys.executable, "-c", program], cwd=functions, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    late = ("google.cloud.tpu", "google.cloud.tasks", "google.cloud.pubsub", "google.cloud.storage", "google.pubsub",
            "google.cloud.logging")  # fmt: skip
    assert any(name.startswith("google.cloud.firestore") for name in loaded)
    assert [name for name in loaded if name.startswith(late)] == []
