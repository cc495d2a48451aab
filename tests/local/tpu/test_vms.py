"""Nodes whose VMs are processes, driven through the API."""

import json
import os
import signal
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from tests.local.tpu.api import NODE, Api

from tpu_recovery.local.tpu import ProcessMachines
from tpu_recovery.local.tpu.processes import find_all, kill_all

SINGLE = {"accelerator_type": "v5litepod-8"}

REPORT = """
    exec "$PYTHON" - <<'PYTHON'
    import os, urllib.request
    base = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/instance/"
    flavor = {"Metadata-Flavor": "Google"}
    def get(path):
        return urllib.request.urlopen(urllib.request.Request(base + path, headers=flavor)).read()
    report = get("name") + b" " + get("attributes/agent-worker-number") + b" " + get("description")
    put = urllib.request.Request(base + "guest-attributes/tpu-recovery/report", report, flavor, method="PUT")
    urllib.request.urlopen(put).close()
    PYTHON
"""


class Stack:
    """An API with process machines."""

    def __init__(self, root: Path) -> None:
        self.machines = ProcessMachines(root, {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"})
        self.api = Api(self.machines)

    def create(self, script: str, **fields: Any) -> None:
        metadata = {"startup-script": textwrap.dedent(script)} | fields.pop("metadata", {})
        self.api.create_ready(**SINGLE | fields, metadata=metadata)

    def console(self, worker: int = 0) -> str:
        return self.machines.vms(NODE)[worker].console

    def directory(self, worker: int = 0) -> Path:
        return self.machines.directory(self.api.server.hostnames(NODE)[worker])

    def guest_attributes(self, path: str) -> list[str]:
        request = {"name": NODE, "query_path": path}
        try:
            answer = self.api.client.get_guest_attributes(request=request)
        except exceptions.InvalidArgument:
            return []
        return [item.value for worker in answer.guest_attributes for item in worker.query_value.items]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path)
    yield stack
    stack.api.close()
    stack.machines.stop_all()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.01)


def processes_of(directory: Path) -> set[int]:
    return find_all(session=-1, mark=f"TPU_RECOVERY_ROOT={directory}")


def test_the_startup_script_runs_on_every_worker_and_reports_by_guest_attribute(stack: Stack) -> None:
    stack.create(REPORT, accelerator_type="v5litepod-16")
    hostnames = stack.api.server.hostnames(NODE)
    until(lambda: len(stack.guest_attributes("tpu-recovery/report")) == 4)
    assert stack.guest_attributes("tpu-recovery/report") == [f"{name} {n} train-g1" for n, name in enumerate(hostnames)]
    assert stack.guest_attributes("hostkeys/hostname") == list(hostnames)


