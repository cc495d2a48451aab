from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.model.job_files import short

from tpu_recovery.model.job import Job, placement_of
from tpu_recovery.model.spec import CapacityKind, Placement, Wishes
from tpu_recovery.model.state import FINAL, Create, JobState, Phase, Slice, Spending

NOW = datetime(2026, 12, 1, 15, tzinfo=UTC)
NODE = "projects/p/locations/us-east5-b/nodes/llama-7b-g1"
SPOT, RESERVED = Placement(zone="us-east5-b"), Placement(zone="us-east5-a", capacity=CapacityKind.RESERVED)


def job(*, placement: int | None = None, slices: tuple[Slice, ...] = ()) -> Job:
    """A job with two placements."""
    create = None
    if placement is not None:
        where = (SPOT, RESERVED)[placement % 2]
        create = Create(request_id="r", intended=NOW, placement=placement, where=where, launch=1, due=NOW)
    state = JobState(job="llama-7b", uid="k3v", phase=Phase.WAITING, since=NOW, create=create, slices=slices)
    return Job(state=state, wishes=Wishes(spec=replace(short(), placements=(SPOT, RESERVED))))


# fmt: off
PLACEMENTS = [
    # number asked for    placement   can be taken away
    (None,                SPOT,       True),   # nothing was asked for yet: the first comes first
    (0,                   SPOT,       True),
    (1,                   RESERVED,   False),
    (2,                   SPOT,       True),   # the list has become shorter since
    (5,                   RESERVED,   False),
]
# fmt: on


@pytest.mark.parametrize(("number", "placement", "is_spot"), PLACEMENTS)
def test_the_placement_is_the_one_that_the_capacity_was_asked_for_in(
    number: int | None, placement: Placement, is_spot: bool
) -> None:
    asked = job(placement=number)
    assert asked.placement == placement
    assert asked.is_spot is is_spot
    assert placement_of(asked.spec, number or 0) == placement


def test_a_job_has_a_node_once_capacity_was_asked_for() -> None:
    assert job().node_name == ""
    assert job(slices=(Slice(name=NODE),)).node_name == NODE


def test_a_job_whose_specification_is_gone_says_so() -> None:
    with pytest.raises(LookupError, match="job llama-7b has no specification"):
        _ = replace(job(), wishes=None).spec


def test_attempts_that_progress_has_forgiven_do_not_count() -> None:
    assert Spending().counted == 0
    assert Spending(spent=5, forgiven=3).counted == 2


def test_a_job_that_is_over_stays_over_and_one_that_waits_for_a_person_is_not() -> None:
    assert {phase.value for phase in FINAL} == {"SUCCEEDED", "DELETED"}
