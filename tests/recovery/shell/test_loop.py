"""The whole loop on fakes: from a job file to a recovered job."""

from __future__ import annotations

from tests.recovery.shell.world import G1, G2, World

from tpu_recovery.model.incident import Cause, Outcome
from tpu_recovery.model.state import Phase


def test_a_job_is_created_trains_loses_its_spot_node_and_trains_again() -> None:
    world = World()

    world.apply()
    world.happen()
    assert world.state().phase is Phase.WAITING
    assert world.capacity.created == [G1]

    world.run(120)
    assert world.capacity.nodes[G1].state == "READY"
    assert world.runners.training() == [G1]
    assert world.state().phase is Phase.RUNNING

    world.run(60)
    assert world.state().progress.checkpoint_step == 10
    lost_at = world.clock()
    world.capacity.preempt(G1)
    world.happen()
    assert world.state().phase is Phase.RECOVERING
    assert world.capacity.deleted == [G1]
    assert world.capacity.created == [G1, G2]

    world.run(180)
    (incident,) = world.incidents()
    assert incident.cause is Cause.PREEMPTION
    assert incident.outcome is Outcome.RESUMED
    assert (incident.last_step, incident.resume_step, incident.steps_lost) == (15, 10, 5)
    assert "step 10" in incident.checkpoint
    reached = [getattr(incident.milestones, name) for name in incident.milestones.__struct_fields__]
    assert None not in reached, incident.milestones
    assert incident.milestones.occurred == lost_at
    assert reached == sorted(reached)
    assert [(action.what, action.result) for action in incident.actions] == [
        ("create train-g2", "queued"),
        ("delete train-g1", "accepted"),
    ]
    assert any("tpu.nodes.terminate" in evidence.says for evidence in incident.evidence)

    world.run(600)
    state = world.state()
    assert (state.phase, state.generation, state.leftovers) == (Phase.RUNNING, 2, ())
    assert list(world.capacity.nodes) == world.runners.training() == [G2]
    assert [notice.severity for _, notice in world.notifier.told] == ["NOTICE"]
    assert {entry.status.value for entry in world.inbox()} <= {"done", "ignored"}
