"""The demo: a Spot node is taken away in the middle of a step; training goes on from the last complete checkpoint.

Everything is real but the cloud: the function under functions-framework, Google's clients, the startup script and the
runner as processes, a small training. The cloud is the servers of the local stack on loopback.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tpu_recovery.checkpoints import BucketListing
from tpu_recovery.cli import jobs, render
from tpu_recovery.cloud.clients import firestore_client
from tpu_recovery.cloud.store import FirestoreStore
from tpu_recovery.local.demo_feed import Feed, Tail
from tpu_recovery.local.demo_job import job_file
from tpu_recovery.local.function import FunctionDidNotStart
from tpu_recovery.local.object_store import ObjectStoreUnavailable
from tpu_recovery.local.stack import BUCKET, DATABASE, PROJECT, Stack, StackSettings, wait_until
from tpu_recovery.local.tpu import TpuSettings
from tpu_recovery.model.incident import Incident, Outcome
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.messages import Command
from tpu_recovery.model.names import node_id
from tpu_recovery.recovery.records import Records

JOB = "demo"
CHECKPOINTS = f"gs://{BUCKET}/{JOB}/checkpoints"
SETTINGS = StackSettings(tpu=TpuSettings(create_seconds=2, delete_seconds=1, preemption_grace=2), sweep_every=20)
SHORTENED = (
    ("a node is created in", "2 s", "minutes"),
    ("a Spot node is given notice of", "2 s", "about 30 s"),
    ("a log entry is on the topic after", "0 s", "3 to 6 s"),
    ("the runner reads its hand-off every", "0.2 s", "5 s"),
    ("the sweep runs every", "20 s", "5 min"),
)


ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the demo."""


