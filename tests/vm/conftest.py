from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.vm.stand import SECRET, Bucket, Platform, Worker

from tpu_recovery.local.object_store import ObjectStore
from tpu_recovery.vm.bundle import startup_script


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def bucket(store: ObjectStore) -> Bucket:
    return Bucket(store.url, f"bucket-{uuid4().hex}")


@pytest.fixture
def platform() -> Iterator[Platform]:
    platform = Platform()
    yield platform
    platform.close()


@pytest.fixture
def worker(tmp_path: Path, platform: Platform, store: ObjectStore) -> Iterator[Worker]:
    """One worker; whatever a test does with it, the generation's secret is never left on it."""
    script = tmp_path / "startup.sh"
    script.write_text(startup_script())
    worker = Worker(tmp_path / "vm", platform, script, store.url)
    yield worker
    worker.close()
    for path in worker.root.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), f"the token is in {path}"
