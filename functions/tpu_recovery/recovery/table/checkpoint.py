"""A node is to be created: is there something to start from?"""

from __future__ import annotations

from tpu_recovery.model.observed import CheckpointFinding
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.table.columns import GO_ON, Budget, Clock, Move, Row, Section, when

ROWS = (
    Row(
        "too many losses without progress",
        Section.CHECKPOINT,
        when(budget=Budget.SPENT),
        Move.HOLD,
        budget="loss",
        needs=f"look at the incidents; another zone or a shorter checkpoint interval may help, then: {GO_ON}",
    ),
    Row(
        "there is something to start from",
        Section.CHECKPOINT,
        when(checkpoint=(CheckpointFinding.FOUND, CheckpointFinding.EMPTY, CheckpointFinding.NOT_READ)),
        Move.CREATE,
        phase=Phase.RECOVERING,
        budget="loss",
    ),
    Row(
        "checkpoints are there, but none is complete",
        Section.CHECKPOINT,
        when(checkpoint=CheckpointFinding.INCOMPLETE),
        Move.HOLD,
        needs=f"remove the incomplete ones to start from the beginning, or repair one, then: {GO_ON}",
    ),
    Row(
        "a checkpoint that was there is missing",
        Section.CHECKPOINT,
        when(checkpoint=CheckpointFinding.OLDER),
        Move.HOLD,
        needs=f"bring it back, or accept the older one: {GO_ON}",
    ),
    Row(
        "the checkpoint location cannot be read",
        Section.CHECKPOINT,
        when(checkpoint=CheckpointFinding.UNREADABLE, clock=Clock.WITHIN),
        Move.WAIT,
        phase=Phase.WAITING,
        concern="checkpoint",
        again=60,
        keeps_wish=True,
    ),
    Row(
        "the checkpoint location has to be read first",
        Section.CHECKPOINT,
        when(checkpoint=CheckpointFinding.OUTSTANDING, clock=Clock.WITHIN),
        Move.WAIT,
        phase=Phase.RECOVERING,
        concern="checkpoint",
        again=1,
        keeps_wish=True,
    ),
    Row(
        "the checkpoint location could not be read for too long",
        Section.CHECKPOINT,
        when(checkpoint=(CheckpointFinding.UNREADABLE, CheckpointFinding.OUTSTANDING), clock=Clock.OVERDUE),
        Move.HOLD,
        concern="checkpoint",
        needs=f"make the bucket exist and readable for the service's account, then: {GO_ON}",
    ),
)
