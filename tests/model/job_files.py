"""Job files to start from in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tpu_recovery.errors import Invalid
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.spec import JobSpec

JOBS = Path(__file__).parent / "jobs"
SHORT = (JOBS / "short.yaml").read_text()
COMPLETE = (JOBS / "complete.yaml").read_text()

BY_TYPE_AND_ONE_NETWORK = {
    "accelerator_config: {type: V6E, topology: 4x4}": "accelerator_type: v6e-16",
    "network_configs:\n  - network": "network_config:\n    network",
    "  - network: projects/my-project/global/networks/two\n": "",
    "    accelerator_type: v6e-16\n": "    accelerator_type: v6e-32\n    network_config: {network: other}\n",
}
"""Changes to the complete job file: it says the same in the ways that exclude those of the original."""


def complete(*, by_type_and_one_network: bool = False) -> JobSpec:
    """A specification in which every field is set, as far as fields do not exclude each other."""
    text = COMPLETE
    for old, new in BY_TYPE_AND_ONE_NETWORK.items() if by_type_and_one_network else ():
        if text.count(old) != 1:
            raise AssertionError(f"{old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    return parse_job_file(text)


def short() -> JobSpec:
    """The specification that most users would write."""
    return parse_job_file(SHORT)


def written(changes: dict[Any, Any]) -> str:
    """The short job file with other fields; None leaves one out."""
    document = {**yaml.safe_load(SHORT), **changes}
    text: str = yaml.safe_dump({name: value for name, value in document.items() if value is not None})
    return text


def refusal(text: str) -> Invalid:
    """What the author of a job file is told."""
    with pytest.raises(Invalid) as caught:
        parse_job_file(text)
    return caught.value
