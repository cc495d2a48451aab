"""The source archive of the cloud function: which files are deployed, as a zip file with the same bytes every time.

The list says what goes in; whatever else lies in the directory stays out: the local stack, the command line, caches,
somebody's notes.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[2]
"""The directory that holds main.py."""

DEPLOYED = (
    "main.py",
    "requirements.txt",
    "tpu_recovery/__init__.py",
    "tpu_recovery/errors.py",
    "tpu_recovery/service.py",
    "tpu_recovery/model/**/*.py",
    "tpu_recovery/events/**/*.py",
    "tpu_recovery/checkpoints/**/*.py",
    "tpu_recovery/recovery/**/*.py",
    "tpu_recovery/cloud/**/*.py",
    "tpu_recovery/vm/**/*.py",
    "tpu_recovery/vm/startup.sh",
)
"""Everything that is deployed, as patterns below the source directory."""

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold


class IncompleteSource(Exception):
    """The source directory lacks something that has to be deployed."""


def deployed_files(source: Path = SOURCE) -> list[Path]:
    """The files to deploy, relative to the source directory, sorted. Raises IncompleteSource."""
    found: set[Path] = set()
    for pattern in DEPLOYED:
        matching = {path.relative_to(source) for path in source.glob(pattern) if path.is_file()}
        if not matching:
            raise IncompleteSource(f"{source} holds nothing that matches {pattern}: is it the directory with main.py?")
        found |= matching
    return sorted(found)


def source_archive(source: Path = SOURCE) -> bytes:
    """The zip file. Not compressed, so that its digest changes with the sources only, not with the version of zlib."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in deployed_files(source):
            entry = zipfile.ZipInfo(file.as_posix(), _LONG_AGO)
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (source / file).read_bytes())
    return buffer.getvalue()
