"""Everything that can go wrong, with how often it does. Each can be switched off, or be the only one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

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
    # messages
    DUPLICATED = "duplicated"
    LOST = "lost"
    DELAYED = "delayed"
    FANNED_OUT = "fanned-out"
    FORGED = "forged"
    MALFORMED = "malformed"
    # invocations
    CRASH_BEFORE = "crash-before"
    CRASH_AFTER = "crash-after"
    FREEZE = "freeze"
    SKEW = "skew"
    # the store
    STORE_CONFLICT = "store-conflict"
    STORE_REFUSES = "store-refuses"
    STORE_TIMES_OUT = "store-times-out"
    # the TPU API
    API_SLOW = "api-slow"
    API_REFUSES = "api-refuses"
    API_UNAVAILABLE = "api-unavailable"
    API_TIMES_OUT = "api-times-out"
    API_STALE = "api-stale"
    # timers and the sweep
    TIMER_EARLY = "timer-early"
    TIMER_LATE = "timer-late"
    TIMER_TWICE = "timer-twice"
    TIMER_NEVER = "timer-never"
    QUEUE_REFUSES = "queue-refuses"
    SWEEP_MISSED = "sweep-missed"
    # the VM
    VM_SILENT = "vm-silent"
    VM_LATE = "vm-late"
    SETUP_FAILS = "setup-fails"
    PROGRAM_CRASHES = "program-crashes"
    ATTRIBUTES_OFF = "attributes-off"
    BUCKET_UNREADABLE = "bucket-unreadable"
    SAVE_INTERRUPTED = "save-interrupted"
    # people
    PERSON_DELETES = "person-deletes"
    PERSON_PAUSES = "person-pauses"
    PERSON_EDITS = "person-edits"
    PERSON_SSH = "person-ssh"


RATES: dict[Fault, float] = {
    Fault.PREEMPTED: 10 * HOUR,  # mean life of a node
    Fault.FORGOTTEN: 0.1,  # of the lost nodes: no state PREEMPTED, the record is gone
    Fault.NO_CAPACITY: 0.25,
    Fault.FAILS_LATE: 0.03,
    Fault.STUCK_STATE: 0.02,  # of the losses: some other state is shown for a while
    Fault.DUPLICATED: 0.2,
    Fault.LOST: 0.05,
    Fault.DELAYED: 0.05,
    Fault.FANNED_OUT: 0.2,
    Fault.FORGED: 3 * DAY,  # mean time between forged entries about a job
    Fault.MALFORMED: DAY,
    Fault.CRASH_BEFORE: 0.003,
    Fault.CRASH_AFTER: 0.003,
    Fault.FREEZE: 0.003,
    Fault.SKEW: 0.2,
    Fault.STORE_CONFLICT: 0.01,
    Fault.STORE_REFUSES: 0.005,
    Fault.STORE_TIMES_OUT: 0.005,
    Fault.API_SLOW: 0.05,
    Fault.API_REFUSES: 0.003,
    Fault.API_UNAVAILABLE: 0.02,
    Fault.API_TIMES_OUT: 0.01,
    Fault.API_STALE: 0.05,
    Fault.TIMER_EARLY: 0.02,
    Fault.TIMER_LATE: 0.05,
    Fault.TIMER_TWICE: 0.05,
    Fault.TIMER_NEVER: 0.02,
    Fault.QUEUE_REFUSES: 0.005,
    Fault.SWEEP_MISSED: 0.02,  # of the sweeps: this and the next ones for hours
    Fault.VM_SILENT: 0.02,
    Fault.VM_LATE: 0.04,  # boots, but only after minutes
    Fault.SETUP_FAILS: 0.03,
    Fault.PROGRAM_CRASHES: 0.1,  # of the starts
    Fault.ATTRIBUTES_OFF: 0.05,  # of the jobs
    Fault.BUCKET_UNREADABLE: 0.02,
    Fault.SAVE_INTERRUPTED: 0.3,  # of the losses: a newer checkpoint lies there half written
    Fault.PERSON_DELETES: 4 * DAY,
    Fault.PERSON_PAUSES: 4 * DAY,
    Fault.PERSON_EDITS: 4 * DAY,
    Fault.PERSON_SSH: DAY,
}
"""A probability each time, or, where the comment says so, a mean time in seconds."""


class Faults:
    """Which faults are on."""

    def __init__(self, on: Iterable[Fault] | None = None) -> None:
        self.on = frozenset(Fault if on is None else on)
        self.calm = False
        """Nothing goes wrong any more: the end of a simulation, in which everything must come right."""

    def rate(self, fault: Fault) -> float:
        """How probable a fault is at this moment."""
        return RATES[fault] if fault in self.on and not self.calm else 0.0
