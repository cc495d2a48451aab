from __future__ import annotations

import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from google.auth.exceptions import DefaultCredentialsError

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.storage import BucketCheckpoints
from tpu_recovery.local.object_store import ObjectStore
from tpu_recovery.model.observed import CheckpointFinding, CheckpointReading
from tpu_recovery.model.spec import Checkpoints


def newest(path: str, seen_step: int | None = None) -> CheckpointReading:
    return BucketCheckpoints(lambda: clients.storage_client("demo")).newest(Checkpoints(path=path), seen_step)


class Bucket:
    """A bucket of the local object store."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._post(f"{url}/storage/v1/b?project=demo", b'{"name": "bucket"}')

    def save(self, step: str, *, marked: bool = True) -> None:
        """One Orbax step, complete or not."""
        self.put(f"ck/{step}/d/array", b"weights")
        if marked:
            self.put(f"ck/{step}/commit_success.txt", b"done")

    def put(self, name: str, content: bytes = b"x") -> None:
        query = urllib.parse.urlencode({"uploadType": "media", "name": name})
        self._post(f"{self._url}/upload/storage/v1/b/bucket/o?{query}", content)

    def _post(self, url: str, content: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, content, headers, method="POST"), timeout=10):
            pass


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with ObjectStore() as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield Bucket(store.url)


class TestWhatIsThere:
    def test_the_newest_complete_step_is_found(self, bucket: Bucket) -> None:
        bucket.save("9")
        bucket.save("10")
        bucket.save("11", marked=False)
        reading = newest("gs://bucket/ck")
        assert (reading.finding, reading.step, reading.path) == (CheckpointFinding.FOUND, 10, "gs://bucket/ck/10")
        assert "11" in reading.why

    @pytest.mark.parametrize("path", ["gs://bucket/ck", "gs://bucket/ck/", "gs://bucket", "gs://bucket/"])
    def test_nothing_saved_yet_is_empty(self, bucket: Bucket, path: str) -> None:
        assert newest(path).finding is CheckpointFinding.EMPTY

    def test_a_placeholder_for_a_folder_is_no_file(self, bucket: Bucket) -> None:
        bucket.put("ck/", b"")
        assert newest("gs://bucket/ck").finding is CheckpointFinding.EMPTY

    def test_steps_of_which_none_is_complete_are_incomplete(self, bucket: Bucket) -> None:
        bucket.save("10", marked=False)
        assert newest("gs://bucket/ck").finding is CheckpointFinding.INCOMPLETE

    def test_a_bucket_itself_may_be_the_place(self, bucket: Bucket) -> None:
        bucket.put("7/commit_success.txt")
        assert newest("gs://bucket").path == "gs://bucket/7"

    @pytest.mark.parametrize("steps", [["10"], []])
    def test_less_than_was_seen_before_is_older(self, bucket: Bucket, steps: list[str]) -> None:
        for step in steps:
            bucket.save(step)
        assert newest("gs://bucket/ck", seen_step=20).finding is CheckpointFinding.OLDER

    def test_a_neighbour_with_the_same_beginning_is_not_ours(self, bucket: Bucket) -> None:
        bucket.put("ck-old/30/commit_success.txt")
        assert newest("gs://bucket/ck").finding is CheckpointFinding.EMPTY

    @pytest.mark.parametrize("name", ["run_5//commit_success.txt", "run_5//x/commit_success.txt", "run_5///7"])
    def test_the_directorys_own_name_is_no_step(self, bucket: Bucket, name: str) -> None:
        bucket.put(name)
        assert newest("gs://bucket/run_5").finding is CheckpointFinding.EMPTY

    def test_too_many_incomplete_steps_are_unreadable(self, bucket: Bucket) -> None:
        for step in range(30):
            bucket.put(f"ck/{step}/d/array")
        reading = newest("gs://bucket/ck")
        assert reading.finding is CheckpointFinding.UNREADABLE
        assert "too many incomplete steps" in reading.why

    def test_a_bucket_that_is_not_there_is_unreadable(self, bucket: Bucket) -> None:
        reading = newest("gs://nobody-has-this/ck")
        assert reading.finding is CheckpointFinding.UNREADABLE
        assert "bucket nobody-has-this does not exist" in reading.why


class Storage(ThreadingHTTPServer):
    """Plays back the answers of a listing, one for each page token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.answer: Callable[[dict[str, str]], Any] = lambda _query: {}
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Storage

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        answer = self.server.answer(query)
        body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        self.server.paths.append(address.path)
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    storage = Storage()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.url)
    threading.Thread(target=storage.serve_forever, args=(0.01,), daemon=True).start()
    yield storage
    storage.shutdown()
    storage.server_close()


class TestAnswers:
    def test_steps_on_every_page_count(self, storage: Storage) -> None:
        pages = {"": {"prefixes": ["ck/1/"], "nextPageToken": "2"}, "2": {"prefixes": ["ck/2/"]}}
        marker = {"items": [{"name": "ck/2/commit_success.txt", "size": "4"}]}
        storage.answer = lambda query: pages[query.get("pageToken", "")] if query["prefix"] == "ck/" else marker
        assert newest("gs://bucket/ck").step == 2

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (403, "may not list bucket bucket; it needs storage.objects.list there"),
            (404, "bucket bucket does not exist"),
            (429, "bucket bucket cannot be listed"),
            (500, "bucket bucket cannot be listed"),
            (503, "bucket bucket cannot be listed"),
        ],
    )
    def test_a_refusal_is_unreadable_in_words_and_asked_once(self, storage: Storage, status: int, words: str) -> None:
        storage.status = status
        reading = newest("gs://bucket/ck")
        assert reading.finding is CheckpointFinding.UNREADABLE
        assert words in reading.why
        assert len(storage.paths) == 1

    def test_an_answer_that_is_no_listing_is_unreadable(self, storage: Storage) -> None:
        storage.answer = lambda _query: b"<html>"
        assert newest("gs://bucket/ck").finding is CheckpointFinding.UNREADABLE

    def test_nothing_but_the_listing_is_asked_for(self, storage: Storage) -> None:
        newest("gs://bucket/ck")
        newest("gs://bucket/ck")
        assert storage.paths == ["/storage/v1/b/bucket/o"] * 2


def test_missing_credentials_are_a_finding_too() -> None:
    def no_client() -> Any:
        raise DefaultCredentialsError("no credentials anywhere")

    reading = BucketCheckpoints(no_client).newest(Checkpoints(path="gs://bucket/ck"), None)
    assert reading.finding is CheckpointFinding.UNREADABLE
    assert "no credentials anywhere" in reading.why
