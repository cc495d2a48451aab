"""Why a row applies, in words for people: the row's name and the facts that made it fit."""

from __future__ import annotations

from tpu_recovery.model.job import Job
from tpu_recovery.model.observed import Observed, OperationState, Presence
from tpu_recovery.model.state import RunnerState
from tpu_recovery.model.texts import cut
from tpu_recovery.recovery.situation import Blame, Situation
from tpu_recovery.recovery.table.columns import Answer, Section

MOST_RUNNERS = 3
"""How many workers are quoted."""


def explain(job: Job, observed: Observed, situation: Situation, answer: Answer) -> str:
    """What happened, which row answers it, and what the API, the checkpoints or the runner say, in one line."""
    row = answer.row
    names = [one.name for one in answer.path if one is row or one.cause or one.concern]
    facts = [_node(observed), _create(job, observed)] if row.section is not Section.PERSON else []
    if row.section is Section.CHECKPOINT:
        facts.append(observed.checkpoint.why)
    if row.section is Section.RUNNER:
        facts.extend(_runners([runner for runner in job.state.runners if runner.reason or runner.detail]))
        facts.extend(f"generation {one.generation} may still run" for one in job.state.leftovers if not one.stopped)
    if row.section is Section.CAPACITY and situation.blame is not Blame.NOBODY:
        facts.append(f"entries blame the {situation.blame}")
    said = "; ".join(fact for fact in facts if fact)
    words = "; ".join(names)
    return cut(f"{words} ({said})" if said else words)


def _node(observed: Observed) -> str:
    node = observed.node
    if node is None:
        return ""
    short = node.name.rsplit("/", 1)[-1]
    if node.presence is Presence.PRESENT:
        return f"{short} reads {node.state}"
    return f"{short} is absent" if node.presence is Presence.ABSENT else f"{short} cannot be read: {node.problem}"


def _create(job: Job, observed: Observed) -> str:
    if observed.operation and observed.operation.state is OperationState.FAILED:
        return f"the create failed: {observed.operation.code}: {observed.operation.message}"
    create = job.state.create
    return f"the create call failed: {create.error.code}: {create.error.message}" if create and create.error else ""


def _runners(telling: list[RunnerState]) -> list[str]:
    """What some workers say; a slice has up to thousands, and they mostly say the same."""
    more = len(telling) - MOST_RUNNERS
    return [_runner(runner) for runner in telling[:MOST_RUNNERS]] + ([f"and {more} more"] if more > 0 else [])


def _runner(runner: RunnerState) -> str:
    words = f"worker {runner.worker}: {runner.kind}"
    if runner.reason:
        words += f", {runner.reason}"
    if runner.exit_code is not None:
        words += f", exit code {runner.exit_code}"
    return f"{words}: {runner.detail}" if runner.detail else words
