"""The runner's loop: look at the situation, take the next step of the table, wait."""

from __future__ import annotations

import traceback
from datetime import datetime
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from tpu_recovery.vm.backoff import delay
from tpu_recovery.vm.command import Resume
from tpu_recovery.vm.failures import CannotStart, Interrupted, Refused, SetupFailed
from tpu_recovery.vm.handoff import Handoff, HandoffInvalid, Launch, parse
from tpu_recovery.vm.log import log
from tpu_recovery.vm.machine import Machine
from tpu_recovery.vm.outbox import Outbox
from tpu_recovery.vm.reports import Reporter
from tpu_recovery.vm.signals import Signals
from tpu_recovery.vm.state import JobState, Settled, State, StateFile
from tpu_recovery.vm.steps import Situation, Step, count_crash, next_step
from tpu_recovery.vm.trainer import Trainer
from tpu_recovery.vm.watch import HandoffWatch

_FLUSH = 5.0  # seconds for the last reports when the VM shuts down
_WAIT_WITHOUT_HANDOFF = 60.0  # seconds; a hand-off ends the wait early
_WAIT_AFTER_ERROR = 1.0  # seconds, so that an error that comes again and again does not fill the log

Pause = Callable[[float], None]


class Clock(NamedTuple):
    """The time in UTC, and a count of seconds that never jumps."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]


class Supervisor:
    """One runner on one worker."""

    def __init__(
        self,
        *,
        machine: Machine,
        signals: Signals,
        handoffs: HandoffWatch,
        state: State,
        file: StateFile,
        reporter: Reporter,
        outbox: Outbox,
        trainer: Trainer,
        prepare: Callable[[Handoff, Pause], Path],
        choose: Callable[[Handoff, Pause], Resume],
        clock: Clock,
    ) -> None:
        self._machine = machine
        self._signals = signals
        self._handoffs = handoffs
        self._state = state
        self._file = file
        self._reporter = reporter
        self._outbox = outbox
        self._trainer = trainer
        self._prepare = prepare
        self._choose = choose
        self._clock = clock
        self._text: Optional[str] = None
        self._handoff: Optional[Handoff] = None
        self._prepared: Optional[Tuple[Launch, Path]] = None
        self._retry_at = 0.0
        self._alive_at = 0.0
        self._left = False
        self._steps: Dict[Step, Callable[[Handoff], None]] = {
            Step.END: self._end,
            Step.STOP: self._stop,
            Step.WATCH: self._watch,
            Step.IDLE: self._rest,
            Step.REPEAT: self._repeat,
            Step.SAY_STOPPED: lambda handoff: self._settle(handoff, "stopped"),
            Step.REFUSE_EXPIRED: self._refuse_expired,
            Step.BACK_OFF: self._rest,
            Step.PREPARE: self._make_ready,
            Step.START: self._start,
        }

    def run(self) -> None:
        """Go on until SIGTERM; then the program is stopped, the last reports are sent, and it returns."""
        turn = self._clear
        while not self._left:
            try:
                turn()
            except Exception as error:  # noqa: BLE001 - a runner that ends leaves the job without a word
                self._survive(error)
            turn = self._turn

    def _clear(self) -> None:
        self._trainer.clear()

    def _turn(self) -> None:
        self._take_handoff()
        step = self._next_step()
        if step is Step.LEAVE:
            self._left = True
            self._leave()
        elif self._handoff is None:
            self._signals.wait(_WAIT_WITHOUT_HANDOFF)
        else:
            self._say_alive(self._handoff)
            self._steps[step](self._handoff)

    def _survive(self, error: Exception) -> None:
        """A mistake of the runner's own: this launch is over on this VM, a newer one is watched for."""
        handoff = self._handoff
        token = handoff.token if handoff is not None else ""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__)).strip()
        text = text.replace(token, "(token)") if token else text
        log(f"unexpected error: {text}")
        if handoff is None or self._left:
            return self._signals.wait(_WAIT_AFTER_ERROR)
        try:
            self._trainer.stop(handoff.deadlines.stop)
        except Exception as another:  # noqa: BLE001 - the report comes first
            log(f"the program could not be stopped: {another!r}")
        settled = self._job.settled
        if settled is None or (settled.launch, settled.reason) != (handoff.key, "runner-error"):
            self._cannot_start(handoff, SetupFailed("runner-error", text))
        return self._signals.wait(_WAIT_AFTER_ERROR)

    @property
    def _job(self) -> JobState:
        return self._state.job

    def _next_step(self) -> Step:
        situation = Situation(
            now=self._clock.now(),
            boot=self._machine.boot,
            terminating=self._signals.terminating,
            running=self._trainer.launch,
            ended=self._trainer.exit_code() is not None,
            started=self._job.started,
            settled=self._job.settled,
            prepared=self._prepared[0] if self._prepared else None,
            retry_in=self._retry_at - self._clock.monotonic(),
        )
        return next_step(self._handoff, situation)

    # The hand-off

    def _take_handoff(self) -> None:
        """Take over a new text, unless it is invalid or an older launch than one that was seen."""
        text = self._handoffs.text
        if text is None or text == self._text:
            return
        self._text = text
        try:
            handoff = parse(text)
        except HandoffInvalid as invalid:
            log(f"waiting for another hand-off: {invalid}")
            return
        if handoff.uid != self._job.uid:  # another registration: nothing that was done for the last one counts
            self._trainer.stop(handoff.deadlines.stop)
            self._prepared = None
            self._state.job = JobState(handoff.uid)
        if handoff.key < self._job.seen:
            log(f"ignoring a hand-off for {handoff.key}: {self._job.seen} was seen before")
            return
        if handoff.key > self._job.seen:
            self._job.see(handoff.key)
            self._retry_at = 0.0
        log(f"hand-off for job {handoff.job}, {handoff.key}, {'stop' if handoff.stop else 'run'}")
        self._handoff = handoff
        self._handoffs.poll = handoff.timing.poll
        if self._job.beacon_boot != self._machine.boot:
            self._job.beacon_boot = self._machine.boot
            self._say(handoff, "booted")
        self._file.save(self._state)

    def _pause(self, wanted: Handoff) -> Pause:
        """A wait for whatever prepares the launch of ``wanted``: it ends that work when the launch is off."""

        def pause(seconds: float) -> None:
            end = self._clock.monotonic() + seconds
            while True:
                self._take_handoff()
                now = self._handoff
                if self._signals.terminating or now is None or now.stop or now.key != wanted.key:
                    raise Interrupted
                self._say_alive(wanted)
                left = end - self._clock.monotonic()
                if left <= 0:
                    return
                self._signals.wait(min(left, wanted.timing.poll))

        return pause

    # Steps

    def _rest(self, handoff: Handoff) -> None:
        left = self._retry_at - self._clock.monotonic()
        self._signals.wait(min(left, handoff.timing.poll) if left > 0 else handoff.timing.poll)

    def _watch(self, handoff: Handoff) -> None:
        self._trainer.keep_output_bounded()
        if not self._trainer.progress_said and self._trainer.progressed:
            self._trainer.progress_said = True
            self._say(handoff, "progress")
        self._rest(handoff)

    def _make_ready(self, handoff: Handoff) -> None:
        try:
            self._prepared = (handoff.key, self._prepare(handoff, self._pause(handoff)))
        except Interrupted:
            log(f"{handoff.key} is not wanted any more")
        except CannotStart as reason:
            self._cannot_start(handoff, reason)

    def _start(self, handoff: Handoff) -> None:
        try:
            resume = self._choose(handoff, self._pause(handoff))
            if self._next_step() is not Step.START or self._prepared is None:
                return  # choosing took so long that the launch expired
            self._job.started = handoff.key
            self._job.best_checkpoint = max(
                (step for step in (self._job.best_checkpoint, resume.step) if step is not None), default=None
            )
            self._file.save(self._state)
            self._trainer.start(handoff, self._prepared[1], resume)
        except Interrupted:
            log(f"{handoff.key} is not wanted any more")
        except CannotStart as reason:
            self._cannot_start(handoff, reason)
        else:
            self._say(handoff, "started")

    def _end(self, handoff: Handoff) -> None:
        """The program ended and nobody asked it to."""
        if self._signals.terminating:
            return None  # somebody did, just now: the next step is to leave
        lines = self._trainer.last_lines
        exit_code = self._trainer.stop(handoff.deadlines.stop)
        checkpoint = self._trainer.look_for_checkpoint()
        if exit_code == 0:
            return self._settle(handoff, "finished", exit_code=0)
        count_crash(self._job, self._trainer.step, checkpoint)
        if self._job.crashes >= handoff.crashes.limit:
            detail = f"{self._job.crashes} crashes in a row without progress; the last lines:\n{lines}"
            return self._settle(handoff, "gave_up", reason="crash-loop", detail=detail, exit_code=exit_code)
        wait = delay(max(1, self._job.crashes), handoff.crashes.first_backoff, handoff.crashes.longest_backoff)
        self._retry_at = self._clock.monotonic() + wait
        return self._say(handoff, "crashed", exit_code=exit_code, detail=lines)

    def _stop(self, handoff: Handoff) -> None:
        log(f"stopping {self._trainer.launch}: the hand-off wants {handoff.key} to {'stop' if handoff.stop else 'run'}")
        exit_code = self._trainer.stop(handoff.deadlines.stop)
        self._trainer.look_for_checkpoint()
        if handoff.stop and not self._signals.terminating:
            self._settle(handoff, "stopped", exit_code=exit_code)

    def _refuse_expired(self, handoff: Handoff) -> None:
        detail = f"{handoff.key} had to be started before {handoff.launch_before}, and it is {self._clock.now()}"
        self._cannot_start(handoff, Refused("launch-expired", detail))

    def _repeat(self, handoff: Handoff) -> None:
        settled = self._job.settled
        if settled is not None:
            self._settle(handoff, settled.kind, settled.exit_code, settled.reason, settled.detail)

    def _leave(self) -> None:
        """SIGTERM: the program has it already, from the signal handler."""
        handoff = self._handoff
        if handoff is None:
            return
        over = self._job.settled is not None and self._job.settled.launch == handoff.key
        if not over:  # else what was said last still holds, and must stay in the guest attribute
            self._say(handoff, "stopping")
        exit_code = self._trainer.stop(handoff.deadlines.stop)
        if handoff.checkpoints is not None and not handoff.checkpoints.on_bucket:
            self._trainer.look_for_checkpoint()  # quick, and nobody else can look at a disk
        if not over:
            self._say(handoff, "stopped", exit_code=exit_code, hint=False)  # `stopping` was the hint
        self._outbox.flush(_FLUSH)

    # Reports

    def _cannot_start(self, handoff: Handoff, reason: CannotStart) -> None:
        self._settle(handoff, reason.kind, reason=reason.reason, detail=reason.detail)

    def _settle(
        self,
        handoff: Handoff,
        kind: str,
        exit_code: Optional[int] = None,
        reason: Optional[str] = None,
        detail: Optional[str] = None,
    ) -> None:
        """This launch is over on this VM; :meth:`_say` saves that together with the report's number."""
        self._job.settled = Settled(handoff.key, self._machine.boot, kind, reason, detail, exit_code)
        self._say(handoff, kind, exit_code=exit_code, reason=reason, detail=detail)

    def _say_alive(self, handoff: Handoff) -> None:
        if self._clock.monotonic() >= self._alive_at:
            self._alive_at = self._clock.monotonic() + handoff.timing.alive
            self._say(handoff, "alive")

    def _say(self, handoff: Handoff, kind: str, **what: Any) -> None:
        self._reporter.say(
            handoff,
            kind,
            step=self._trainer.step,
            checkpoint_step=self._trainer.checkpoint_step,
            resumed_from=self._trainer.resume.step,
            **what,
        )
