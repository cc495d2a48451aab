from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.local.receiver import Receiver, receiving

from tpu_recovery.local.deliver import Poster, bearer, claims_of


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def post() -> Iterator[Poster]:
    poster = Poster()
    yield poster
    poster.close()


@pytest.mark.parametrize("status", [200, 204, 302, 404, 500])
def test_the_answer_is_the_status(receiver: Receiver, post: Poster, status: int) -> None:
    receiver.answer = lambda _request: status
    assert post(receiver.url, body=b"{}", headers={"X-Job": "train"}, timeout=10) == status
    assert [request.headers["x-job"] for request in receiver.requests] == ["train"]


def test_a_handler_that_is_too_slow_gives_no_answer(receiver: Receiver, post: Poster) -> None:
    hurry = threading.Event()
    receiver.answer = lambda _request: 200 if hurry.wait(10) else 500
    assert post(receiver.url, body=b"{}", headers={}, timeout=0.05) is None
    hurry.set()


def test_a_handler_that_is_not_there_gives_no_answer(post: Poster) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        assert post(f"http://127.0.0.1:{unused.getsockname()[1]}", body=b"", headers={}, timeout=10) is None


def test_a_token_says_who_calls_whom() -> None:
    claims = claims_of(bearer("push@demo.iam.gserviceaccount.com", "https://recover.example"))
    assert claims["email"] == "push@demo.iam.gserviceaccount.com"
    assert claims["aud"] == "https://recover.example"
    assert claims["iss"] == "tpu-recovery local stack"


@pytest.mark.parametrize("header", ["", "Basic dXNlcg==", "Bearer ya29.real", "Bearer a.b.signature"])
def test_a_token_of_somebody_else_is_refused(header: str) -> None:
    with pytest.raises(ValueError, match="not a token of the local stack"):
        claims_of(header)
