"""Jobs and incidents as people read them."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tpu_recovery.cli.jobs import JobView
from tpu_recovery.model.incident import Evidence, Incident, Outcome
from tpu_recovery.model.state import JobState, Phase

_STYLES = {
    Phase.RUNNING: "green",
    Phase.SUCCEEDED: "green",
    Phase.HELD: "bold red",
    Phase.SUSPECT: "yellow",
    Phase.RECOVERING: "yellow",
}

_MILESTONES = ("occurred", "received", "decided", "deleted", "accepted", "ready", "launched", "resumed")


def jobs_table(views: list[JobView]) -> Table:
    """One line for each job."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("JOB", "PHASE", "SINCE (UTC)", "GENERATION", "STEP", "CHECKPOINT", "INCIDENTS"):
        table.add_column(heading)
    for view in views:
        state = view.state
        if state is None:
            table.add_row(view.name, Text("NOT SEEN YET", style="yellow"), "", "", "", "", "")
            continue
        table.add_row(
            view.name,
            phase_text(state.phase),
            f"{state.since:%Y-%m-%d %H:%M:%S}",
            str(state.generation),
            _number(state.progress.step),
            _number(state.progress.checkpoint_step),
            str(state.incidents),
        )
    return table


def phase_text(phase: Phase) -> Text:
    """A phase in its colour."""
    return Text(phase.value, style=_STYLES.get(phase, ""))


def job_page(view: JobView) -> RenderableType:
    """One job: where it is, what it runs on, what is wrong, and its incidents."""
    if view.state is None:
        return Text(f"{view.name}: written, but the service has not seen it yet")
    state = view.state
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(state):
        facts.add_row(Text(name, style="bold"), value)
    parts: list[RenderableType] = [facts]
    if state.hold is not None:
        parts.append(Text(f"\nHeld: {state.hold.reason}\nTo do: {state.hold.needs}", style="bold red"))
    for incident in view.incidents:
        parts.extend([Text(), incident_page(incident)])
    return Group(*parts)


def _facts(state: JobState) -> list[tuple[str, Text | str]]:
    facts: list[tuple[str, Text | str]] = [
        ("job", state.job),
        ("phase", phase_text(state.phase)),
        ("since", f"{state.since:%Y-%m-%d %H:%M:%S} UTC"),
        ("generation", f"{state.generation}, launch {state.launch}"),
        ("step", _number(state.progress.step)),
        ("checkpoint", _number(state.progress.checkpoint_step)),
    ]
    facts.extend(("node", f"{one.name} {one.state}") for one in state.slices)
    facts.extend(("leftover", f"{one.name}, to be gone") for one in state.leftovers)
    if state.why:
        facts.append(("because", state.why))
    for concern, patience in state.patience.items():
        facts.append(("waits for", f"{concern}, until {patience.until:%Y-%m-%d %H:%M:%S} UTC at the latest"))
    if state.wake_at is not None:
        facts.append(("next look", f"{state.wake_at:%Y-%m-%d %H:%M:%S} UTC at the latest"))
    return facts


def incident_page(incident: Incident) -> RenderableType:
    """One incident: what died, which evidence says so, what was done and when, what it cost."""
    head = Text(f"Incident {incident.id}: ", style="bold")
    head.append(headline(incident), style="green" if incident.outcome is Outcome.RESUMED else "red")
    parts: list[RenderableType] = [head, Text("Evidence", style="bold")]
    parts.extend(_indented(_evidence(one)) for one in incident.evidence)
    parts.append(Text("Done about it", style="bold"))
    parts.extend(
        _indented(f"{one.at:%H:%M:%S} {one.what}: {one.result}" + (f" ({one.why})" if one.why else ""))
        for one in incident.actions
    )
    if incident.checkpoint:
        parts.extend([Text("Checkpoint", style="bold"), _indented(incident.checkpoint)])
    parts.append(milestones_table(incident))
    if incident.needs:
        parts.append(Text(f"To do: {incident.needs}", style="bold red"))
    return Group(*parts)


def headline(incident: Incident) -> str:
    """The incident in one sentence."""
    if incident.outcome is Outcome.OPEN:
        return f"{incident.cause} of generation {incident.generation}; being recovered"
    if incident.outcome is Outcome.HELD:
        return f"{incident.cause} of generation {incident.generation}; held for a person"
    start = "the beginning" if incident.resume_step is None else f"step {incident.resume_step}"
    lost = "an unknown number of" if incident.steps_lost is None else str(incident.steps_lost)
    return f"{incident.cause} of generation {incident.generation}; training resumed from {start}, {lost} steps lost"


def milestones_table(incident: Incident) -> Table:
    """When each milestone was reached, and how long after the one before."""
    table = Table(title="Milestones", title_justify="left", title_style="bold")
    table.add_column("milestone")
    table.add_column("UTC")
    table.add_column("after the start", justify="right")
    table.add_column("after the one before", justify="right")
    reached: list[tuple[str, datetime]] = []
    for name in _MILESTONES:
        moment: datetime | None = getattr(incident.milestones, name)
        if moment is not None:
            reached.append((name, moment))
    reached.sort(key=lambda pair: pair[1])
    steps = [0.0, *((after - before).total_seconds() for (_, before), (_, after) in pairwise(reached))]
    for (name, moment), step in zip(reached, steps, strict=False):
        since = (moment - reached[0][1]).total_seconds()
        table.add_row(name, f"{moment:%H:%M:%S.%f}"[:-3], f"{since:.2f} s", f"+{step:.2f} s")
    return table


def _evidence(one: Evidence) -> str:
    subject = one.subject.rsplit("/", 1)[-1]
    return f"{one.received:%H:%M:%S} {one.kind}: {subject}: {one.says}"


def _indented(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2))


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
