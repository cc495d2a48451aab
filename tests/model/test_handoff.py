"""What the service writes into the node's metadata is what the runner on the VM reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.model.job_files import complete, short
from tests.model.strategies import durations, moments, numbers, values_of

from tpu_recovery.errors import Invalid
from tpu_recovery.model.codec import from_document
from tpu_recovery.model.handoff import (
    CrashPolicy,
    Handoff,
    HandoffCheckpoints,
    HandoffDeadlines,
    HandoffProgram,
    HandoffReports,
    ResumeAdvice,
    Timing,
    Wanted,
    encode_handoff,
)
from tpu_recovery.model.job import Job
from tpu_recovery.model.spec import Attempts, Checkpoints, Deadlines, JobSpec, Program, Wishes
from tpu_recovery.model.state import Create, JobState, Phase, Progress
from tpu_recovery.model.validate import HANDOFF_KEY, LARGEST_METADATA_VALUE, validate
from tpu_recovery.recovery.requests import handoff_of
from tpu_recovery.recovery.settings import Settings
from tpu_recovery.vm import handoff as runner

NOW = datetime(2026, 12, 1, 15, tzinfo=UTC)
SETTINGS = Settings(
    project="p", service_account="s@p.iam.gserviceaccount.com", reports_topic="projects/p/topics/reports"
)

SMALLEST = Handoff(
    job="train",
    uid="k3v",
    generation=2,
    launch=1,
    launch_before=None,
    wanted=Wanted.RUN,
    token="s3cret",
    program=HandoffProgram(none=True),
    command="python3 train.py",
    reports=HandoffReports(topic="projects/p/topics/reports"),
    deadlines=HandoffDeadlines(startup_script=600, setup=1_800, stop=25),
    crashes=CrashPolicy(limit=3),
    timing=Timing(),
)


def read_by_the_runner(handoff: Handoff) -> dict[str, Any]:
    """What the runner has read, in the words of the service."""
    read = runner.parse(encode_handoff(handoff))
    fields = read._asdict()
    fields["generation"], fields["launch"] = fields.pop("key")
    fields["wanted"] = "stop" if fields.pop("stop") else "run"
    fields["topic"] = read.topic
    return fields


def said_by_the_service(handoff: Handoff) -> dict[str, Any]:
    """The same facts, from what the service has written."""
    program, where, resume = handoff.program, handoff.checkpoints, handoff.resume
    deadlines, crashes, timing = handoff.deadlines, handoff.crashes, handoff.timing
    before = handoff.launch_before
    return {
        "job": handoff.job,
        "uid": handoff.uid,
        "generation": handoff.generation,
        "launch": handoff.launch,
        "launch_before": before and before.replace(microsecond=0),  # the runner cuts fractions of a second off
        "wanted": handoff.wanted,
        "token": handoff.token,
        "program": runner.Program("none" if program.none else "archive", program.archive, program.sha256),
        "startup_script": handoff.startup_script,
        "setup": handoff.setup,
        "command": handoff.command,
        "user": handoff.user,
        "working_directory": handoff.working_directory,
        "environment": handoff.environment,
        "checkpoints": where and runner.Checkpoints(where.path, where.format, where.seen_step),
        "advised_step": resume and resume.step,
        "topic": handoff.reports.topic,
        "deadlines": runner.Deadlines(deadlines.startup_script, deadlines.setup, deadlines.stop),
        "crashes": runner.Crashes(crashes.limit, crashes.first_backoff, crashes.longest_backoff),
        "timing": runner.Timing(timing.poll, timing.alive),
    }


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
seconds = st.floats(0.001, 1e6)
paths = st.sampled_from(["gs://bucket", "gs://bucket/a b/é", "/mnt/disks/x"])
directories = st.sampled_from(["src", "a/b", "..a", "."])
variables = st.dictionaries(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), words | st.just(""), max_size=3
)
programs = st.just(HandoffProgram(none=True)) | st.builds(
    HandoffProgram, archive=st.just("gs://bucket/x.tar.gz"), sha256=st.just("0a" * 32)
)

handoffs = st.builds(
    Handoff,
    job=words,
    uid=words,
    generation=st.integers(1, 2**53),
    launch=numbers,
    launch_before=st.none() | moments,
    wanted=values_of(Wanted),
    token=words,
    program=programs,
    startup_script=st.none() | words,
    setup=st.none() | words,
    command=words,
    user=st.none() | words,
    working_directory=st.none() | directories,
    environment=variables,
    checkpoints=st.none()
    | st.builds(HandoffCheckpoints, path=paths, format=st.just("orbax"), seen_step=st.none() | numbers),
    resume=st.none() | st.builds(ResumeAdvice, step=numbers, path=words),
    reports=st.builds(HandoffReports, topic=words),
    deadlines=st.builds(HandoffDeadlines, startup_script=seconds, setup=seconds, stop=seconds),
    crashes=st.builds(CrashPolicy, limit=numbers, first_backoff=seconds, longest_backoff=seconds),
    timing=st.builds(Timing, poll=seconds, alive=seconds),
)


@given(handoffs)
def test_the_runner_reads_every_field_as_the_service_wrote_it(handoff: Handoff) -> None:
    assert read_by_the_runner(handoff) == said_by_the_service(handoff)


@given(handoffs)
def test_the_service_itself_could_read_it_again(handoff: Handoff) -> None:
    assert msgspec.json.decode(encode_handoff(handoff), type=Handoff) == handoff


def test_no_field_is_written_that_the_comparison_above_leaves_out() -> None:
    written = set(json.loads(encode_handoff(SMALLEST)))
    compared = set(said_by_the_service(SMALLEST))
    assert written - compared == {"version", "resume", "reports"}  # the last two are compared as step and topic
    assert compared - written == {"advised_step", "topic"}
    assert set(read_by_the_runner(SMALLEST)) == compared


def test_both_sides_call_the_metadata_key_the_same() -> None:
    assert runner.KEY == HANDOFF_KEY


def test_the_same_hand_off_is_the_same_text_so_that_it_is_not_written_twice() -> None:
    one = replace(SMALLEST, environment={"A": "1", "B": "2"})
    other = replace(SMALLEST, environment={"B": "2", "A": "1"})
    assert encode_handoff(one) == encode_handoff(other)


def test_a_hand_off_is_the_json_that_is_documented() -> None:
    assert json.loads(encode_handoff(replace(SMALLEST, launch_before=NOW))) == {
        "version": 1,
        "job": "train",
        "uid": "k3v",
        "generation": 2,
        "launch": 1,
        "launch_before": "2026-12-01T15:00:00Z",
        "wanted": "run",
        "token": "s3cret",
        "program": {"none": True},
        "startup_script": None,
        "setup": None,
        "command": "python3 train.py",
        "user": None,
        "working_directory": None,
        "environment": {},
        "checkpoints": None,
        "resume": None,
        "reports": {"topic": "projects/p/topics/reports"},
        "deadlines": {"startup_script": 600, "setup": 1800, "stop": 25},
        "crashes": {"limit": 3, "first_backoff": 10, "longest_backoff": 300},
        "timing": {"poll": 5, "alive": 60},
    }


@pytest.mark.parametrize("timing", [{"poll": 0}, {"alive": -1}, {"poll": "5"}])
def test_runners_cannot_be_told_to_look_without_a_pause(timing: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected `float`"):
        from_document(timing, Timing)


def handed_off(spec: JobSpec) -> Handoff:
    """The hand-off of a job with the given specification."""
    state = JobState(
        job=spec.name,
        uid="k3v",
        phase=Phase.STARTING,
        since=NOW,
        generation=2,
        token="s3cret",
        progress=Progress(checkpoint_step=40),
        create=Create(
            request_id="r",
            intended=NOW,
            placement=0,
            where=spec.placements[0],
            launch=1,
            due=NOW,
            resume_step=40,
            resume_path="gs://bucket/40",
        ),
    )
    return handoff_of(Job(state=state, wishes=Wishes(spec=spec)), SETTINGS, launch=1)


@pytest.mark.parametrize("spec", [short(), complete(), complete(by_type_and_one_network=True)])
def test_a_job_as_it_was_written_reaches_the_runner(spec: JobSpec) -> None:
    handoff = handed_off(spec)
    assert read_by_the_runner(handoff) == said_by_the_service(handoff)


texts = st.text(max_size=20)
archives = texts | st.just("gs://bucket/x\n") | st.just("gs://bucket/x")
WILD: dict[str, st.SearchStrategy[Any]] = {
    "command": texts,
    "program": st.just("none") | st.builds(Program, archive=archives, sha256=st.just("0a" * 32)),
    "setup": texts,
    "user": texts,
    "working_directory": texts | directories | st.sampled_from(["", "/", "../x", "a/../../x"]),
    "environment": st.dictionaries(texts | st.sampled_from(["A", "A\n"]), texts, max_size=2),
    "metadata": st.dictionaries(st.just("startup-script"), texts),
    "checkpoints": st.builds(Checkpoints, path=paths | texts),
    "deadlines": st.builds(Deadlines, startup_script=durations, setup=durations, stop=durations),
    "attempts": st.builds(Attempts, crash=numbers),
}
SHORT_SPEC = short()
wild_specs = (
    st.lists(st.sampled_from(sorted(WILD)), min_size=1, max_size=2, unique=True)
    .flatmap(lambda names: st.fixed_dictionaries({name: WILD[name] for name in names}))
    .map(lambda changes: replace(SHORT_SPEC, **changes))
)
"""The short job with one or two fields that hold anything: about half of them are accepted."""


@settings(max_examples=300)
@given(wild_specs)
def test_a_specification_that_is_accepted_never_makes_a_hand_off_that_the_runner_refuses(spec: JobSpec) -> None:
    try:
        validate(spec)
    except Invalid:
        return
    handoff = handed_off(spec)
    assert read_by_the_runner(handoff) == said_by_the_service(handoff)


def test_the_largest_texts_that_are_accepted_still_fit_into_one_metadata_value() -> None:
    quotes = '"' * 60_000  # JSON writes each with two bytes
    spec = validate(replace(short(), setup=quotes, metadata={"startup-script": quotes}, command="x" * 13_000))
    assert len(encode_handoff(handed_off(spec)).encode()) < LARGEST_METADATA_VALUE
