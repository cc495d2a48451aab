from __future__ import annotations

import pytest

from tpu_recovery.local.firestore.paths import (
    check_database,
    check_document_name,
    check_parent,
    collection_id_of,
    collection_of,
    database_of,
    parse_field_path,
)
from tpu_recovery.local.rpc import Refusal

ROOT = "projects/p/databases/(default)/documents"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b_1.C", ("a", "b_1", "C")),
        ("__name__", ("__name__",)),
        ("`a b`.c", ("a b", "c")),
        ("`a.b`", ("a.b",)),
        (r"`c\`d\\`.x", ("c`d\\", "x")),
    ],
)
def test_field_paths(text: str, path: tuple[str, ...]) -> None:
    assert parse_field_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "1a", "a b", "`a", "``", "a`b`", "é"])
def test_malformed_field_paths_are_refused(text: str) -> None:
    with pytest.raises(Refusal, match="Invalid property path"):
        parse_field_path(text)


@pytest.mark.parametrize("path", ["jobs/train", "jobs/train/incidents/1", "jobs/a b", "jobs/...", "jobs/" + "x" * 1500])
def test_names_of_documents(path: str) -> None:
    check_document_name(f"{ROOT}/{path}")


@pytest.mark.parametrize(
    "name",
    [
        ROOT,
        f"{ROOT}/jobs",
        f"{ROOT}/jobs/train/incidents",
        f"{ROOT}/jobs/",
        f"{ROOT}/jobs//a/b",
        f"{ROOT}/jobs/.",
        f"{ROOT}/jobs/..",
        f"{ROOT}/jobs/__id__",
        f"{ROOT}/jobs/" + "é" * 751,
        ROOT + f"/c/{'x' * 1500}" * 5,
        "projects/p/databases/d/jobs/train",
        "jobs/train",
    ],
)
def test_names_that_no_document_can_have(name: str) -> None:
    with pytest.raises(Refusal):
        check_document_name(name)


def test_a_parent_is_the_root_or_a_document() -> None:
    check_parent(ROOT)
    check_parent(f"{ROOT}/jobs/train")
    with pytest.raises(Refusal, match="is a collection"):
        check_parent(f"{ROOT}/jobs")


def test_parts_of_a_name() -> None:
    name = f"{ROOT}/jobs/train/incidents/1"
    assert database_of(name) == check_database("projects/p/databases/(default)")
    assert collection_of(name) == f"{ROOT}/jobs/train/incidents"
    assert collection_id_of(name) == "incidents"


@pytest.mark.parametrize("name", ["", "p/d", "projects/p", "projects/p/databases/d/documents"])
def test_what_is_no_database(name: str) -> None:
    with pytest.raises(Refusal):
        check_database(name)
