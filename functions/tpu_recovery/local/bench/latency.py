"""From a loss event's arrival to the first outside action, beside the sum of the same calls made bare."""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections import Counter
from typing import NamedTuple

from google.cloud.tpu_v2alpha1 import Node

from tpu_recovery.checkpoints import BucketListing, newest_complete
from tpu_recovery.cloud import clients
from tpu_recovery.local.bench.bare import LIST, WARM, measure_bare
from tpu_recovery.local.bench.measured import MeasuredStack, measured
from tpu_recovery.local.bench.running import node_of, start_running
from tpu_recovery.local.stack import BUCKET, PROJECT, REGION, StackSettings
from tpu_recovery.local.tpu import TpuSettings
from tpu_recovery.local.tpu.audit import node_event

ACTION = "DeleteNode"
SETTINGS = StackSettings(tpu=TpuSettings(create_seconds=0, delete_seconds=0), sweep_every=0, machines=False)
_IDLE_SECONDS = 60.0


class Latency(NamedTuple):
    """Seconds from receipt to action of every loss, the calls before the action, and the median of each made bare.

    The action ends the measurement when it arrives, so it is not among the calls.
    """

    losses: list[float]
    calls: dict[str, int]
    bare: dict[str, float]

    @property
    def bare_sum(self) -> float:
        """The same calls, made bare one after the other."""
        return sum(self.bare[call] * count for call, count in self.calls.items())


class NoAction(Exception):
    """A loss was received and its node was not deleted by the same invocation."""


def measure_latency(losses: int, rounds: int) -> Latency:
    """Lose the nodes of so many jobs, one after the other, in a function that is warm. Raises NoAction."""
    with measured(SETTINGS) as stack:
        _hold_back_tasks()
        names = [f"bench-{number}" for number in range(WARM + losses)]
        start_running(stack, [*names, "bare"])
        stack.pubsub.wait_idle(_IDLE_SECONDS)
        samples = [_lose(stack, name) for name in names][WARM:]
        bare = measure_bare(stack.environment, "bare", rounds)
        calls = Counter({LIST: _listings(stack, names[-1])})
        calls.update(samples[-1].calls)
        return Latency([sample.seconds for sample in samples], dict(calls), bare)


class _Sample(NamedTuple):
    seconds: float
    calls: list[str]


def _hold_back_tasks() -> None:
    """Nothing but the loss is to happen: the creations that follow a loss stay in their queue, and so do timers."""
    for queue in ("creates", "timers"):
        clients.tasks_client().pause_queue(name=f"projects/{PROJECT}/locations/{REGION}/queues/{queue}")


def _lose(stack: MeasuredStack, name: str) -> _Sample:
    node = node_of(name)
    stack.tpu.set_state(node, state=Node.State.PREEMPTED)
    body = _push(json.dumps(node_event("tpu.nodes.terminate", node, time.time())).encode())
    begin = time.perf_counter()
    stack.function.post("/event", body)
    arrivals = stack.timeline.since(begin)
    position = next((at for at, one in enumerate(arrivals) if (one.call, one.subject) == (ACTION, node)), None)
    if position is None:
        raise NoAction(f"{node} was not deleted; the calls were {[arrival.call for arrival in arrivals]}")
    stack.pubsub.wait_idle(_IDLE_SECONDS)  # the entries about our own call are to disturb nobody
    return _Sample(arrivals[position].at - begin, [arrival.call for arrival in arrivals[:position]])


def _push(data: bytes) -> bytes:
    message = {"data": base64.b64encode(data).decode(), "messageId": "1", "publishTime": "2026-12-01T00:00:00Z"}
    return json.dumps({"message": message, "subscription": f"projects/{PROJECT}/subscriptions/events"}).encode()


class _Counted(BucketListing):
    """Counts the list calls of choosing a checkpoint; the object store counts nothing."""

    def __init__(self, url: str) -> None:
        super().__init__(lambda: None, url)
        self.calls = 0

    def directories(self, path: str) -> list[str]:
        self.calls += 1
        return super().directories(path)

    def files(self, path: str) -> dict[str, int]:
        self.calls += 1
        return super().files(path)


def _listings(stack: MeasuredStack, name: str) -> int:
    listing = _Counted(stack.objects.url)
    newest_complete(listing, f"gs://{BUCKET}/{name}/checkpoints", "orbax")
    return listing.calls


def percentile(values: list[float], percent: int) -> float:
    """The value that so many of a hundred do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
