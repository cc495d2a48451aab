import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tpu_recovery.local.tpu.metadata_server import MetadataServer

FLAVOR = {"Metadata-Flavor": "Google"}
Answer = tuple[int, str, str | None]


class WatchedServer(MetadataServer):
    """Says when somebody begins to wait."""

    def __init__(self, *arguments: Any) -> None:
        self.waited_for = threading.Event()
        super().__init__(*arguments)

    def wait_for_change(self, *arguments: Any) -> bool:
        self.waited_for.set()
        return super().wait_for_change(*arguments)


class Vm:
    """A metadata server, and what a program on its VM can ask it."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, str]] = []
        self.server = WatchedServer(
            {"instance/name": "t1v-n-1-w-0", "instance/attributes/agent-worker-number": "0"},
            {"tpu-recovery": "one"},
            lambda *attribute: self.written.append(attribute),
        )
        self.background = ThreadPoolExecutor(max_workers=1)

    def ask(self, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Answer:
        """Status, text and ETag."""
        request = urllib.request.Request(
            f"http://{self.server.address}/computeMetadata/v1/{path}",
            data=body,
            headers=FLAVOR if headers is None else headers,
            method="GET" if body is None else "PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode(), response.headers["ETag"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers["ETag"]

    def wait_for_change(self, path: str) -> "Future[Answer]":
        """Wait in the background for another value than the present one; returns once the request is there."""
        etag = self.ask(path)[2]
        answer = self.background.submit(self.ask, f"{path}?wait_for_change=true&last_etag={etag}")
        assert self.server.waited_for.wait(timeout=60)
        return answer


@pytest.fixture
def vm() -> Iterator[Vm]:
    vm = Vm()
    yield vm
    vm.server.stop()
    vm.background.shutdown()


def test_values_are_given_to_who_sends_the_header(vm: Vm) -> None:
    assert vm.ask("instance/name")[:2] == (200, "t1v-n-1-w-0")
    assert vm.ask("instance/attributes/tpu-recovery")[:2] == (200, "one")
    assert vm.ask("instance/attributes/agent-worker-number")[:2] == (200, "0")


def test_nothing_is_given_or_taken_without_the_header(vm: Vm) -> None:
    assert vm.ask("instance/name", headers={})[0] == 403
    assert vm.ask("instance/guest-attributes/a/b", headers={}, body=b"x")[0] == 403
    assert vm.written == []


@pytest.mark.parametrize(
    "path",
    [
        "instance/attributes/other",
        "instance/attributes/other?wait_for_change=true",
        "instance/guest-attributes/a/b",
        "instance/attributes/",
        "",
    ],
)
def test_what_is_not_there_is_not_found(vm: Vm, path: str) -> None:
    assert vm.ask(path)[0] == 404


def test_a_guest_attribute_is_written_and_read_back(vm: Vm) -> None:
    assert vm.ask("instance/guest-attributes/tpu-recovery/report", body="é".encode())[0] == 200
    assert vm.ask("instance/guest-attributes/tpu-recovery/report")[:2] == (200, "é")
    assert vm.written == [("tpu-recovery", "report", "é")]


@pytest.mark.parametrize("path", ["instance/name", "instance/guest-attributes/a", "instance/guest-attributes/a/b/c"])
def test_nothing_else_can_be_written(vm: Vm, path: str) -> None:
    assert vm.ask(path, body=b"x")[0] == 404


def test_the_etag_stands_for_the_value(vm: Vm) -> None:
    first = vm.ask("instance/attributes/tpu-recovery")[2]
    vm.server.update({"tpu-recovery": "two"})
    second = vm.ask("instance/attributes/tpu-recovery")[2]
    vm.server.update({"tpu-recovery": "one"})
    assert first == vm.ask("instance/attributes/tpu-recovery")[2] != second


def test_who_has_an_old_value_need_not_wait(vm: Vm) -> None:
    etag = vm.ask("instance/attributes/tpu-recovery")[2]
    vm.server.update({"tpu-recovery": "two"})
    wait = "instance/attributes/tpu-recovery?wait_for_change=true"
    assert vm.ask(f"{wait}&last_etag={etag}")[1] == "two"
    assert vm.ask(f"{wait}&last_etag=0")[1] == "two"


def test_who_waits_gets_the_new_value_when_it_is_there(vm: Vm) -> None:
    answer = vm.wait_for_change("instance/attributes/tpu-recovery")
    vm.server.update({"tpu-recovery": "one", "ssh-keys": "of no interest"})
    vm.server.update({"tpu-recovery": "two"})
    assert answer.result(timeout=60)[:2] == (200, "two")


def test_who_waits_for_a_value_that_is_removed_learns_that(vm: Vm) -> None:
    answer = vm.wait_for_change("instance/attributes/tpu-recovery")
    vm.server.update({})
    assert answer.result(timeout=60)[0] == 404


def test_who_waits_in_vain_gets_the_old_value(vm: Vm) -> None:
    wait = "instance/attributes/tpu-recovery?wait_for_change=true"
    assert vm.ask(f"{wait}&timeout_sec=0")[:2] == (200, "one")
    assert vm.ask(f"{wait}&timeout_sec=soon")[:2] == (400, "timeout_sec=soon: expected seconds")


def test_a_preemption_wakes_who_waits_for_it(vm: Vm) -> None:
    assert vm.ask("instance/preempted")[1] == "FALSE"
    answer = vm.wait_for_change("instance/preempted")
    vm.server.set_preempted()
    assert answer.result(timeout=60)[:2] == (200, "TRUE")


def test_who_waits_is_cut_off_when_the_vm_goes(vm: Vm) -> None:
    answer = vm.wait_for_change("instance/preempted")
    vm.server.stop()
    with pytest.raises((ConnectionError, urllib.error.URLError)):
        answer.result(timeout=60)
