"""One Spot node lost, from the platform's log entry to training that goes on."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Person

from tpu_recovery.local.stack import wait_until
from tpu_recovery.model.incident import Cause, Outcome
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.records import InboxStatus

pytestmark = pytest.mark.e2e


def test_a_lost_spot_node_is_replaced_and_training_goes_on_from_the_newest_complete_checkpoint(person: Person) -> None:
    person.apply(person.file("train"))
    person.until_training("train", 1)
    person.until("train", lambda job: _saved(person, "train") >= 20)

    (node,) = person.stack.tpu.node_names()
    person.stack.tpu.preempt(node)
    state = person.until_training("train", 2)

    (incident,) = person.incidents("train")
    assert (incident.cause, incident.outcome) == (Cause.PREEMPTION, Outcome.RESUMED)
    assert incident.resume_step is not None
    assert incident.resume_step >= 20
    assert incident.steps_lost is not None
    moments = [getattr(incident.milestones, name) for name in incident.milestones.__struct_fields__]
    assert None not in moments
    assert {one.says.split(" ")[0] for one in incident.evidence} >= {"tpu.nodes.terminate", "GetNode:", "started"}
    assert state.slices[0].name.endswith("/nodes/train-g2")
    assert person.stack.tpu.calls.count(("CreateNode", state.slices[0].name)) == 1


def test_the_old_node_is_gone_and_every_message_has_an_outcome(person: Person) -> None:
    person.apply(person.file("train"))
    person.until_training("train", 1)
    person.stack.tpu.preempt(person.stack.tpu.node_names()[0])
    person.until_training("train", 2)

    assert wait_until(lambda: len(person.stack.tpu.node_names()) == 1, 20)
    assert person.stack.pubsub.wait_idle(20)
    statuses = {entry.status for entry in person.inbox()}
    assert statuses == {InboxStatus.DONE, InboxStatus.IGNORED}


def test_two_losses_in_a_row_make_two_incidents(person: Person) -> None:
    person.apply(person.file("train"))
    for generation in (1, 2):
        person.until_training("train", generation)
        person.stack.tpu.preempt(
            next(name for name in person.stack.tpu.node_names() if name.endswith(f"g{generation}"))
        )
    person.until_training("train", 3)
    assert [one.outcome for one in person.incidents("train")] == [Outcome.RESUMED] * 2


def test_a_function_that_dies_in_the_middle_of_a_recovery_is_made_up_for(person: Person) -> None:
    person.apply(person.file("train"))
    person.until_training("train", 1)
    person.stack.function.kill()
    person.stack.tpu.preempt(person.stack.tpu.node_names()[0])
    person.stack.function.start()
    person.until_training("train", 2)
    assert len(person.incidents("train")) == 1


def test_a_program_that_ends_well_ends_the_job_and_gives_the_tpu_back(person: Person) -> None:
    person.apply(person.file("train", command='"python3 train.py --steps 5 --from {resume_step}"'))
    person.until("train", lambda job: job.phase is Phase.SUCCEEDED)
    assert wait_until(lambda: not person.stack.tpu.node_names(), 20)


def test_pausing_leaves_a_loss_alone_until_the_job_is_resumed(person: Person) -> None:
    from tpu_recovery.cli import jobs

    person.apply(person.file("train"))
    person.until_training("train", 1)
    jobs.set_paused(person.desk, "train", paused=True)
    person.until("train", lambda job: job.phase is Phase.PAUSED)
    person.stack.tpu.preempt(person.stack.tpu.node_names()[0])
    assert person.stack.pubsub.wait_idle(20)
    assert person.stack.tpu.calls.count(("DeleteNode", person.stack.tpu.node_names()[0])) == 0
    person.resume("train")
    person.until_training("train", 2)


def _saved(person: Person, name: str) -> int:
    from tpu_recovery.checkpoints import BucketListing, newest_complete

    listing = BucketListing(lambda: None, person.stack.objects.url)
    return newest_complete(listing, f"gs://demo-bucket/{name}/checkpoints", "orbax").step or 0