def test_the_startup_script_gets_its_environment_and_nothing_of_ours(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "secret")
    stack.create('"$PYTHON" -c "import json, os; print(json.dumps(dict(os.environ)))"; echo done >&2')
    until(lambda: "done" in stack.console())
    environment = json.loads(stack.console().splitlines()[0])
    assert "OURS" not in environment
    assert environment["TPU_RECOVERY_ROOT"] == environment["HOME"] == environment["PWD"] == str(stack.directory())
    assert environment["TPU_RECOVERY_SUPERVISOR"] == "foreground"
    assert environment["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:9"
    assert environment["GCE_METADATA_HOST"] == stack.machines.vms(NODE)[0].metadata.address


def test_a_node_without_a_startup_script_has_vms_that_do_nothing(stack: Stack) -> None:
    stack.api.create_ready(**SINGLE)
    assert stack.console() == ""
    stack.api.server.preempt(NODE)
    stack.api.wait(30)
    assert stack.machines.vms(NODE) == []


def test_a_preempted_vm_gets_sigterm_and_its_grace_and_is_then_killed(stack: Stack) -> None:
    stack.create(
        """
        trap 'echo terminated; "$PYTHON" -c "$LOOK"' TERM
        LOOK='import os, urllib.request as u
        url = "http://" + os.environ["GCE_METADATA_HOST"] + "/computeMetadata/v1/instance/preempted"
        print(u.urlopen(u.Request(url, headers={"Metadata-Flavor": "Google"})).read().decode())'
        echo ready
        while true; do sleep 0.02; done
        """
    )
    until(lambda: "ready" in stack.console())
    directory = stack.directory()
    stack.api.server.preempt(NODE)
    until(lambda: "TRUE" in stack.console())
    assert stack.console().split() == ["ready", "terminated", "TRUE"]
    assert processes_of(directory)
    stack.api.wait(30)
    assert processes_of(directory) == set()
    assert stack.guest_attributes("") == []


def test_nothing_is_left_of_a_deleted_node_whatever_it_has_become(stack: Stack) -> None:
    stack.create(
        """
        trap '' TERM
        setsid sh -c 'trap "" TERM; echo $$ > own-session; sleep 1000' &
        setsid env -i PATH="$PATH" sh -c 'echo $$ > bare; sleep 1000; true' &
        (sleep 1000 & echo $! > orphan)
        wait
        """
    )
    directory = stack.directory()
    files = [directory / name for name in ("own-session", "bare", "orphan")]
    until(lambda: all(file.exists() and file.read_text() for file in files))
    pids = {int(file.read_text()) for file in files}
    stack.api.client.delete_node(name=NODE)
    stack.api.wait(5)
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert processes_of(directory) == set()


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_script_that_has_ended_is_no_trouble(stack: Stack) -> None:
    stack.create("echo done")
    until(lambda: "done" in stack.console())
    stack.api.server.preempt(NODE)
    stack.api.wait(30)
    assert processes_of(stack.directory()) == set()


def test_a_rebooted_vm_keeps_its_disk_and_runs_the_script_again_with_a_new_boot_id(stack: Stack) -> None:
    stack.create("cat proc/sys/kernel/random/boot_id; echo up >> boots; sleep 1000")
    boots = stack.directory() / "boots"
    until(boots.exists)
    stack.api.server.restart(NODE)
    until(lambda: boots.read_text() == "up\nup\n")
    assert len(set(stack.console().split())) == 2
    assert stack.machines.vms(NODE)


def test_running_vms_see_updated_metadata(stack: Stack) -> None:
    stack.create("sleep 1000", metadata={"tpu-recovery": "one"})
    stack.api.update({"metadata": {"tpu-recovery": "two"}}, "metadata")
    assert stack.machines.vms(NODE)[0].metadata.attributes["tpu-recovery"] == "one"
    stack.api.wait(1)
    assert stack.machines.vms(NODE)[0].metadata.attributes == {"tpu-recovery": "two"}


def test_a_node_that_vanishes_takes_its_vms_along(stack: Stack) -> None:
    stack.create("echo up; sleep 1000")
    until(stack.console)
    directory = stack.directory()
    stack.api.server.forget(NODE)
    assert processes_of(directory) == set()


def test_every_node_has_directories_of_its_own(stack: Stack) -> None:
    stack.create("true")
    first = stack.directory()
    stack.api.client.delete_node(name=NODE)
    stack.api.wait(5)
    stack.create("true")
    assert stack.directory() != first
    assert first.exists()


def test_stopping_everything_leaves_no_process(stack: Stack) -> None:
    stack.create("echo up; sleep 1000", accelerator_type="v5litepod-16")
    until(lambda: all(stack.console(worker) for worker in range(4)))
    stack.machines.stop_all()
    assert [processes_of(stack.directory(worker)) for worker in range(4)] == [set()] * 4


def test_killing_without_proc_kills_the_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tpu_recovery.local.tpu.processes._PROC", tmp_path)
    pid = os.spawnlp(os.P_NOWAIT, "setsid", "setsid", "sleep", "1000")
    until(lambda: os.getsid(pid) == pid)
    kill_all(pid, "MARK=1")
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    kill_all(pid, "MARK=1")
