from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpu_recovery.model.job import node_name
from tpu_recovery.model.names import JOB_NAME, LONGEST_JOB_NAME, ResourceName, node_id

# fmt: off
NAMES = [
    # text                                                                     project, zone, kind, id
    ("projects/p/locations/z/nodes/n",                                         ("p", "z", "nodes", "n")),
    ("projects/p/locations/z/queuedResources/q",                               ("p", "z", "queuedResources", "q")),
    ("projects/p/zones/z/instances/i",                                         ("p", "z", "instances", "i")),
    ("projects/123456/zones/z/instances/i",                                    ("123456", "z", "instances", "i")),
    ("//tpu.googleapis.com/projects/p/locations/z/nodes/n",                    ("p", "z", "nodes", "n")),
    ("//compute.googleapis.com/projects/p/zones/z/instances/i",                ("p", "z", "instances", "i")),
]
NO_NAMES = [
    "",
    "n",
    "projects/p/locations/z",
    "projects/p/locations/z/nodes",
    "projects/p/locations/z/nodes/",
    "projects/p/locations/z/nodes/n/more",
    "projects//locations/z/nodes/n",
    "projects/p/locations/z/operations/o",
    "projects/p/zones/z/disks/d",
    "projects/p/regions/r/nodes/n",
    "/projects/p/locations/z/nodes/n",
    "https://tpu.googleapis.com/v2/projects/p/locations/z/nodes/n",
    "x projects/p/locations/z/nodes/n",
]
# fmt: on


@pytest.mark.parametrize(("text", "parts"), NAMES)
def test_a_full_name_is_taken_apart(text: str, parts: tuple[str, str, str, str]) -> None:
    assert ResourceName.parse(text) == parts


@pytest.mark.parametrize("text", NO_NAMES)
def test_anything_else_is_not_the_name_of_something_we_know(text: str) -> None:
    assert ResourceName.parse(text) is None


@pytest.mark.parametrize("text", [text for text, _ in NAMES if text.startswith("projects/")])
def test_a_name_is_written_as_it_was_read(text: str) -> None:
    assert str(ResourceName.parse(text)) == text


@given(st.text())
def test_any_text_is_a_name_or_none(text: str) -> None:
    assert ResourceName.parse(text) is None or text.count("/") >= 5


def test_a_node_is_created_in_its_location() -> None:
    name = ResourceName.node("p", "us-east5-b", "train-g2")
    assert str(name) == "projects/p/locations/us-east5-b/nodes/train-g2"
    assert name.parent == "projects/p/locations/us-east5-b"


def test_every_generation_has_a_name_of_its_own() -> None:
    assert node_id("train", 12) == "train-g12"
    assert node_name("p", "us-east5-b", "train", 12) == "projects/p/locations/us-east5-b/nodes/train-g12"


# fmt: off
WORKERS = [
    ("projects/p/zones/z/instances/t1v-n-9472280f-w-0",   True),
    ("projects/p/zones/z/instances/t1v-n-9472280f-w-127", True),
    ("projects/p/zones/z/instances/t1v-n-9472280f-w-",    False),
    ("projects/p/zones/z/instances/t1v-n-9472280f-w-0x",  False),
    ("projects/p/zones/z/instances/t1v-n-train-w-0",      False),
    ("projects/p/zones/z/instances/my-t1v-n-9472280f-w-0", False),
    ("projects/p/locations/z/nodes/t1v-n-9472280f-w-0",   False),
]
# fmt: on


@pytest.mark.parametrize(("text", "is_worker"), WORKERS)
def test_a_worker_of_a_node_is_known_by_its_name(text: str, is_worker: bool) -> None:
    name = ResourceName.parse(text)
    assert name is not None
    assert name.is_worker is is_worker


# fmt: off
JOB_NAMES = [
    ("a",                          True),
    ("a1",                         True),
    ("train-2026-b",               True),
    ("a" * LONGEST_JOB_NAME,       True),
    ("a" * (LONGEST_JOB_NAME + 1), False),
    ("",                           False),
    ("-a",                         False),
    ("a-",                         False),
    ("1a",                         False),
    ("A",                          False),
    ("train_1",                    False),
    ("träin",                      False),
    ("a b",                        False),
    ("a/b",                        False),
    ("train\n",                    False),
]
# fmt: on


@pytest.mark.parametrize(("name", "good"), JOB_NAMES)
def test_a_job_name_can_be_part_of_a_node_id_and_of_a_document_path(name: str, good: bool) -> None:
    assert bool(JOB_NAME.fullmatch(name)) is good


def test_the_longest_job_name_leaves_room_for_any_generation_in_a_node_id() -> None:
    assert len(node_id("a" * LONGEST_JOB_NAME, 10**9)) <= 63
