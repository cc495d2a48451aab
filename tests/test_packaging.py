"""What would be deployed: exactly the listed files, and enough of them to run with nothing but requirements.txt."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tpu_recovery.local.source_archive import DEPLOYED, SOURCE, IncompleteSource, deployed_files, source_archive
from tpu_recovery.vm.bundle import startup_script

ROOT = Path(__file__).parents[1]


def names(archive: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.namelist()


class TestArchive:
    def test_the_same_sources_give_the_same_bytes(self) -> None:
        assert source_archive() == source_archive()

    def test_it_holds_what_is_listed_and_nothing_else(self) -> None:
        held = names(source_archive())
        assert held == sorted(set(held))
        assert [
            name for name in held if not any(fnmatch(name, pattern.replace("**/", "*")) for pattern in DEPLOYED)
        ] == []
        assert {"main.py", "requirements.txt", "tpu_recovery/service.py", "tpu_recovery/vm/startup.sh"} <= set(held)

    @pytest.mark.parametrize("directory", ["local", "cli", "tests", "__pycache__", "tpu_recovery.egg-info"])
    def test_it_does_not_hold_what_runs_elsewhere(self, directory: str) -> None:
        assert [name for name in names(source_archive()) if directory in Path(name).parts] == []

    def test_a_clean_checkout_gives_the_bytes_of_a_littered_one(self, tmp_path: Path) -> None:
        clean = tmp_path / "functions"
        for file in deployed_files():
            (clean / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / file, clean / file)
        archive = source_archive(clean)
        for litter in (".env", "tpu_recovery/notes.py", "tpu_recovery/vm/key.pem", "tpu_recovery/cloud/store.py.orig"):
            (clean / litter).write_text("secret")
            os.utime(clean / "main.py", (1, 1))
        (clean / "tpu_recovery/model/__pycache__").mkdir()
        (clean / "tpu_recovery/model/__pycache__/job.cpython-311.pyc").write_bytes(b"")
        assert source_archive(clean) == archive == source_archive()

    def test_a_directory_that_is_not_the_source_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(IncompleteSource, match=r"main\.py"):
            source_archive(tmp_path)


def test_one_command_builds_it_and_says_what_it_built(tmp_path: Path) -> None:
    output = tmp_path / "new" / "recover.zip"
    command = [sys.executable, str(ROOT / "scripts/build"), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    content = output.read_bytes()
    said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert said == {
        "path": str(output),
        "size": f"{len(content):,} bytes",
        "sha256": hashlib.sha256(content).hexdigest(),
        "files": str(len(names(content))),
    }
    assert content == source_archive()


class Deployed:
    """The unpacked archive, and a Python that has nothing but its requirements."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "source"
        with zipfile.ZipFile(io.BytesIO(source_archive())) as archive:
            archive.extractall(self.source)
        venv.create(directory / "venv", with_pip=True)
        self._python = directory / "venv" / "bin" / "python"
        self._run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")

    def run(self, program: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a program in the source directory; gives what it printed."""
        return self._run("-c", program, environment=environment)

    def _run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        done = subprocess.run(
            [str(self._python), *arguments],
            cwd=self.source,
            env={**kept, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return Deployed(tmp_path_factory.mktemp("deployed"))


@pytest.mark.packaging
class TestDeployed:
    def test_the_function_can_be_imported(self, deployed: Deployed) -> None:
        printed = deployed.run("import main, tpu_recovery; print(main.recover.__name__, tpu_recovery.__path__[0])")
        assert printed.split() == ["recover", str(deployed.source / "tpu_recovery")]

    def test_every_client_that_is_imported_late_is_there(self, deployed: Deployed) -> None:
        program = (
            "from tpu_recovery.cloud import clients\n"
            "from tpu_recovery.service import default_ports\n"
            "default_ports()\n"
            "clients.storage_client('demo')\n"
            "clients.publisher_client()\n"
            "print('all made')\n"
        )
        hosts = ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "TPU_RECOVERY_TPU_HOST", "TPU_RECOVERY_TASKS_HOST")
        settings = ("GOOGLE_CLOUD_PROJECT", "SERVICE_ACCOUNT", "REPORTS_TOPIC", "NOTIFICATIONS_TOPIC", "TIMERS_QUEUE",
                    "CREATES_QUEUE", "SERVICE_URL", "TIMER_INVOKER")  # fmt: skip
        environment = {
            **dict.fromkeys(hosts, "127.0.0.1:1"),
            "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1",
            **dict.fromkeys(settings, "set"),
        }
        assert deployed.run(program, environment) == "all made\n"

    def test_the_startup_script_can_be_built_and_is_the_one_of_the_sources(self, deployed: Deployed) -> None:
        program = "from tpu_recovery.vm.bundle import startup_script; print(startup_script(), end='')"
        assert deployed.run(program) == startup_script()

    def test_what_is_not_deployed_is_not_there(self, deployed: Deployed) -> None:
        program = (
            "import importlib.util as u; print(u.find_spec('tpu_recovery.local'), u.find_spec('tpu_recovery.cli'))"
        )
        assert deployed.run(program) == "None None\n"
