from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path

import pytest

from tpu_recovery.vm import bundle

PACKAGE = Path(bundle.__file__).parent.parent
MODULES = [path for path in (*PACKAGE.glob("vm/*.py"), *PACKAGE.glob("checkpoints/*.py")) if path.name != "bundle.py"]


def entries() -> list[zipfile.ZipInfo]:
    return zipfile.ZipFile(io.BytesIO(bundle.runner())).infolist()


def names() -> list[str]:
    return [entry.filename for entry in entries()]


def test_the_startup_script_fits_into_node_metadata_with_room_to_spare() -> None:
    assert len(bundle.startup_script().encode()) < 200_000


def test_the_same_sources_give_the_same_bytes() -> None:
    first = bundle.startup_script()
    bundle.startup_script.cache_clear()
    bundle.runner.cache_clear()
    assert bundle.startup_script() == first
    assert names() == sorted(names())
    assert {entry.date_time for entry in entries()} == {(1980, 1, 1, 0, 0, 0)}


def test_only_what_the_vm_needs_is_packed() -> None:
    packages = {name.rsplit("/", 1)[0] for name in names() if "/" in name}
    assert packages == {"tpu_recovery", "tpu_recovery/vm", "tpu_recovery/checkpoints"}
    assert "tpu_recovery/vm/bundle.py" not in names()


@pytest.mark.parametrize("module", MODULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_every_module_on_the_vm_is_python_3_8(module: Path) -> None:
    ast.parse(module.read_text(), feature_version=(3, 8))


def test_nothing_of_the_template_is_left_open() -> None:
    assert "@RUNNER@" not in bundle.startup_script()
    assert bundle.startup_script().startswith("#!/bin/sh\n")
