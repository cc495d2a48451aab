"""What one lost Spot node costs in outside calls, exactly, and that it costs the same beside any number of jobs."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace
from tests.fakes.wire import Call
from tests.recovery.shell.world import G1, NODES, World, running

from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.records import put_state

CAPACITY = {"describe": 5, "attributes": 2, "delete": 1, "create": 1}
COMMITS = 21
TASKS = {"call_later": 2, "queue_create": 1}

MOST = {"capacity": 10, "commits": 24, "tasks": 5}
"""The bar that the design sets."""


def add_jobs(world: World, count: int) -> None:
    """Other jobs that run undisturbed in the same zone."""
    state = world.state()
    for number in range(count):
        name, uid = f"other-{number}", f"uid-{number}"
        node = f"{NODES}/{name}-g1"
        world.capacity.add(node, {LABEL_JOB: name, LABEL_UID: uid, LABEL_GENERATION: "1"})
        slices = (replace(state.slices[0], name=node),)
        other = replace(state, job=name, uid=uid, slices=slices, resources=(node,), wake_at=None)
        world.store.put(f"jobs/{name}", put_state(other, None).fields)
        world.store.put(f"specs/{name}", world.store.document("specs/train"))


def loss(world: World, *, sweeping: bool) -> Counter[str]:
    """Everything from the loss on, all entries and reports included, until training has made progress again."""
    world.sweeping = sweeping
    before = len(world.wire.calls)
    world.capacity.preempt(G1)
    world.run(900)
    assert (world.state().phase, world.state().generation) == (Phase.RUNNING, 2)
    return Counter(call.name for call in world.wire.calls[before:] if not is_reading_of_the_store(call))


def is_reading_of_the_store(call: Call) -> bool:
    return call.port == "store" and call.method != "commit"


def test_one_spot_loss_costs_exactly_this() -> None:
    calls = loss(running(), sweeping=False)
    assert {name.removeprefix("capacity."): n for name, n in calls.items() if name.startswith("capacity.")} == CAPACITY
    assert {name.removeprefix("timers."): n for name, n in calls.items() if name.startswith("timers.")} == TASKS
    assert calls["store.commit"] == COMMITS
    assert (calls["checkpoints.newest"], calls["notifier.tell"]) == (1, 1)


def test_that_is_within_the_bar() -> None:
    assert sum(CAPACITY.values()) <= MOST["capacity"]
    assert MOST["commits"] >= COMMITS
    assert sum(TASKS.values()) <= MOST["tasks"]


@pytest.mark.parametrize("others", [10, 1000])
@pytest.mark.parametrize("sweeping", [False, True], ids=["events alone", "sweeps too"])
def test_other_jobs_change_nothing_about_it(others: int, sweeping: bool) -> None:
    world = running()
    add_jobs(world, others)
    assert loss(world, sweeping=sweeping) == loss(running(), sweeping=sweeping)
