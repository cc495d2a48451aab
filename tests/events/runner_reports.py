"""A report and a command to start from in tests."""

from __future__ import annotations

from typing import Any

TOKEN = "s3cret-token-of-generation-2"

REPORT: dict[str, Any] = {
    "version": 1,
    "job": "train",
    "uid": "k3v",
    "generation": 2,
    "launch": 1,
    "worker": 0,
    "boot": "6f0c7a9e",
    "sequence": 5,
    "kind": "crashed",
    "at": "2026-12-01T15:00:00.123456Z",
    "token": TOKEN,
    "hostname": "t1v-n-9472280f-w-0",
    "step": 120,
    "checkpoint_step": 100,
    "resumed_from": 100,
    "exit_code": 1,
    "reason": None,
    "detail": None,
}

COMMAND: dict[str, Any] = {
    "id": "01HZX",
    "job": "train",
    "kind": "resume",
    "at": "2026-12-01T15:00:00Z",
    "by": "alice@example.com",
}
