"""What the calls of a recovery cost by themselves: Google's clients, no code of ours, in a process of its own.

``python -m tpu_recovery.local.bench.bare JOB ROUNDS`` prints the median of each call in seconds, as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.firestore_v1.base_query import FieldFilter

from tpu_recovery.cloud import clients
from tpu_recovery.local.bench.measured import COMMIT, FIND, GET, TASK
from tpu_recovery.local.bench.running import node_of
from tpu_recovery.local.stack import BUCKET, DATABASE, PROJECT, REGION

LIST = "Cloud Storage list"
QUEUE = f"projects/{PROJECT}/locations/{REGION}/queues/timers"

WARM = 10
"""Rounds that do not count."""


def measure_bare(environment: Mapping[str, str], job: str, rounds: int) -> dict[str, float]:
    """Median seconds of each call, measured against the servers that the environment names."""
    command = [sys.executable, "-m", "tpu_recovery.local.bench.bare", job, str(rounds)]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    medians: dict[str, float] = json.loads(done.stdout)
    return medians


def _calls(job: str) -> dict[str, Callable[[int], Any]]:
    """Each call by its name, with documents as large as those of a real job; it is given the number of the round."""
    firestore = clients.firestore_client(PROJECT, DATABASE)
    tpu, tasks, storage = clients.tpu_client(), clients.tasks_client(), clients.storage_client(PROJECT)
    paths = [firestore.document(f"{collection}/{job}") for collection in ("jobs", "specs")]
    document = paths[0].get().to_dict() or {}
    owner = firestore.collection("jobs").where(filter=FieldFilter("resources", "array_contains", node_of(job))).limit(1)

    def commit(number: int) -> Any:
        batch = firestore.batch()
        batch.create(firestore.document(f"bare/{number}"), document)
        return batch.commit(timeout=10)

    def create_task(number: int) -> Any:
        body = json.dumps({"job": job, "uid": "0123456789ab", "seq": number}).encode()
        request = {"http_method": "POST", "url": "https://bare.example/timer", "body": body}
        at = datetime.now(UTC) + timedelta(days=1)
        task = {"name": f"{QUEUE}/tasks/bare-{number}", "schedule_time": at, "http_request": request}
        return tasks.create_task(request={"parent": QUEUE, "task": task}, timeout=10)

    return {
        GET: lambda _: list(firestore.get_all(paths, timeout=10)),
        FIND: lambda _: list(owner.stream(timeout=10)),
        COMMIT: commit,
        LIST: lambda _: list(storage.list_blobs(BUCKET, prefix=f"{job}/checkpoints/", delimiter="/", timeout=10)),
        TASK: create_task,
        "GetNode": lambda _: tpu.get_node(name=node_of(job), timeout=10),
    }


def main(job: str, rounds: int) -> None:
    """Make every call once in each round."""
    calls = _calls(job)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(WARM + rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call(number)
            times[name].append(time.perf_counter() - begin)
    print(json.dumps({name: statistics.median(measured[WARM:]) for name, measured in times.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
