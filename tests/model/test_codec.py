"""Documents as they lie in Firestore: what is written down comes back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model.job_files import complete, short
from tests.model.strategies import values_of

from tpu_recovery.model.codec import from_document, to_document
from tpu_recovery.model.duration import Duration
from tpu_recovery.model.handoff import Handoff, Timing
from tpu_recovery.model.incident import Evidence, Incident, Milestones
from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import Command, Event, Report
from tpu_recovery.model.observed import Letter, NodeReading
from tpu_recovery.model.spec import Deadlines, JobSpec, Placement, Wishes
from tpu_recovery.model.state import JobState, Phase

DOCUMENTS: tuple[type[msgspec.Struct], ...] = (
    Wishes,
    JobSpec,
    JobState,
    Incident,
    Evidence,
    Event,
    Report,
    Command,
    Letter,
    NodeReading,
    Job,
    Handoff,
)

STORED = {str, int, float, bool, type(None), datetime}
"""Exactly these and no subclass, like a member of an enumeration."""


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from leaves(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from leaves(member)
    else:
        yield value


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(choice=st.data())
def test_a_document_is_made_of_what_firestore_stores_and_comes_back_as_it_was(
    kind: type[Any], choice: st.DataObject
) -> None:
    value = choice.draw(values_of(kind))
    document = to_document(value)
    assert {type(leaf) for leaf in leaves(document)} <= STORED
    assert from_document(document, kind) == value


@pytest.mark.parametrize("spec", [short(), complete(), complete(by_type_and_one_network=True)])
def test_wishes_come_back_as_they_were(spec: JobSpec) -> None:
    wishes = Wishes(spec=spec, revision=7, paused=True)
    assert from_document(to_document(wishes), Wishes) == wishes


def test_moments_stay_moments_to_the_microsecond() -> None:
    at = datetime(2026, 12, 1, 15, 0, 0, 123_456, UTC)
    document = to_document(Milestones(occurred=at))
    assert document["occurred"] is at
    assert document["resumed"] is None


def test_durations_are_written_as_people_write_them() -> None:
    document = to_document(Deadlines(setup=Duration(minutes=90), stop=Duration(seconds=20)))
    assert document == {"setup": "1h30m", "stop": "20s"}
    assert from_document(document, Deadlines).setup.total_seconds() == 5_400


def test_words_of_an_enumeration_are_written_as_text() -> None:
    state = JobState(job="train", uid="k3v", phase=Phase.RUNNING, since=datetime(2026, 12, 1, tzinfo=UTC))
    assert to_document(state)["phase"] == "RUNNING"


def test_what_people_did_not_write_is_not_written_for_them() -> None:
    assert to_document(Placement(zone="us-east5-b")) == {"zone": "us-east5-b"}


def test_all_of_the_states_fields_are_written_every_time_because_a_commit_replaces_those_it_names() -> None:
    state = JobState(job="train", uid="k3v", phase=Phase.RUNNING, since=datetime(2026, 12, 1, tzinfo=UTC))
    assert set(to_document(state)) == set(JobState.__struct_fields__)


def test_a_field_from_the_future_is_an_error_in_a_specification_and_left_alone_in_a_state() -> None:
    document = to_document(short())
    with pytest.raises(msgspec.ValidationError, match="unknown field `slices`"):
        from_document({**document, "slices": 2}, JobSpec)
    state = JobState(job="train", uid="k3v", phase=Phase.RUNNING, since=datetime(2026, 12, 1, tzinfo=UTC))
    assert from_document({**to_document(state), "mood": "good"}, JobState) == state


@pytest.mark.parametrize("duration", [3_600, "1 hour", "", None, "1h30", timedelta(hours=1)])
def test_a_duration_that_nobody_can_read_is_named(duration: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"write whole units like .* - at `\$\.setup`"):
        from_document({"setup": duration}, Deadlines)


def test_texts_from_environment_variables_may_be_read_as_numbers_when_asked_for() -> None:
    assert from_document({"poll": "2.5"}, Timing, strict=False).poll == 2.5
    with pytest.raises(msgspec.ValidationError, match=r"Expected `float`, got `str` - at `\$\.poll`"):
        from_document({"poll": "2.5"}, Timing)


@pytest.mark.parametrize("value", [7, "text", [1], datetime(2026, 12, 1, tzinfo=UTC), None])
def test_only_a_struct_is_a_document(value: object) -> None:
    with pytest.raises(TypeError, match="is not a document"):
        to_document(value)


def test_types_without_a_document_form_are_refused_in_both_directions() -> None:
    class Odd(msgspec.Struct):
        number: complex

    with pytest.raises(TypeError, match="complex has no document form"):
        to_document(Odd(1j))
    with pytest.raises(msgspec.ValidationError, match="complex has no document form"):
        from_document({"number": 1}, Odd)
