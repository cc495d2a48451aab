"""The listing against a server that plays back what Cloud Storage answers; tests/contract has one that stores."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tpu_recovery.checkpoints import BucketListing, Unreadable


class Storage:
    """Answers listings of one bucket, page by page, and remembers what it was asked."""

    def __init__(self) -> None:
        self.pages: list[Any] = [{}]
        self.status = 200
        self.asked: list[dict[str, str]] = []
        self.authorization: list[str | None] = []
        storage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                storage.asked.append({"path": parts.path, **query})
                storage.authorization.append(self.headers["Authorization"])
                page = storage.pages[int(query.get("pageToken", "0"))]
                body = page if isinstance(page, bytes) else json.dumps(page).encode()
                self.send_response(storage.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def listing(self, token: str | None = "secret") -> BucketListing:
        return BucketListing(lambda: token, self.url)


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.server.shutdown()
    storage.server.server_close()


def test_directories_and_files_come_from_every_page(storage: Storage) -> None:
    storage.pages = [
        {"prefixes": ["run/20/"], "items": [{"name": "run/", "size": "0"}], "nextPageToken": "1"},
        {"nextPageToken": "2"},  # pages may be empty and still not be the last
        {"prefixes": ["run/40/"], "items": [{"name": "run/notes.txt", "size": "12"}]},
    ]
    assert storage.listing().directories("gs://b/run") == ["20", "40"]
    assert storage.listing().files("gs://b/run/") == {"notes.txt": 12}


def test_a_name_is_what_follows_the_directory_and_one_slash(storage: Storage) -> None:
    storage.pages = [
        {
            "prefixes": ["run_5//", "run_5/40/"],
            "items": [{"name": "run_5/", "size": "0"}, {"name": "run_5/notes.txt", "size": "12"}],
        }
    ]
    assert storage.listing().directories("gs://b/run_5") == ["40"]
    assert storage.listing().files("gs://b/run_5") == {"notes.txt": 12}


def test_one_directory_is_asked_for_with_a_token(storage: Storage) -> None:
    storage.listing().directories("gs://b/some run")
    assert storage.asked[0]["path"] == "/storage/v1/b/b/o"
    assert (storage.asked[0]["prefix"], storage.asked[0]["delimiter"]) == ("some run/", "/")
    assert storage.authorization == ["Bearer secret"]


def test_a_whole_bucket_can_be_the_directory(storage: Storage) -> None:
    storage.pages = [{"prefixes": ["20/"]}]
    assert storage.listing(token=None).directories("gs://b") == ["20"]
    assert "prefix" not in storage.asked[0]
    assert storage.authorization == [None]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "bucket b does not exist"),
        (401, "refused the account's token"),
        (403, "the account needs storage.objects.list"),
        (503, "answered 503"),
    ],
)
def test_a_refusal_is_unreadable_and_says_what_to_do(storage: Storage, status: int, words: str) -> None:
    storage.status = status
    with pytest.raises(Unreadable, match=words) as refusal:
        storage.listing().directories("gs://b/run")
    assert refusal.value.path == "gs://b/run"


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_an_answer_that_is_no_listing_is_unreadable(storage: Storage, body: bytes) -> None:
    storage.pages = [body]
    with pytest.raises(Unreadable, match="answered with something that is not"):
        storage.listing().files("gs://b/run")


def test_silence_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="did not answer"):
        BucketListing(lambda: None, "http://127.0.0.1:1").files("gs://b/run")


def test_no_token_is_unreadable(storage: Storage) -> None:
    def token() -> str:
        raise OSError("the metadata server is silent")

    with pytest.raises(Unreadable, match="the metadata server is silent"):
        BucketListing(token, storage.url).files("gs://b/run")


def test_a_path_outside_any_bucket_is_a_mistake_of_the_caller(storage: Storage) -> None:
    with pytest.raises(ValueError, match="gs://bucket/prefix is needed"):
        storage.listing().files("/mnt/disk")
