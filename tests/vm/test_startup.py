"""The startup script under systemd: systemctl is a program that writes down how it was called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpu_recovery.vm.bundle import runner, startup_script

START = ["enable --quiet tpu-recovery-runner.service", "start tpu-recovery-runner.service"]
RESTART = ["daemon-reload", "enable --quiet tpu-recovery-runner.service", "restart tpu-recovery-runner.service"]


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.runner = root / "opt/tpu-recovery/runner.pyz"
        self.unit = root / "etc/systemd/system/tpu-recovery-runner.service"
        (root / "bin").mkdir(parents=True)
        systemctl = root / "bin/systemctl"
        systemctl.write_text(f'#!/bin/sh\necho "$*" >> "{root}/called"\n')
        systemctl.chmod(0o755)
        (root / "startup.sh").write_text(startup_script())

    def boot(self, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "TPU_RECOVERY_ROOT": str(self.root),
            **settings,
        }
        return subprocess.run(
            ["/bin/sh", str(self.root / "startup.sh")], env=environment, capture_output=True, text=True, check=False
        )

    def called(self) -> list[str]:
        """How systemctl was called since the last time."""
        lines = (self.root / "called").read_text().splitlines()
        (self.root / "called").unlink()
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_boot_installs_runner_and_unit_and_starts_it(machine: Machine) -> None:
    assert machine.boot().returncode == 0
    assert machine.called() == RESTART
    assert machine.runner.read_bytes() == runner()
    unit = machine.unit.read_text().splitlines()
    for line in (
        f"ExecStart={sys.executable} {machine.runner}",
        f"Environment=TPU_RECOVERY_ROOT={machine.root}/",
        "Restart=always",
        "KillMode=mixed",
        "TimeoutStopSec=330",
        "After=network-online.target",
    ):
        assert line in unit


def test_running_it_again_does_not_disturb_a_runner_at_work(machine: Machine) -> None:
    machine.boot()
    machine.called()
    assert machine.boot().returncode == 0
    assert machine.called() == START
    assert sorted(path.name for path in machine.runner.parent.iterdir()) == ["runner.pyz"]


def test_another_version_replaces_the_runner(machine: Machine) -> None:
    machine.boot()
    machine.called()
    machine.runner.write_bytes(b"an older version")
    machine.boot()
    assert machine.called() == RESTART[1:]
    assert machine.runner.read_bytes() == runner()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PYTHON": "no-such-python"}, "no-such-python is not on this machine; Python 3.8 or newer is needed"),
        (
            {"TPU_RECOVERY_SUPERVISOR": "upstart"},
            "SUPERVISOR is 'upstart'; systemd or foreground is needed",
        ),
    ],
)
def test_what_is_missing_is_said_clearly(machine: Machine, settings: dict[str, str], words: str) -> None:
    done = machine.boot(**settings)
    assert done.returncode == 1
    assert words in done.stderr
