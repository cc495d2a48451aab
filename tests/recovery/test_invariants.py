"""Whatever is observed, in whatever order, with whatever failing: what must never happen does not happen."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.recovery.builders import (
    FOUND,
    NOW,
    OTHER_ZONE,
    STILL_RUNNING,
    STOCKOUT,
    SUCCEEDED,
    TOKEN,
    UID,
    ZONE,
    Story,
    checkpoint,
    coming_job,
    event,
    fresh_job,
    job,
    leftover,
    name_of,
    operation,
    report,
    resume,
    said,
    seconds,
    seen,
    wishing,
)

from tpu_recovery.model.decision import Decision, DeleteNode, HandOff, QueueCreate
from tpu_recovery.model.incident import Incident, Outcome
from tpu_recovery.model.job import Job
from tpu_recovery.model.messages import Author, Meaning, ReportKind
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_UID, ResourceName
from tpu_recovery.model.observed import (
    NOT_READ,
    CheckpointFinding,
    Letter,
    NodeReading,
    Observed,
    OperationState,
    Presence,
)
from tpu_recovery.model.spec import CapacityKind, Checkpoints, Placement, WhenDone
from tpu_recovery.model.state import FINAL, JobState, Phase, Slice
from tpu_recovery.recovery.decide import asks_for_checkpoint, decide
from tpu_recovery.recovery.leftovers import STOPPED_STATES
from tpu_recovery.recovery.situation import Standing, standing_of

STATES = (
    *("CREATING", "READY", "READY", "READY", "PREEMPTED", "TERMINATED", "DELETING", "REPAIRING", "STOPPED"),
    *("UNKNOWN", "99"),
)
OPERATIONS = (
    *(None, STILL_RUNNING, SUCCEEDED, STOCKOUT, operation(OperationState.FAILED, "PERMISSION_DENIED", "no")),
    *(operation(OperationState.FORGOTTEN), operation(OperationState.UNREADABLE)),
)
FINDINGS = (
    NOT_READ,
    FOUND,
    *(checkpoint(one) for one in CheckpointFinding if one not in (CheckpointFinding.NOT_READ, CheckpointFinding.FOUND)),
)
BEGINNINGS = (
    *(fresh_job(), job(), coming_job()),
    job(progressed=1),
    job(
        Phase.STARTING,
        generation=2,
        launch=0,
        handed=0,
        slices=(Slice(name=name_of(2), id="id-2", state="READY"),),
        leftovers=(leftover(1),),
    ),
)
STEPS = st.sampled_from((0, 1, 5, 20, 21, 60, 130, 600, 660, 3600, 90_000))
AT_REST = frozenset({Standing.HELD, Standing.PAUSED, Standing.HELD_AND_PAUSED, Standing.STOOD_DOWN, Standing.WATCHED})


@st.composite
def specifications(draw: st.DrawFn) -> dict[str, Any]:
    kinds = draw(st.lists(st.sampled_from(CapacityKind), min_size=1, max_size=2))
    zones = (ZONE, OTHER_ZONE)
    return {
        "placements": tuple(Placement(zone=zone, capacity=kind) for zone, kind in zip(zones, kinds, strict=False)),
        "checkpoints": draw(st.sampled_from((None, Checkpoints(path="gs://b/c"), Checkpoints(path="/mnt/disk")))),
        "when_done": draw(st.sampled_from(WhenDone)),
    }


def reading(draw: st.DrawFn, name: str, generation: int) -> NodeReading:
    what = draw(st.sampled_from(("present", "present", "absent", "absent", "unreadable")))
    if what != "present":
        return NodeReading(name=name, presence=Presence(what), problem="UNAVAILABLE" if what == "unreadable" else "")
    uid = draw(st.sampled_from((UID,) * 9 + ("somebody",)))
    return NodeReading(
        name=name,
        presence=Presence.PRESENT,
        state=draw(st.sampled_from(STATES)),
        id=f"id-{generation}",
        labels={LABEL_UID: uid, LABEL_GENERATION: str(generation)},
        workers=draw(st.integers(0, 2)),
    )


def letters(draw: st.DrawFn, state: JobState) -> tuple[Letter, ...]:
    found: list[Letter] = []
    if draw(st.integers(0, 9)) == 0:
        found.append(resume())
    if state.slices and draw(st.integers(0, 3)) == 0:
        author, meaning = draw(st.sampled_from(Author)), draw(st.sampled_from(Meaning))
        found.append(event(meaning, author, about=state.slices[0].name))
    if draw(st.booleans()):
        found.append(
            said(
                draw(st.sampled_from(ReportKind)),
                worker=draw(st.integers(0, 1)),
                generation=max(state.generation - draw(st.sampled_from((0, 0, 0, 1))), 0),
                launch=max(state.launch - draw(st.sampled_from((0, 0, 0, 1))), 0),
                sequence=draw(st.integers(1, 60)),
                token=draw(st.sampled_from((TOKEN, TOKEN, TOKEN, "guess"))),
                reason=draw(st.sampled_from((None, "launch-expired", "checkpoints-older"))),
                step=draw(st.sampled_from((None, 7, 120))),
                checkpoint_step=draw(st.sampled_from((None, 5, 100))),
                resumed_from=draw(st.sampled_from((None, 100))),
            )
        )
    return tuple(found)


def observation(draw: st.DrawFn, story: Story) -> Observed:
    state = story.state
    node = reading(draw, state.slices[0].name, state.generation) if state.slices else None
    leftovers = [
        reading(draw, one.name, one.generation) for one in state.leftovers if draw(st.booleans()) or not one.stopped
    ]
    observed = seen(
        node,
        *letters(draw, state),
        operation=draw(st.sampled_from(OPERATIONS)),
        leftovers=leftovers,
        reports=[report(ReportKind.FINISHED, launch=state.launch, generation=state.generation, sequence=99)]
        if draw(st.integers(0, 40)) == 0
        else (),
    )
    if asks_for_checkpoint(story.job, observed, story.now):
        observed = replace(observed, checkpoint=draw(st.sampled_from(FINDINGS)))
    return observed


def between_looks(draw: st.DrawFn, story: Story, fields: dict[str, Any]) -> None:
    """What others do between two looks: the queue makes its call, people change their minds."""
    create = story.state.create
    if create and create.accepted is None and not create.error and draw(st.booleans()):
        code = draw(st.sampled_from(("", "", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")))
        if code:
            story.refused(code)
        else:
            story.accepted()
    if draw(st.integers(0, 9)) == 0:
        paused = draw(st.booleans())
        story.rewish(lambda one: wishing(one, paused=paused, **fields))
    if draw(st.integers(0, 30)) == 0:
        story.rewish(lambda one: replace(one, wishes=None))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_no_sequence_of_observations_breaks_a_rule(data: st.DataObject) -> None:
    @st.composite
    def lives(draw: st.DrawFn) -> None:
        fields = draw(specifications())
        story = Story(wishing(draw(st.sampled_from(BEGINNINGS)), **fields))
        for _ in range(draw(st.integers(5, 30))):
            between_looks(draw, story, fields)
            before, closed = story.job, story.job.incident
            observed, later = observation(draw, story), seconds(draw(STEPS))
            decision = story.look(observed, after=later, fails=draw(st.sampled_from(("", "", "", "UNAVAILABLE"))))
            check_numbers(before.state, decision.state)
            check_launch(before.state, observed, decision)
            check_leftovers(before.state, observed, decision)
            check_deletes(decision, observed)
            check_waiting(story, decision)
            check_hold(decision)
            check_incident(before, closed, decision)
            check_nothing_destroyed_on_missing_information(observed, decision)

    data.draw(lives())


def check_numbers(before: JobState, after: JobState) -> None:
    assert after.generation in (before.generation, before.generation + 1)
    assert after.launch >= before.launch or after.generation > before.generation
    for word, spending in after.spending.items():
        old = before.spending.get(word)
        assert spending.spent >= spending.forgiven >= 0
        assert old is None or (spending.spent >= old.spent and spending.forgiven >= old.forgiven)
    assert set(before.spending) <= set(after.spending)
    assert after.uid == before.uid
    if before.phase in FINAL:
        assert (after.phase, after.generation, after.launch) == (before.phase, before.generation, before.launch)


def check_launch(before: JobState, observed: Observed, decision: Decision) -> None:
    """Permission to start is given only when everything older has been read as stopped, by the API, in this life."""
    after = decision.state
    given_at_creation = after.generation > before.generation and after.launch > 0
    given_later = after.generation == before.generation and before.launch == 0 < after.launch
    if given_at_creation or given_later:
        assert all(one.stopped for one in after.leftovers)
    if given_at_creation and before.slices:
        assert observed.node is not None
        assert observed.node.presence is Presence.ABSENT or observed.node.state in STOPPED_STATES
    assert all(action.launch == after.launch for action in decision.actions if isinstance(action, HandOff))
    for one in after.leftovers:
        was = next((old for old in before.leftovers if old.name == one.name), None)
        read = next((reading for reading in observed.leftovers if reading.name == one.name), None)
        if one.stopped and read is not None and read.presence is Presence.PRESENT:
            assert read.state in (*STOPPED_STATES, "DELETING")
        if was is not None and one.stopped and not was.stopped:
            assert read is not None
            assert read.state in STOPPED_STATES


def check_leftovers(before: JobState, observed: Observed, decision: Decision) -> None:
    """None is forgotten before a second NOT_FOUND, and every generation that was asked for is followed."""
    after = decision.state
    kept = {one.name for one in after.leftovers}
    for one in before.leftovers:
        if one.name not in kept:
            read = next(reading for reading in observed.leftovers if reading.name == one.name)
            assert read.presence is Presence.ABSENT
            assert one.absent_since is not None
    if after.generation > before.generation and before.slices:
        assert before.slices[0].name in kept
    assert len(after.slices) <= 1
    assert not kept & {one.name for one in after.slices}


def check_deletes(decision: Decision, observed: Observed) -> None:
    after = decision.state
    names = {one.name: one.generation for one in after.leftovers}
    readings = {one.name: one for one in (*observed.leftovers, *filter(None, [observed.node]))}
    for action in decision.actions:
        if isinstance(action, DeleteNode):
            assert names[action.name] < after.generation or after.phase in FINAL
            parsed = ResourceName.parse(action.name)
            assert parsed is not None
            assert parsed.id == f"train-g{names[action.name]}"
            read = readings.get(action.name)
            assert read is None or read.presence is not Presence.PRESENT or read.labels[LABEL_UID] == UID
        if isinstance(action, QueueCreate):
            assert action.generation == after.generation


def check_waiting(story: Story, decision: Decision) -> None:
    """Somebody looks again, later than now; deadlines are after their beginning."""
    after = decision.state
    assert all(one.until > one.since for one in after.patience.values())
    assert all(one.since <= story.now for one in after.patience.values())
    if after.wake_at is not None:
        assert after.wake_at > story.now or decision.row.startswith("the entry was wrong")
    elif standing_of(story.job) is Standing.OVER:
        assert all(one.stopped for one in after.leftovers)
    else:
        assert standing_of(story.job) in AT_REST, decision.row


def check_hold(decision: Decision) -> None:
    hold = decision.state.hold
    assert hold is not None or decision.state.phase is not Phase.HELD
    if hold is not None:
        assert decision.state.phase in (Phase.HELD, Phase.PAUSED)
        assert hold.reason
        assert "tpu-recovery" in hold.needs


def check_incident(before: Job, known: Incident | None, decision: Decision) -> None:
    incident = decision.incident
    if incident is None:
        assert decision.state.incident == ""
        return
    assert (incident.outcome is Outcome.OPEN) == (decision.state.incident == incident.id)
    assert (incident.closed is None) == (incident.outcome is Outcome.OPEN)
    if known is None:
        assert incident.id == f"{UID}-{before.state.incidents + 1}", "a closed incident is never opened again"
        return
    assert incident.id == known.id
    assert incident.cause is known.cause
    assert incident.evidence[: len(known.evidence)] == known.evidence, "evidence is never lost"
    assert incident.actions[: len(known.actions)] == known.actions
    for field in known.milestones.__struct_fields__:
        old = getattr(known.milestones, field)
        assert old is None or getattr(incident.milestones, field) == old


def check_nothing_destroyed_on_missing_information(observed: Observed, decision: Decision) -> None:
    if observed.node is not None and observed.node.presence is Presence.UNREADABLE:
        assert observed.node.name not in {one.name for one in decision.state.leftovers}


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(sorted(FINAL)))
def test_a_job_that_is_over_never_does_anything_again(data: st.DataObject, phase: Phase) -> None:
    @st.composite
    def looks(draw: st.DrawFn) -> None:
        story = Story(wishing(job(phase), **draw(specifications())))
        between_looks(draw, story, {})
        decision = decide(story.job, observation(draw, story), NOW)
        assert (decision.state.phase, decision.actions, decision.incident) == (phase, (), None)

    data.draw(looks())
