import pytest
from google.cloud.tpu_v2alpha1.types import AcceleratorConfig

from tpu_recovery.local.tpu.accelerators import OFFERS, type_of_config, workers_of

Type = AcceleratorConfig.Type


@pytest.mark.parametrize(
    ("accelerator_type", "workers"),
    [
        ("v2-8", 1),
        ("v3-8", 1),
        ("v3-32", 4),
        ("v4-8", 1),
        ("v4-16", 2),
        ("v4-64", 8),
        ("v5p-8", 1),
        ("v5p-128", 16),
        ("v5litepod-1", 1),
        ("v5litepod-8", 1),
        ("v5litepod-16", 4),
        ("v5litepod-256", 64),
        ("v6e-4", 1),
        ("v6e-32", 8),
    ],
)
def test_workers_follow_from_the_accelerator_type(accelerator_type: str, workers: int) -> None:
    assert workers_of(accelerator_type) == workers


@pytest.mark.parametrize("accelerator_type", ["", "v5litepod", "v99-8", "v4-eight"])
def test_an_unknown_accelerator_type_is_an_error(accelerator_type: str) -> None:
    with pytest.raises(ValueError, match=f"accelerator type '{accelerator_type}'"):
        workers_of(accelerator_type)


def test_everything_on_offer_has_workers() -> None:
    assert all(workers_of(accelerator) >= 1 for offered in OFFERS.values() for accelerator in offered)


@pytest.mark.parametrize(
    ("kind", "topology", "accelerator_type"),
    [
        (Type.V2, "2x2", "v2-8"),
        (Type.V4, "2x2x1", "v4-8"),
        (Type.V4, "2x2x4", "v4-32"),
        (Type.V5P, "2x2x2", "v5p-16"),
        (Type.V5LITE_POD, "4x4", "v5litepod-16"),
        (Type.V6E, "1x1", "v6e-1"),
        (Type.V6E, "four", "11-four"),
        (99, "2x2", "99-2x2"),
    ],
)
def test_type_and_topology_name_an_accelerator_type(kind: int, topology: str, accelerator_type: str) -> None:
    assert type_of_config(kind, topology) == accelerator_type
