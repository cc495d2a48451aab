"""The job of the demo: its program as an archive in the bucket, and its job file."""

from __future__ import annotations

import hashlib
import io
import tarfile
import urllib.parse
import urllib.request
from pathlib import Path

from tpu_recovery.local.stack import BUCKET, ZONE

PROGRAM = Path(__file__).parent / "demo_program"


def archive() -> bytes:
    """The program as a tar archive; the same files give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in sorted(PROGRAM.glob("*.py")):
            content = file.read_bytes()
            entry = tarfile.TarInfo(file.name)
            entry.size = len(content)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def upload(store_url: str, name: str, content: bytes) -> str:
    """Put an object into the demo's bucket; gives its gs:// path."""
    query = urllib.parse.urlencode({"uploadType": "media", "name": name})
    url = f"{store_url}/upload/storage/v1/b/{BUCKET}/o?{query}"
    with urllib.request.urlopen(urllib.request.Request(url, data=content, method="POST"), timeout=30):
        return f"gs://{BUCKET}/{name}"


def job_file(store_url: str, name: str = "demo", command: str = "") -> str:
    """Upload the program and write the job file that runs it."""
    content = archive()
    path = upload(store_url, f"programs/{name}.tar", content)
    command = command or "python3 train.py --from {resume_step}"
    return f"""\
name: {name}
accelerator_type: v5litepod-4
runtime_version: v2-alpha-tpuv5-lite
placements:
  - zone: {ZONE}
program:
  archive: {path}
  sha256: {hashlib.sha256(content).hexdigest()}
command: {command}
checkpoints:
  path: gs://{BUCKET}/{name}/checkpoints
  every: 1m
deadlines:
  stop: 2s
"""
