"""Settings of an installation: what Terraform knows and the code has to be told."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tpu_recovery.model.handoff import Timing


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One installation of the service."""

    project: str
    """The project whose TPUs are used."""
    service_account: str
    """E-mail of the account that the service runs as."""
    reports_topic: str
    """Full name of the topic that runners publish to."""
    lease: timedelta = timedelta(seconds=75)
    """Above the 60 s that an invocation may take, below the 90 s after which it is delivered again."""
    sweep_budget: timedelta = timedelta(seconds=40)
    """How long one sweep works before it goes on by timer."""
    inbox_life: timedelta = timedelta(days=30)
    timing: Timing = Timing()
    """Handed to every runner."""
