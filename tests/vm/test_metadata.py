from __future__ import annotations

from pathlib import Path

import pytest
from tests.vm.stand import HOSTNAME, Platform

from tpu_recovery.vm.machine import read_machine
from tpu_recovery.vm.metadata import MetadataServer, MetadataSilent
from tpu_recovery.vm.places import Places

TOKEN = "instance/service-accounts/default/token"


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def metadata(platform: Platform, seconds: Seconds) -> MetadataServer:
    return MetadataServer(platform.address, monotonic=seconds)


def test_a_value_is_read_or_missing(metadata: MetadataServer) -> None:
    value = metadata.get("instance/name")
    assert value is not None
    assert value.text == HOSTNAME
    assert metadata.get("instance/attributes/absent") is None


def test_a_change_is_waited_for(platform: Platform, metadata: MetadataServer) -> None:
    platform.hand_off("first")
    first = metadata.get("instance/attributes/tpu-recovery")
    assert first is not None
    platform.hand_off("second")
    second = metadata.wait_for_change("instance/attributes/tpu-recovery", first.etag, 30)
    assert second is not None
    assert second.text == "second"
    assert metadata.wait_for_change("instance/attributes/tpu-recovery", second.etag, 0) == second


def test_silence_has_a_name(platform: Platform, metadata: MetadataServer) -> None:
    platform.silent = True
    with pytest.raises(MetadataSilent, match="answered 503"):
        metadata.get("instance/name")
    with pytest.raises(MetadataSilent, match="did not answer"):
        MetadataServer("127.0.0.1:1").get("instance/name")


def test_a_token_is_kept_until_shortly_before_its_end(
    platform: Platform, metadata: MetadataServer, seconds: Seconds
) -> None:
    assert metadata.token() == "ya29"
    platform.values[TOKEN] = '{"access_token": "newer", "expires_in": 3600}'
    seconds.now = 3539
    assert metadata.token() == "ya29"
    seconds.now = 3541
    assert metadata.token() == "newer"


def test_a_vm_without_an_account_has_no_token(platform: Platform, metadata: MetadataServer) -> None:
    del platform.values[TOKEN]
    with pytest.raises(MetadataSilent, match="no service account"):
        metadata.token()


def test_an_answer_that_is_no_token_is_not_quoted(platform: Platform, metadata: MetadataServer) -> None:
    platform.values[TOKEN] = '{"access_token": "ya29"'
    with pytest.raises(MetadataSilent) as silent:
        metadata.token()
    assert "ya29" not in str(silent.value)


@pytest.mark.parametrize(
    ("number", "name", "worker"),
    [("3", "t1v-n-0a-w-0", 3), (None, "t1v-n-0a-w-12", 12), ("?", "t1v-n-0a-w-12", 12), (None, "my-vm", 0)],
)
def test_the_worker_number_is_an_attribute_or_else_part_of_the_name(
    platform: Platform, tmp_path: Path, number: str | None, name: str, worker: int
) -> None:
    platform.values["instance/name"] = name
    del platform.values["instance/attributes/agent-worker-number"]
    if number is not None:
        platform.values["instance/attributes/agent-worker-number"] = number
    machine = read_machine(MetadataServer(platform.address), Places(tmp_path))
    assert (machine.worker, machine.hostname) == (worker, name)
    assert machine.boot
