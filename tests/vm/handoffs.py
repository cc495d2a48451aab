"""A valid hand-off to start from in tests of single modules."""

from __future__ import annotations

import json
from typing import Any

from tpu_recovery.vm.handoff import Handoff, parse

VALID: dict[str, Any] = {
    "version": 1,
    "job": "train",
    "uid": "k3v",
    "generation": 2,
    "launch": 1,
    "launch_before": None,
    "wanted": "run",
    "token": "s3cret",
    "program": {"none": True},
    "startup_script": None,
    "setup": None,
    "command": "python3 train.py",
    "user": None,
    "working_directory": None,
    "environment": {},
    "checkpoints": None,
    "resume": None,
    "reports": {"topic": "projects/p/topics/reports"},
    "deadlines": {"startup_script": 600, "setup": 1800, "stop": 25},
    "crashes": {"limit": 3, "first_backoff": 10, "longest_backoff": 300},
    "timing": {"poll": 5, "alive": 60},
}


def handoff(**changes: Any) -> Handoff:
    return parse(json.dumps({**VALID, **changes}))
