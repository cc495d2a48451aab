"""Inbox entries that wait -> letters: what they say, with the evidence to keep."""

from __future__ import annotations

from tpu_recovery.errors import Invalid
from tpu_recovery.events.entry import parse_entry
from tpu_recovery.events.reports import parse_command, parse_report
from tpu_recovery.model.incident import Evidence, EvidenceKind
from tpu_recovery.model.messages import Command, Event, Report
from tpu_recovery.model.observed import Letter
from tpu_recovery.model.texts import LONGEST_RAW, cut
from tpu_recovery.recovery.records import InboxEntry, InboxKind


def read_letters(entries: list[InboxEntry], service_account: str) -> tuple[list[Letter], dict[str, str]]:
    """The letters in waiting entries, and the entries that hold none, with the reason.

    Entries were parsed once before they were written, so a reason here means that the code has changed since.
    """
    letters, unread = [], {}
    for entry in entries:
        if entry.kind is InboxKind.TIMER:
            continue
        try:
            letters.append(_READERS[entry.kind](entry, service_account))
        except Invalid as problem:
            unread[entry.key] = str(problem)
    return letters, unread


def _event(entry: InboxEntry, service_account: str) -> Letter:
    event = parse_entry(entry.raw.encode(), service_account=service_account)
    return Letter(key=entry.key, received=entry.received, evidence=_event_evidence(event, entry), event=event)


def _report(entry: InboxEntry, _service_account: str) -> Letter:
    report = parse_report(entry.raw.encode())
    return Letter(key=entry.key, received=entry.received, evidence=_report_evidence(report, entry), report=report)


def _command(entry: InboxEntry, _service_account: str) -> Letter:
    command = parse_command(entry.raw.encode())
    return Letter(key=entry.key, received=entry.received, evidence=_command_evidence(command, entry), command=command)


_READERS = {InboxKind.EVENT: _event, InboxKind.REPORT: _report, InboxKind.COMMAND: _command}


def _event_evidence(event: Event, entry: InboxEntry) -> Evidence:
    words = [event.method]
    if event.principal:
        words.append(f"by {event.principal}")
    if event.message or event.terminate_reason:
        words.append(f"({event.terminate_reason or event.message})")
    return Evidence(
        kind=EvidenceKind.EVENT,
        at=event.at,
        received=entry.received,
        subject=str(event.resource),
        says=cut(" ".join(words)),
        meaning=event.meaning,
        author=event.author,
        raw=cut(entry.raw, LONGEST_RAW),
    )


def _report_evidence(report: Report, entry: InboxEntry) -> Evidence:
    words = [f"{report.kind} (launch {report.launch}, worker {report.worker})"]
    words.extend(f"{name} {value}" for name, value in _facts(report) if value is not None)
    return Evidence(
        kind=EvidenceKind.REPORT,
        at=report.at,
        received=entry.received,
        subject=f"generation {report.generation}",
        says=cut(", ".join(words)),  # the text as it came stays in the inbox: it holds the generation's token
    )


def _facts(report: Report) -> tuple[tuple[str, object], ...]:
    return (
        ("resumed from step", report.resumed_from),
        ("step", report.step),
        ("checkpoint", report.checkpoint_step),
        ("exit code", report.exit_code),
        ("reason", report.reason),
        ("says", report.detail),
    )


def _command_evidence(command: Command, entry: InboxEntry) -> Evidence:
    return Evidence(
        kind=EvidenceKind.COMMAND,
        at=command.at,
        received=entry.received,
        subject=command.job,
        says=cut(f"{command.kind} by {command.by or 'somebody'}"),
        raw=cut(entry.raw, LONGEST_RAW),
    )
