"""The hand-off: what the service wants to run on this VM, from node metadata."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

from tpu_recovery.checkpoints.layouts import layout_of

KEY = "tpu-recovery"
"""The key in node metadata."""


class HandoffInvalid(Exception):
    """The text is no hand-off that this runner understands; the message names the field and what would be right."""


class Launch(NamedTuple):
    """One start of the program; a later one is greater."""

    generation: int
    launch: int

    def __str__(self) -> str:
        return f"generation {self.generation} launch {self.launch}"


class Program(NamedTuple):
    """What must be on the VM before the command can run; ``kind`` is archive or none."""

    kind: str
    archive: str = ""
    sha256: str = ""


class Checkpoints(NamedTuple):
    """Where the program saves; ``seen_step`` is the newest complete step that the service has ever seen."""

    path: str
    format: str
    seen_step: Optional[int]

    @property
    def on_bucket(self) -> bool:
        """Whether the service can look there itself, and every look costs a request."""
        return self.path.startswith("gs://")


class Deadlines(NamedTuple):
    """How long each may take, in seconds."""

    startup_script: float
    setup: float
    stop: float


class Crashes(NamedTuple):
    """How crashes are retried; back-off in seconds. ``limit``: crashes in a row without progress; 0: no retry."""

    limit: int
    first_backoff: float
    longest_backoff: float


class Timing(NamedTuple):
    """Seconds between looks at hand-off and progress, and between `alive` reports."""

    poll: float
    alive: float


class Handoff(NamedTuple):
    """One validated hand-off. ``token`` goes into reports and never into a log."""

    job: str
    uid: str
    key: Launch
    launch_before: Optional[datetime]
    stop: bool
    token: str
    program: Program
    startup_script: Optional[str]
    setup: Optional[str]
    command: str
    user: Optional[str]
    working_directory: Optional[str]
    environment: Mapping[str, str]
    checkpoints: Optional[Checkpoints]
    advised_step: Optional[int]
    topic: str
    deadlines: Deadlines
    crashes: Crashes
    timing: Timing


def parse(text: str) -> Handoff:
    """Validate a hand-off. Fields it does not know are left alone. Raises HandoffInvalid."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise HandoffInvalid(f"the hand-off is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise HandoffInvalid("the hand-off is not a JSON object")
    top = _Fields(data, "")
    if top.integer("version", 1) != 1:
        raise HandoffInvalid(f"hand-off field version is {data['version']}: this runner understands 1")
    reports = top.section("reports")
    resume = top.optional_section("resume")
    return Handoff(
        job=top.text("job"),
        uid=top.text("uid"),
        key=Launch(top.integer("generation", 1), top.integer("launch", 0)),
        launch_before=top.optional_time("launch_before"),
        stop=top.one_of("wanted", ("run", "stop")) == "stop",
        token=top.text("token"),
        program=_program(top.section("program")),
        startup_script=top.optional_text("startup_script"),
        setup=top.optional_text("setup"),
        command=top.text("command"),
        user=top.optional_text("user"),
        working_directory=_inside(top, "working_directory"),
        environment=_environment(top),
        checkpoints=_checkpoints(top.optional_section("checkpoints")),
        advised_step=resume.integer("step", 0) if resume else None,
        topic=reports.text("topic"),
        deadlines=Deadlines(*_seconds(top.section("deadlines"), Deadlines._fields)),
        crashes=_crashes(top.section("crashes")),
        timing=Timing(*_seconds(top.section("timing"), Timing._fields)),
    )


def _program(fields: _Fields) -> Program:
    if fields.get("none") is True:
        return Program("none")
    if fields.get("archive") is None:
        raise fields.wrong("archive", '{"archive": "gs://...", "sha256": "..."} or {"none": true}')
    archive = fields.text("archive")
    if not re.fullmatch(r"gs://[^/]+/.+", archive):
        raise fields.wrong("archive", "gs://bucket/object")
    if not re.fullmatch(r"[0-9a-f]{64}", fields.text("sha256")):
        raise fields.wrong("sha256", "64 lower-case hexadecimal digits")
    return Program("archive", archive, fields.text("sha256"))


def _checkpoints(fields: Optional[_Fields]) -> Optional[Checkpoints]:
    if fields is None:
        return None
    checkpoints = Checkpoints(fields.text("path"), fields.text("format"), fields.optional_integer("seen_step"))
    try:
        layout_of(checkpoints.path, checkpoints.format)
    except ValueError as error:
        raise HandoffInvalid(f"hand-off field checkpoints: {error}") from error
    return checkpoints


def _crashes(fields: _Fields) -> Crashes:
    return Crashes(fields.integer("limit", 0), *_seconds(fields, ("first_backoff", "longest_backoff")))


def _seconds(fields: _Fields, names: Sequence[str]) -> Sequence[float]:
    return [fields.seconds(name) for name in names]


def _environment(top: _Fields) -> Mapping[str, str]:
    values = top.get("environment")
    if not isinstance(values, dict):
        raise HandoffInvalid("hand-off field environment: an object of strings is needed")
    for name, value in values.items():
        # The value may be a secret, so the message leaves it out.
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not isinstance(value, str) or "\0" in value:
            raise HandoffInvalid(f"hand-off field environment.{name}: a variable's name and a string are needed")
    return values


def _inside(top: _Fields, name: str) -> Optional[str]:
    directory = top.optional_text(name)
    if directory is not None and (directory.startswith("/") or ".." in directory.split("/")):
        raise top.wrong(name, "a directory inside the program, relative and without ..")
    return directory


class _Fields:
    """Reads fields of one JSON object; what is wrong is said with the field's full name and value."""

    def __init__(self, data: Dict[str, Any], prefix: str) -> None:
        self._data = data
        self._prefix = prefix

    def get(self, name: str) -> Any:
        return self._data.get(name)

    def wrong(self, name: str, needed: str) -> HandoffInvalid:
        value = "kept out of the log" if name == "token" else json.dumps(self._data.get(name))
        return HandoffInvalid(f"hand-off field {self._prefix}{name} is {value}: {needed} is needed")

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.wrong(name, "a text that is not empty")
        return value

    def optional_text(self, name: str) -> Optional[str]:
        return None if self.get(name) is None else self.text(name)

    def integer(self, name: str, at_least: int) -> int:
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
            raise self.wrong(name, f"a whole number from {at_least}")
        return value

    def optional_integer(self, name: str) -> Optional[int]:
        return None if self.get(name) is None else self.integer(name, 0)

    def seconds(self, name: str) -> float:
        value = self.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise self.wrong(name, "a number of seconds above 0")
        return float(value)

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        value = self.get(name)
        if value not in choices:
            raise self.wrong(name, " or ".join(choices))
        return str(value)

    def section(self, name: str) -> _Fields:
        value = self.get(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return _Fields(value, f"{self._prefix}{name}.")

    def optional_section(self, name: str) -> Optional[_Fields]:
        return None if self.get(name) is None else self.section(name)

    def optional_time(self, name: str) -> Optional[datetime]:
        """An instant in UTC; fractions of a second, which Python 3.8 cannot read beyond microseconds, are cut off."""
        if self.get(name) is None:
            return None
        match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)", self.text(name))
        if not match:
            raise self.wrong(name, "a time in UTC such as 2026-12-01T15:00:00Z")
        try:
            return datetime.strptime(match.group(1), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        except ValueError as error:
            raise self.wrong(name, "a time in UTC that exists") from error
