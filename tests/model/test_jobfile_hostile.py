"""Whatever stands in a job file, it is read or refused in one message; nothing hangs and nothing else comes out."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.events.entries import Place, changed, places, without
from tests.model.job_files import COMPLETE, SHORT, refusal

from tpu_recovery.errors import Invalid
from tpu_recovery.model.jobfile import LARGEST_JOB_FILE, parse_job_file

# fmt: off
NO_JOB_FILES = [
    # text                                        value shown   the message says
    ("",                                          None,         "it must be a mapping with `name`, `placements`"),
    ("# nothing yet\n",                           None,         "it must be a mapping"),
    ("train",                                     "train",      "it must be a mapping"),
    ("7",                                         7,            "it must be a mapping"),
    ("- name: train",                             [{"name": "train"}], "it must be a mapping"),
    ("{}",                                        None,         "give the job a name"),
]
NO_YAML = [
    # text                    the message says
    ("name: [",               "it must be YAML: while parsing a flow node"),
    ("name: a: b",            "mapping values are not allowed here"),
    ("\tname: a",             "found character '\\t' that cannot start any token"),
    ("name: \x00",            "special characters are not allowed"),
    ("name: *unknown",        "found undefined alias 'unknown'"),
    ("a: 1\n---\nb: 2",       "expected a single document in the stream"),
    ("? [a]\n: b",            "found unhashable key"),
    ("%",                     "while scanning a directive"),
    ("name: 2026-13-45",      "month must be in 1..12"),
    ("name: !!int x",         "invalid literal for int()"),
    ("name: !!bool x",        "it must be YAML: 'x'"),
    ("name: !!float x",       "could not convert string to float"),
    ("name: !!timestamp x",   "it must be YAML: "),
    ("name: !!int ''",        "it must be YAML: "),
    ("name: " + "9" * 5_000,  "Exceeds the limit"),
    ("name: !!python/object/apply:os.system ['true']", "could not determine a constructor for the tag"),
]
# fmt: on


@pytest.mark.parametrize(("text", "value", "says"), NO_JOB_FILES)
def test_yaml_that_is_no_job(text: str, value: object, says: str) -> None:
    problem = refusal(text)
    assert problem.field == ("name" if text == "{}" else "job file")
    assert problem.value == value
    assert problem.expected.startswith(says)


@pytest.mark.parametrize(("text", "says"), NO_YAML)
def test_text_that_is_no_yaml(text: str, says: str) -> None:
    problem = refusal(text)
    assert problem.field == "job file"
    assert says in problem.expected
    assert "\n" not in str(problem)


def bomb(levels: int, level: str, first: str) -> str:
    """Every level holds the one before nine times."""
    nine = {number: ", ".join([f"*a{number - 1}"] * 9) for number in range(1, levels)}
    return "\n".join([f"a0: &a0 {first}", *(f"a{n}: &a{n} {level.format(before)}" for n, before in nine.items())])


# fmt: off
BOMBS = [
    # text                                                          value shown
    (bomb(9, "[{}]", "[lol, lol, lol]"),                            "more than 20 aliases"),
    (bomb(9, "{{<<: [{}]}}", "{k: v, l: v}"),                       "more than 20 aliases"),
    ("[" * 100_000,                                                 "more than 50 levels"),
    ("{a: " * 100_000,                                              "more than 50 levels"),
    ("- " * 100_000,                                                "more than 50 levels"),
    ("x" * (LARGEST_JOB_FILE + 1),                                  "1000001 characters"),
]
# fmt: on


@pytest.mark.parametrize(("text", "shown"), BOMBS, ids=[shown for _, shown in BOMBS])
def test_what_would_grow_without_end_is_refused_before_it_does(text: str, shown: str) -> None:
    assert refusal(text).value == shown


def test_a_value_that_holds_itself_is_refused_like_any_wrong_value() -> None:
    assert refusal(SHORT + "tags: &tags [*tags]").field == "tags[0]"
    assert refusal(SHORT + "loop: &loop [*loop]").field == "loop"


def test_aliases_may_not_make_more_of_a_job_than_the_store_takes() -> None:
    text = SHORT + f"tags: [&tag {'x' * 200_000}, *tag, *tag, *tag, *tag, *tag]"
    assert "at most 1000000" in str(refusal(text))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=5,
)
DOCUMENT = yaml.safe_load(COMPLETE)
PLACES = list(places(DOCUMENT))


@settings(max_examples=100)
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_anything_anywhere_in_a_job_is_read_or_refused_with_a_field_named(place: Place, value: object) -> None:
    field = message = ""
    try:
        parse_job_file(yaml.safe_dump(changed(DOCUMENT, place, value)))
    except Invalid as problem:
        field, message = problem.field, str(problem)
    assert message.startswith(field)
    assert bool(message) == bool(field)


REQUIRED: dict[Place, str] = {
    ("name",): "name",
    ("placements",): "placements",
    ("placements", 0, "zone"): "placements[0].zone",
    ("placements", 1, "zone"): "placements[1].zone",
    ("program",): "program",
    ("program", "archive"): "program.archive",
    ("program", "sha256"): "program.sha256",
    ("command",): "command",
    ("accelerator_config",): "placements[0].accelerator_type",
    ("accelerator_config", "type"): "accelerator_config.type",
    ("accelerator_config", "topology"): "accelerator_config.topology",
    ("runtime_version",): "placements[1].runtime_version",
    ("checkpoints", "path"): "checkpoints.path",
    ("data_disks", 0, "source_disk"): "data_disks[0].source_disk",
    ("boot_disk_config", "customer_encryption_key", "kms_key_name"): (
        "boot_disk_config.customer_encryption_key.kms_key_name"
    ),
}


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_job_needs_only_its_required_parts(place: Place) -> None:
    text = yaml.safe_dump(without(DOCUMENT, place))
    if place in REQUIRED:
        assert refusal(text).field == REQUIRED[place]
    else:
        assert parse_job_file(text).name == "complete-job-1"


ALPHABET = st.sampled_from(
    [*"abc019 \n-:[]{},?!&*#|>'\"%@`~<=.\\ux", ": ", "\n  ", "!!int ", "!!set ", "&a ", "*a", "<<: *a"]
)


@settings(max_examples=300)
@given(st.lists(ALPHABET, max_size=40).map("".join))
def test_any_text_is_a_job_file_or_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_job_file(text)
