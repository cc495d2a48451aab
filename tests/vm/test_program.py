from __future__ import annotations

import hashlib
import io
import urllib.error
from email.message import Message
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, cast

import pytest
from tests.vm.handoffs import handoff
from tests.vm.stand import archive

from tpu_recovery.vm.failures import Interrupted, SetupFailed
from tpu_recovery.vm.google_api import GoogleApi
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.program import fetch

CONTENT = archive({"train.py": "print()"})


class Storage(GoogleApi):
    """Answers each download with the next of its answers; the last one again and again."""

    def __init__(self, *answers: bytes | Exception) -> None:
        super().__init__(lambda: "token", "http://127.0.0.1:1", "http://127.0.0.1:1")
        self._answers = list(answers)
        self.downloads = 0

    def open_object(self, path: str) -> HTTPResponse:
        self.downloads += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return cast("HTTPResponse", io.BytesIO(answer))


class Pauses:
    def __init__(self, interrupted_after: int = 1_000_000) -> None:
        self.seconds: list[float] = []
        self._left = interrupted_after

    def __call__(self, seconds: float) -> None:
        self._left -= 1
        if self._left < 0:
            raise Interrupted
        if seconds:
            self.seconds.append(seconds)


def refusal(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://x", status, "refused", Message(), io.BytesIO())


def bring(root: Path, storage: Storage, pauses: Pauses, content: bytes = CONTENT, **changes: Any) -> Path:
    program = {"archive": "gs://b/x.tar.gz", "sha256": hashlib.sha256(content).hexdigest()}
    wanted = handoff(**{"program": program, **changes})
    return fetch(wanted, Path("/home/me"), Places(root), storage, pauses)


def test_an_archive_is_downloaded_once_and_kept_by_its_digest(tmp_path: Path) -> None:
    storage = Storage(CONTENT)
    first = bring(tmp_path, storage, Pauses())
    assert (first / "train.py").read_text() == "print()"
    assert bring(tmp_path, storage, Pauses()) == first
    assert storage.downloads == 1


def test_trouble_on_the_way_is_tried_again(tmp_path: Path) -> None:
    pauses = Pauses()
    bring(tmp_path, Storage(OSError("reset"), refusal(503), IncompleteRead(b""), CONTENT), pauses)
    assert pauses.seconds == [10, 20, 40]


def test_trouble_that_stays_is_said_in_the_end(tmp_path: Path) -> None:
    pauses = Pauses()
    with pytest.raises(SetupFailed, match=r"gs://b/x.tar.gz cannot be read: 403 refused") as failure:
        bring(tmp_path, Storage(refusal(403)), pauses)
    assert failure.value.reason == "archive-unreadable"
    assert pauses.seconds == [10, 20, 40, 80, 160]


def test_an_object_that_does_not_exist_is_said_at_once(tmp_path: Path) -> None:
    pauses = Pauses()
    with pytest.raises(SetupFailed, match="404"):
        bring(tmp_path, Storage(refusal(404)), pauses)
    assert pauses.seconds == []


def test_another_content_than_registered_is_never_unpacked(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match="expected") as failure:
        bring(tmp_path, Storage(CONTENT), Pauses(), content=b"other")
    assert failure.value.reason == "archive-digest"
    assert list(tmp_path.rglob("train.py")) == []


@pytest.mark.parametrize(
    "content",
    [b"<html>", CONTENT[:50], CONTENT[:40] + b"?" + CONTENT[41:], archive({"../x": ""})],
    ids=["no archive", "cut off", "damaged", "unsafe"],
)
def test_a_content_that_is_no_good_archive_is_unreadable_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    for _attempt in range(2):
        with pytest.raises(SetupFailed, match="cannot be unpacked") as failure:
            bring(tmp_path, Storage(content), Pauses(), content=content)
        assert failure.value.reason == "archive-unreadable"


def test_a_download_ends_when_the_launch_is_not_wanted_any_more(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        bring(tmp_path, Storage(CONTENT), Pauses(interrupted_after=1))
    assert bring(tmp_path, Storage(CONTENT), Pauses()).is_dir()


def test_a_program_that_the_user_brings_runs_at_home(tmp_path: Path) -> None:
    assert bring(tmp_path, Storage(OSError()), Pauses(), program={"none": True}) == Path("/home/me")
