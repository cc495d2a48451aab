"""Why the program of a launch is not started. Each ends this launch on this VM until a newer hand-off comes."""

from __future__ import annotations


class CannotStart(Exception):
    """Becomes a report: its kind, a short reason and a detail for a person."""

    kind = ""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{self.kind} ({reason}): {detail}")
        self.reason = reason
        self.detail = detail


class SetupFailed(CannotStart):
    """The VM could not be made ready: archive-unreadable, archive-digest, startup-script, setup or runner-error."""

    kind = "setup_failed"


class Refused(CannotStart):
    """Starting would do harm: launch-expired, checkpoints-unreadable, checkpoints-incomplete or checkpoints-older."""

    kind = "refused"


class Interrupted(Exception):
    """What is being prepared is not wanted any more: the VM shuts down, or a newer hand-off has come."""
