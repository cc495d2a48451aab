"""Which checkpoint is complete: layouts of training frameworks over a listing. Standard library only.

Used by the cloud function (before it creates capacity) and by the runner on the TPU VM (at every start), so
that both apply the same rule. Python 3.8 syntax, because the runner meets the VM's own interpreter.
"""

from tpu_recovery.checkpoints.bucket import BucketListing
from tpu_recovery.checkpoints.choice import Choice, Outcome, Skipped, newest_complete
from tpu_recovery.checkpoints.layouts import LAYOUTS, Layout, known_formats
from tpu_recovery.checkpoints.listing import Listing, Unreadable
from tpu_recovery.checkpoints.local import LocalListing
from tpu_recovery.checkpoints.rule import Judgement, Verdict, judge

__all__ = [
    "LAYOUTS",
    "BucketListing",
    "Choice",
    "Judgement",
    "Layout",
    "Listing",
    "LocalListing",
    "Outcome",
    "Skipped",
    "Unreadable",
    "Verdict",
    "judge",
    "known_formats",
    "newest_complete",
]
