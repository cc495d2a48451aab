"""The pages in docs/ keep up with the code: names, defaults, holds, references, links, job files."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any

import msgspec
import pytest

from tpu_recovery.model.incident import Cause
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.messages import ReportKind
from tpu_recovery.model.spec import JobSpec
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.records import InboxStatus
from tpu_recovery.recovery.table import TABLE
from tpu_recovery.recovery.table.columns import FIXED_PATIENCE, GO_ON, Move, Section

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
SOURCES = sorted(path for folder in ("functions", "tests", "scripts") for path in (ROOT / folder).rglob("*.py"))


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section_of(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same or a higher level."""
    level = heading.split(" ", 1)[0]
    _, found, below = text_of(page).partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    return re.split(rf"\n#{{1,{len(level)}}} ", below)[0]


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row in a text, without headings and rulers."""
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    rulers = {index for index, row in enumerate(cells) if set(row[0]) <= set("-|")}
    return [row for index, row in enumerate(cells) if index not in rulers and index + 1 not in rulers]


def structs_in(kind: Any) -> Iterator[tuple[type[msgspec.Struct], str]]:
    """The structs that a field's type names, each with "[]" when the field holds several."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind, ""
    elif typing.get_origin(kind) is tuple:
        yield from ((struct, "[]") for struct, _ in structs_in(typing.get_args(kind)[0]))
    elif typing.get_origin(kind) in (typing.Union, UnionType):
        for part in typing.get_args(kind):
            yield from structs_in(part)


def fields_of_job_file() -> dict[str, str]:
    """Every field by its dotted name, with its default as the guide writes it. A struct is described once."""
    found: dict[str, str] = {}
    waiting: list[tuple[type[msgspec.Struct], str]] = [(JobSpec, "")]
    described: set[type[msgspec.Struct]] = set()
    while waiting:
        struct, prefix = waiting.pop(0)
        if struct in described:
            continue
        described.add(struct)
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            found[prefix + field.name] = default_of(field)
            inner = structs_in(hints[field.name])
            waiting.extend((kind, f"{prefix}{field.name}{several}.") for kind, several in inner)
    return found


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if isinstance(default, msgspec.Struct):
        return "see below"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "-" if default in (None, "", (), {}) else f"`{default}`"


def holds() -> dict[str, list[str]]:
    """Rows of the decision table that hold a job, by name: the cause, and what a person has to do."""
    return {
        row.name: [row.cause.value if row.cause else "-", row.needs.lower()]
        for rows in TABLE.values()
        for row in rows
        if row.move is Move.HOLD
    }


def test_every_field_of_the_job_file_is_in_the_user_guide_with_its_default() -> None:
    rows = table_rows(section_of("user-guide.md", "## Every field"))
    assert {row[0].strip("`"): row[1] for row in rows} == fields_of_job_file()


def test_no_field_is_described_twice() -> None:
    names = [row[0] for row in table_rows(section_of("user-guide.md", "## Every field"))]
    assert len(names) == len(set(names))


def test_every_hold_is_in_the_operations_guide_with_its_cause_and_what_to_do() -> None:
    rows = table_rows(section_of("operations.md", "## Holds"))
    assert {row[0]: [row[1], row[3].lower()] for row in rows} == holds()


def test_the_command_that_releases_a_hold_is_in_the_user_guide() -> None:
    assert GO_ON in section_of("user-guide.md", "## Holds")


@pytest.mark.parametrize(
    ("page", "heading", "words"),
    [
        ("design.md", "## Phases", Phase),
        ("user-guide.md", "## Phases", Phase),
        ("design.md", "### Causes", Cause),
        ("design.md", "### The inbox", InboxStatus),
        ("operations.md", "## Inbox outcomes", InboxStatus),
        ("design.md", "## The decision table", Move),
        ("design.md", "## The decision table", Section),
        ("design.md", "## On the TPU VM", ReportKind),
    ],
)
def test_every_word_of_the_model_is_explained(page: str, heading: str, words: type[StrEnum]) -> None:
    section = section_of(page, heading)
    assert [word.value for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", section)] == []


def test_every_wait_of_the_service_itself_is_in_the_design() -> None:
    words = {row[0] for row in table_rows(section_of("design.md", "## The decision table"))}
    assert words >= FIXED_PATIENCE.keys()


def test_the_rules_are_numbered_from_1_to_9() -> None:
    assert re.findall(r"^### Rule (\d+):", text_of("design.md"), re.MULTILINE) == [str(n) for n in range(1, 10)]


def references(pattern: str) -> set[tuple[str, str]]:
    """File and numbers of all references of a kind; a reference may go on in the next line."""
    found = set()
    for path in [*SOURCES, *PAGES]:
        flat = re.sub(r"\s+#?\s*", " ", path.read_text(encoding="utf-8"))
        for match in re.finditer(pattern, flat):
            found |= {(str(path.relative_to(ROOT)), number) for number in re.findall(r"\d+(?:\.\d+)?", match[1])}
    return found


def test_every_rule_that_is_referred_to_exists() -> None:
    rules = set(re.findall(r"^### Rule (\d+):", text_of("design.md"), re.MULTILINE))
    found = references(r"\b[Rr]ule (\d+)")
    assert found
    assert {reference for reference in found if reference[1] not in rules} == set()


def test_every_section_of_the_facts_page_that_is_referred_to_exists() -> None:
    sections = set(re.findall(r"^###? (\d+(?:\.\d+)?)\.? ", text_of("platform-facts.md"), re.MULTILINE))
    found = references(r"facts page(?:\]\([^)]*\))?, sections? (\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*)")
    assert found
    assert {reference for reference in found if reference[1] not in sections} == set()


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings can be linked to."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_decision_is_listed_in_the_design() -> None:
    listed = section_of("design.md", "## Decisions")
    assert [note.name for note in (DOCS / "decisions").glob("*.md") if note.name not in listed] == []


def job_files() -> list[tuple[str, str]]:
    pattern = re.compile(r"^```yaml job\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, text) for page in PAGES for text in pattern.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "text"), job_files())
def test_job_files_in_the_pages_are_valid(page: str, text: str) -> None:
    assert parse_job_file(text).name


def test_the_user_guide_shows_job_files() -> None:
    assert "user-guide.md" in {page for page, _ in job_files()}
