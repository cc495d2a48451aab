"""Everything that can go wrong, with how often it does. Each can be switched off, or be the only one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from random import Random

HOUR = 3600.0
DAY = 24 * HOUR


class Fault(StrEnum):
    """One thing that goes wrong."""

    # what the platform does to nodes
    PREEMPTED = "preempted"
    FORGOTTEN = "forgotten"
    NO_CAPACITY = "no-capacity"
    FAILS_LATE = "fails-late"
    STUCK_STATE = "stuck-state"
    FOREIGN_NODE = "foreign-node"
    # messages
    DUPLICATED = "duplicated"
    ENTRY_LOST = "entry-lost"
    REPORT_LOST = "report-lost"
    DELAYED = "delayed"
    FANNED_OUT = "fanned-out"
    FORGED = "forged"
    MALFORMED = "malformed"
    # invocations
    SERVED_TWICE = "served-twice"
    CRASH_BEFORE = "crash-before"
    CRASH_AFTER = "crash-after"
    FREEZE_BEFORE = "freeze-before"
    FREEZE_AFTER = "freeze-after"
    SKEW = "skew"
    # the store
    STORE_CONFLICT = "store-conflict"
    STORE_REFUSES = "store-refuses"
    STORE_TIMES_OUT = "store-times-out"
    # the TPU API
    API_SLOW = "api-slow"
    API_DENIES = "api-denies"
    API_RATE_LIMITED = "api-rate-limited"
    API_UNAVAILABLE = "api-unavailable"
    API_TIMES_OUT = "api-times-out"
    API_STALE = "api-stale"
    NODE_HIDDEN = "node-hidden"
    REQUEST_FORGOTTEN = "request-forgotten"
    # timers and the sweep
    TIMER_EARLY = "timer-early"
    TIMER_LATE = "timer-late"
    TIMER_TWICE = "timer-twice"
    TIMER_NEVER = "timer-never"
    QUEUE_REFUSES = "queue-refuses"
    QUEUE_TIMES_OUT = "queue-times-out"
    SWEEP_MISSED = "sweep-missed"
    # the VM
    VM_SILENT = "vm-silent"
    VM_LATE = "vm-late"
    VM_SKEW = "vm-skew"
    SETUP_FAILS = "setup-fails"
    PROGRAM_CRASHES = "program-crashes"
    ATTRIBUTES_OFF = "attributes-off"
    BUCKET_UNREADABLE = "bucket-unreadable"
    SAVE_INTERRUPTED = "save-interrupted"
    CHECKPOINT_LOST = "checkpoint-lost"
    NOTICE_FAILS = "notice-fails"
    # people
    PERSON_DELETES = "person-deletes"
    PERSON_STOPS = "person-stops"
    PERSON_PAUSES = "person-pauses"
    PERSON_EDITS = "person-edits"
    PERSON_SSH = "person-ssh"


RATES: Mapping[Fault, float] = {
    Fault.PREEMPTED: 10 * HOUR,  # mean life of a node
    Fault.FORGOTTEN: 0.1,  # of the lost nodes: no state PREEMPTED, the record is gone
    Fault.NO_CAPACITY: 0.25,  # of the creates
    Fault.FAILS_LATE: 0.03,  # of the creates: not after minutes, but after half an hour
    Fault.STUCK_STATE: 0.02,  # of the losses: some other state is shown for a while
    Fault.FOREIGN_NODE: 0.05,  # of the jobs: a name that it will want is somebody else's
    Fault.DUPLICATED: 0.2,
    Fault.ENTRY_LOST: 0.05,
    Fault.REPORT_LOST: 0.05,
    Fault.DELAYED: 0.05,  # by up to an hour
    Fault.FANNED_OUT: 0.2,  # of the losses: an entry for each of 16 workers
    Fault.FORGED: 3 * DAY,
    Fault.MALFORMED: DAY,
    Fault.SERVED_TWICE: 0.01,  # of the requests: two invocations at once
    Fault.CRASH_BEFORE: 0.003,  # of the calls, as all that follows here
    Fault.CRASH_AFTER: 0.003,
    Fault.FREEZE_BEFORE: 0.002,  # for up to a day
    Fault.FREEZE_AFTER: 0.002,
    Fault.SKEW: 0.2,  # of the invocations: the instance's clock is wrong by up to two minutes
    Fault.STORE_CONFLICT: 0.01,
    Fault.STORE_REFUSES: 0.005,
    Fault.STORE_TIMES_OUT: 0.005,  # after it has read or written
    Fault.API_SLOW: 0.05,
    Fault.API_DENIES: 0.003,
    Fault.API_RATE_LIMITED: 0.005,
    Fault.API_UNAVAILABLE: 0.02,
    Fault.API_TIMES_OUT: 0.01,  # after it has done what was asked
    Fault.API_STALE: 0.05,  # by up to a minute
    Fault.NODE_HIDDEN: 0.05,  # of the creates: the node reads NOT_FOUND for up to five minutes after it was accepted
    Fault.REQUEST_FORGOTTEN: 1.0,  # of the request ids: an hour after their first use
    Fault.TIMER_EARLY: 0.02,
    Fault.TIMER_LATE: 0.05,
    Fault.TIMER_TWICE: 0.05,
    Fault.TIMER_NEVER: 0.02,
    Fault.QUEUE_REFUSES: 0.005,
    Fault.QUEUE_TIMES_OUT: 0.005,  # after it has taken the task
    Fault.SWEEP_MISSED: 0.02,  # of the sweeps: this one and those of the next hours
    Fault.VM_SILENT: 0.02,
    Fault.VM_LATE: 0.04,  # boots, but only after minutes
    Fault.VM_SKEW: 0.2,  # its clock is wrong by up to three minutes
    Fault.SETUP_FAILS: 0.03,
    Fault.PROGRAM_CRASHES: 0.1,  # of the starts
    Fault.ATTRIBUTES_OFF: 0.05,  # of the jobs
    Fault.BUCKET_UNREADABLE: 0.02,
    Fault.SAVE_INTERRUPTED: 0.3,  # of the losses: a newer checkpoint lies there half written
    Fault.CHECKPOINT_LOST: 6 * DAY,
    Fault.NOTICE_FAILS: 0.01,
    Fault.PERSON_DELETES: 4 * DAY,
    Fault.PERSON_STOPS: 8 * DAY,
    Fault.PERSON_PAUSES: 4 * DAY,
    Fault.PERSON_EDITS: 4 * DAY,
    Fault.PERSON_SSH: DAY,
}
"""A probability each time; above 1: a mean time between two in seconds, for each node or job."""

DELAYING = frozenset(
    {
        *(Fault.API_SLOW, Fault.TIMER_EARLY),
        *(Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.FREEZE_BEFORE, Fault.FREEZE_AFTER),
        *(Fault.STORE_CONFLICT, Fault.STORE_REFUSES, Fault.STORE_TIMES_OUT),
        *(Fault.TIMER_LATE, Fault.TIMER_NEVER, Fault.QUEUE_REFUSES, Fault.QUEUE_TIMES_OUT),
    }
)
"""With any of these a job may have to wait for long, in the end for a sweep."""


class Faults:
    """Which faults happen when. Each has a source of chance of its own, so that switching one off leaves the draws of
    the others as they were. `counts` says how often each has really happened."""

    def __init__(self, seed: int, rates: Mapping[Fault, float] = RATES) -> None:
        self.rates = rates
        self.calm = False
        """Nothing goes wrong any more: the end of a simulation, in which everything must come right."""
        self.counts: Counter[Fault] = Counter()
        self._chance = {fault: Random(f"{seed} {fault}") for fault in Fault}

    def strikes(self, fault: Fault) -> bool:
        """Whether a fault with a probability happens now."""
        strikes = self._chance[fault].random() < self.rates.get(fault, 0.0) and not self.calm
        if strikes:
            self.counts[fault] += 1
        return strikes

    def wait(self, fault: Fault) -> float | None:
        """Seconds until a fault with a mean time happens next; None when it is off."""
        mean = self.rates.get(fault, 0.0)
        return self._chance[fault].expovariate(1 / mean) if mean else None

    def happens(self, fault: Fault) -> bool:
        """Whether a fault whose time has come really happens; not when all is calm."""
        if not self.calm:
            self.counts[fault] += 1
        return not self.calm
