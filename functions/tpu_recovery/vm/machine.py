"""Who this worker is, as the metadata server and the kernel say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tpu_recovery.vm.metadata import MetadataServer
from tpu_recovery.vm.places import Places


class Machine(NamedTuple):
    """Goes into every report."""

    worker: int
    hostname: str
    boot: str


def read_machine(metadata: MetadataServer, places: Places) -> Machine:
    """Ask once. Raises MetadataSilent."""
    name = metadata.get("instance/name")
    hostname = name.text if name else ""
    number = metadata.get("instance/attributes/agent-worker-number")
    if number is not None and number.text.strip().isdigit():
        worker = int(number.text)
    else:
        # jax reads the number off a name such as t1v-n-0a1b2c3d-w-3 where the attribute is missing.
        match = re.search(r"-w-([0-9]+)$", hostname)
        worker = int(match.group(1)) if match else 0
    return Machine(worker, hostname, _boot(places))


def _boot(places: Places) -> str:
    for path in (places.boot_id, Path("/proc/sys/kernel/random/boot_id")):
        if path.exists():
            return path.read_text(encoding="ascii").strip()
    return "unknown"
