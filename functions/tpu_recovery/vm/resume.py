"""Which checkpoint to go on from, chosen anew at every start by the same rule as in the cloud function."""

from __future__ import annotations

from typing import Callable, Optional

from tpu_recovery.checkpoints import Choice, Listing, Unreadable, Verdict, judge, newest_complete
from tpu_recovery.vm.backoff import delays
from tpu_recovery.vm.command import Resume
from tpu_recovery.vm.failures import Refused
from tpu_recovery.vm.handoff import Checkpoints, Handoff
from tpu_recovery.vm.log import log

ListingFor = Callable[[Checkpoints], Listing]

_REFUSALS = {
    Verdict.INCOMPLETE: "checkpoints-incomplete",
    Verdict.OLDER: "checkpoints-older",
    Verdict.MISSING: "checkpoints-older",
}


def choose(handoff: Handoff, listing_for: ListingFor, pause: Callable[[float], None]) -> Resume:
    """Choose. What cannot be read is tried again for a while. Raises Refused and Interrupted."""
    checkpoints = handoff.checkpoints
    if checkpoints is None:
        return Resume()
    choice = _look(handoff, checkpoints, listing_for(checkpoints), pause)
    judgement = judge(choice, checkpoints.seen_step)
    if judgement.verdict in _REFUSALS:
        raise Refused(_REFUSALS[judgement.verdict], f"{checkpoints.path}: {judgement.why}")
    log(f"{checkpoints.path}: {judgement.why}")
    if choice.step != handoff.advised_step:
        log(f"the service advised step {handoff.advised_step}, what counts is what is there now: {choice.step}")
    return Resume(choice.step, choice.path)


def newest_step(checkpoints: Optional[Checkpoints], listing_for: ListingFor) -> Optional[int]:
    """The newest complete step, or None: there is none, or nobody can tell just now."""
    if checkpoints is None:
        return None
    try:
        return newest_complete(listing_for(checkpoints), checkpoints.path, checkpoints.format).step
    except Unreadable as unreadable:
        log(f"checkpoints cannot be read: {unreadable}")
        return None


def _look(handoff: Handoff, checkpoints: Checkpoints, listing: Listing, pause: Callable[[float], None]) -> Choice:
    for wait in delays(handoff.crashes.first_backoff, handoff.crashes.longest_backoff):
        try:
            return newest_complete(listing, checkpoints.path, checkpoints.format)
        except Unreadable as unreadable:
            log(f"checkpoints cannot be read, trying again in {wait} s: {unreadable}")
        pause(wait)
    try:
        return newest_complete(listing, checkpoints.path, checkpoints.format)
    except Unreadable as unreadable:
        raise Refused("checkpoints-unreadable", str(unreadable)) from unreadable
