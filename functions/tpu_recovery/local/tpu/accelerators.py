"""Which accelerators exist, how many worker VMs they have, and where this platform offers them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from google.cloud.tpu_v2alpha1.types import AcceleratorConfig


@dataclass(frozen=True)
class Family:
    """A TPU version. Google names v2 to v5p by TensorCores (two on a chip), v5litepod and v6e by chips."""

    units_per_chip: int
    chips_per_worker: int  # of a slice with several workers
    chips_on_one_worker: int  # a slice up to this size is a single VM


FAMILIES = {
    "v2": Family(units_per_chip=2, chips_per_worker=4, chips_on_one_worker=4),
    "v3": Family(units_per_chip=2, chips_per_worker=4, chips_on_one_worker=4),
    "v4": Family(units_per_chip=2, chips_per_worker=4, chips_on_one_worker=4),
    "v5p": Family(units_per_chip=2, chips_per_worker=4, chips_on_one_worker=4),
    "v5litepod": Family(units_per_chip=1, chips_per_worker=4, chips_on_one_worker=8),
    "v6e": Family(units_per_chip=1, chips_per_worker=4, chips_on_one_worker=8),
}

_CONFIG_FAMILIES = {
    AcceleratorConfig.Type.V2: "v2",
    AcceleratorConfig.Type.V3: "v3",
    AcceleratorConfig.Type.V4: "v4",
    AcceleratorConfig.Type.V5P: "v5p",
    AcceleratorConfig.Type.V5LITE_POD: "v5litepod",
    AcceleratorConfig.Type.V6E: "v6e",
}


def workers_of(accelerator_type: str) -> int:
    """Number of worker VMs: 4 for ``v5litepod-16``, 1 for ``v5litepod-8``, 4 for ``v4-32``.

    Raises ValueError for an accelerator type that is not in the table.
    """
    match = re.fullmatch(r"([a-z0-9]+)-(\d+)", accelerator_type)
    if match is None or match[1] not in FAMILIES:
        raise ValueError(f"accelerator type {accelerator_type!r}: expected one of {', '.join(FAMILIES)} and a size")
    family = FAMILIES[match[1]]
    chips = int(match[2]) // family.units_per_chip
    if chips <= family.chips_on_one_worker:
        return 1
    return chips // family.chips_per_worker


def type_of_config(kind: int, topology: str) -> str:
    """The accelerator type that means the same as type and topology: ``V4`` and ``2x2x2`` give ``v4-16``.

    An unknown type or a malformed topology gives a name that no zone offers.
    """
    if kind not in _CONFIG_FAMILIES or not re.fullmatch(r"\d+(x\d+){1,2}", topology):
        return f"{kind}-{topology}"
    family = _CONFIG_FAMILIES[AcceleratorConfig.Type(kind)]
    chips = math.prod(int(side) for side in topology.split("x"))
    return f"{family}-{chips * FAMILIES[family].units_per_chip}"


def _sizes(family: str, *sizes: int) -> frozenset[str]:
    return frozenset(f"{family}-{size}" for size in sizes)


_V5E = _sizes("v5litepod", 1, 4, 8, 16, 32, 64, 128, 256)
_V6E = _sizes("v6e", 1, 4, 8, 16, 32, 64, 128, 256)
_V5P = _sizes("v5p", 8, 16, 32, 64, 128)
_V4 = _sizes("v4", 8, 16, 32, 64, 128)
_OLD = _sizes("v2", 8, 32) | _sizes("v3", 8, 32)

OFFERS: dict[str, frozenset[str]] = {
    "asia-northeast1-b": _V6E,
    "europe-west4-a": _OLD | _V6E,
    "europe-west4-b": _V5E | _V5P,
    "us-central1-a": _OLD | _V5E | _V5P,
    "us-central2-b": _V4,
    "us-east1-d": _V6E,
    "us-east5-a": _V5P | _V6E,
    "us-east5-b": _V5E | _V6E,
    "us-west4-a": _V5E,
}
"""Zones and what can be had there: a plausible selection to choose from, no copy of Google's table."""
