"""Documents that do not fit are reported, not guessed at, and all the others are read."""

from __future__ import annotations

import pytest
from tests.recovery.shell.world import G1, World, running

from tpu_recovery.errors import Unreadable
from tpu_recovery.model.state import Phase


def spoil(world: World, path: str, **fields: object) -> None:
    world.store.put(path, {**world.store.document(path), **fields})


def test_people_see_every_job_that_can_be_read_and_all_its_incidents_newest_first() -> None:
    world = running()
    world.store.put("jobs/other", {"phase": "DANCING"})
    world.capacity.preempt(G1)
    world.run(900)
    world.capacity.preempt(world.state().slices[0].name)
    world.run(900)
    assert list(world.records.everything()) == ["train"]
    assert [incident.generation for incident in world.records.incidents("train")] == [2, 1]


@pytest.mark.parametrize("path", ["jobs/train", "jobs/train/incidents/{uid}-1"])
def test_a_document_that_does_not_fit_makes_the_look_come_again_later(path: str) -> None:
    world = running()
    world.capacity.preempt(G1)
    world.event(world.preempted())
    spoil(world, path.format(uid=world.state().uid), generation="two")
    before = world.looks()
    with pytest.raises(Unreadable, match="does not fit"):
        world.deliver("/create", world.timers.waiting("creates")[0].body)
    assert world.looks() == before


def test_an_inbox_entry_that_does_not_fit_makes_the_look_come_again_later() -> None:
    world = running()
    entry = world.inbox()[0]
    spoil(world, f"inbox/{entry.key}", status="waiting", received="yesterday")
    with pytest.raises(Unreadable, match="does not fit"):
        world.event(world.preempted())


UNFIT: dict[str, dict[str, object]] = {
    "no placement": {"placements": []},
    "another job's name": {"name": "other"},
    "no command": {"command": " "},
    "a zone that is none": {"placements": [{"zone": "nowhere"}]},
    "fields of other kinds": {"placements": "everywhere"},
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_specification_that_no_job_file_could_have_made_is_unreadable_and_the_job_is_held(case: str) -> None:
    world = running()
    spec = {**world.store.document("specs/train")["spec"], **UNFIT[case]}
    spoil(world, "specs/train", spec=spec)
    world.capacity.preempt(G1)
    world.run(600)
    assert (world.state().phase, world.state().generation) == (Phase.HELD, 1)


@pytest.mark.parametrize("case", UNFIT)
def test_a_specification_that_no_job_file_could_have_made_begins_no_job(case: str) -> None:
    world = World()
    world.apply()
    spec = {**world.store.document("specs/train")["spec"], **UNFIT[case]}
    spoil(world, "specs/train", spec=spec)
    world.run(600)
    assert "jobs/train" not in world.store.documents