class DemoFailed(Exception):
    """Something that the demo waits for did not happen in time."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; gives the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything up and print how to point clients at it")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    for number in ENDINGS:
        signal.signal(number, _interrupt)
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1,localhost"]))
    with tempfile.TemporaryDirectory(prefix="tpu-recovery-demo-") as directory:
        feed = Feed(console)
        stack = Stack(SETTINGS, Path(directory), on_entry=feed.entry)
        try:
            with stack:
                Demo(stack, feed, console).run(keep=options.keep)
        except DemoFailed as failure:
            console.print(f"[bold red]The demo failed:[/] {failure}")
            console.print(stack.function.log.read_text()[-4000:], markup=False)
            return 1
        except (ObjectStoreUnavailable, FunctionDidNotStart) as problem:
            console.print(f"[bold red]The demo could not start:[/] {problem}")
            return 1
        except KeyboardInterrupt:
            console.print("stopped")
            return 130
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End with everything stopped that was started; whoever is impatient does not cut that short."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class Demo:
    """The story, told by what the stack really does."""

    def __init__(self, stack: Stack, feed: Feed, console: Console) -> None:
        os.environ.update(stack.environment)
        self._stack = stack
        self._feed = feed
        self._console = console
        store = FirestoreStore(firestore_client(PROJECT, DATABASE))
        self._records = Records(store)
        self._desk = jobs.Desk(
            store=store,
            send=self._send,
            clock=lambda: datetime.now(UTC),
            fresh=lambda: uuid.uuid4().hex,
            person="you",
        )
        self._listing = BucketListing(lambda: None, stack.objects.url)
        self._vms = stack.directory / "vms"

    def run(self, *, keep: bool = False) -> None:
        """Register, train, lose the node, watch the recovery, explain it; then end, or stay up. Raises DemoFailed."""
        self._introduce()
        tail = Tail(self._feed)
        tail.follow_calls(self._stack.tpu.calls)
        tail.follow_decisions(self._stack.function.log)
        tail.follow_vms(self._vms)
        tail.start()
        try:
            with Live(get_renderable=self._status, console=self._console, refresh_per_second=8, transient=True):
                self._train("python3 train.py --steps 1000000 --from {resume_step}" if keep else "")
                self._lose()
                incident = self._recover()
            if not keep:
                tail.stop()
            self._explain(incident)
            if keep:
                self._stay_up()
        finally:
            tail.stop()

    def _introduce(self) -> None:
        self._console.rule("tpu-recovery demo: one Spot node lost, training goes on")
        self._console.print("Waits that are shortened here (and what they really are):")
        for what, here, really in SHORTENED:
            self._console.print(f"  {what} {here} ({really})")
        self._console.print()

    def _train(self, command: str) -> None:
        spec = parse_job_file(job_file(self._stack.objects.url, JOB, command))
        self._feed.say("demo", f"tpu-recovery apply {JOB}.yaml: {jobs.apply(self._desk, spec)}")
        self._await("training to begin", lambda: self._step() > 0, 20)
        self._await("the first complete checkpoint", lambda: self._complete() >= 20, 20)

    def _lose(self) -> None:
        """Take the node away while a checkpoint is half written: it must not be resumed from."""
        self._await("a checkpoint that is being written", lambda: self._half_written() > self._complete(), 20)
        node = self._stack.tpu.node_names()[0]
        self._feed.say("demo", f"*** the Spot node {node.rsplit('/', 1)[-1]} is taken away at step {self._step()}, ***")
        self._feed.say("demo", f"*** while the checkpoint of step {self._half_written()} is half written ***")
        self._stack.tpu.preempt(node)

    def _recover(self) -> Incident:
        self._await("the incident to close", lambda: self._incident() is not None, 30)
        before = self._complete()
        self._await("a newer checkpoint", lambda: self._complete() > before, 20)
        self._feed.say("demo", f"training goes on; step {self._complete()} is saved")
        incident = self._incident()
        if incident is None:
            raise DemoFailed("the incident has vanished")
        return incident

    def _explain(self, incident: Incident) -> None:
        self._console.rule("what the job's record says about it")
        self._console.print(render.incident_page(incident))
        self._console.print(f"\nSteps lost: [bold]{incident.steps_lost}[/]; resumed from step {incident.resume_step}.")

    def _stay_up(self) -> None:
        """Until Ctrl-C; at a terminal, Enter takes the node away once more."""
        say = self._console.out
        self._console.rule("everything is still up; Ctrl-C stops it")
        say("Point clients at it, in another shell:")
        for name, value in sorted(self._stack.environment.items()):
            say(f"  export {name}={value}", highlight=False)
        say(f"  {Path(sys.executable).parent / 'tpu-recovery'} list", highlight=False)
        say(f"The function serves {self._stack.function.url}; its log is {self._stack.function.log}", highlight=False)
        if not _at_a_terminal():
            signal.pause()
        say("Press Enter to take the Spot node away once more.")
        while sys.stdin.readline():
            self._lose_again()
        signal.pause()

    def _lose_again(self) -> None:
        ready = [node for node in self._stack.tpu.node_names() if self._stack.tpu.hostnames(node)]
        try:
            self._stack.tpu.preempt(ready[0])
        except (IndexError, ValueError):
            self._feed.say("demo", "there is no node that could be taken away just now")

    def _send(self, command: Command) -> None:
        import msgspec

        self._stack.publish("commands", msgspec.json.encode(command), job=command.job)

    def _await(self, what: str, condition: Callable[[], Any], seconds: float) -> None:
        if not wait_until(condition, seconds):
            raise DemoFailed(f"waited {seconds:.0f} s for {what}")

    def _step(self) -> int:
        """The step that the newest VM's program is at."""
        files = sorted(
            self._vms.glob("*/var/lib/tpu-recovery/exchange/progress"), key=lambda file: file.stat().st_mtime
        )
        text = files[-1].read_text() if files else ""
        return int(text) if text.isdigit() else 0

    def _complete(self) -> int:
        """The newest complete checkpoint."""
        steps = [step for step in self._saved() if "commit_success.txt" in self._listing.files(f"{CHECKPOINTS}/{step}")]
        return max(steps, default=0)

    def _half_written(self) -> int:
        """The newest checkpoint, complete or not."""
        return max(self._saved(), default=0)

    def _saved(self) -> list[int]:
        return [int(name) for name in self._listing.directories(CHECKPOINTS) if name.isdigit()]

    def _incident(self) -> Incident | None:
        closed = [one for one in self._records.incidents(JOB) if one.outcome is Outcome.RESUMED]
        return closed[0] if closed else None

    def _status(self) -> Text:
        state = self._records.everything().get(JOB)
        if state is None:
            return Text("no job yet")
        line = Text("job demo ")
        line.append(render.phase_text(state.phase))
        line.append(f" on {node_id(JOB, state.generation)}, step {self._step()}")
        return line


def _at_a_terminal() -> bool:
    """Whether somebody can press Enter: in the background, reading from the terminal would stop the process."""
    return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()


if __name__ == "__main__":
    sys.exit(main())
