"""What people want comes first."""

from __future__ import annotations

from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.situation import Standing, Wish
from tpu_recovery.recovery.table.columns import GO_ON, Move, Row, Section, when

ROWS = (
    Row("the job is over", Section.PERSON, when(standing=Standing.OVER), Move.KEEP),
    Row("the node is watched only", Section.PERSON, when(standing=Standing.WATCHED), Move.KEEP),
    Row(
        "a paused job stays paused",
        Section.PERSON,
        when(standing=(Standing.PAUSED, Standing.HELD_AND_PAUSED), wish=(Wish.PAUSE, Wish.UNKNOWN)),
        Move.KEEP,
    ),
    Row(
        "a job that was held before it was paused is held again",
        Section.PERSON,
        when(standing=Standing.HELD_AND_PAUSED, wish=Wish.RUN),
        Move.KEEP,
        phase=Phase.HELD,
    ),
    Row("people pause the job", Section.PERSON, when(wish=Wish.PAUSE), Move.PAUSE, phase=Phase.PAUSED),
    Row(
        "a held job waits for a person",
        Section.PERSON,
        when(standing=(Standing.HELD, Standing.STOOD_DOWN), wish=(Wish.RUN, Wish.UNKNOWN)),
        Move.KEEP,
    ),
    Row(
        "the specification is gone",
        Section.PERSON,
        when(wish=Wish.UNKNOWN),
        Move.HOLD,
        needs=f"apply the job file again (tpu-recovery apply FILE), then: {GO_ON}",
    ),
    Row("the job is to run", Section.PERSON, when(wish=(Wish.RUN, Wish.RESUME)), next=Section.CAPACITY),
)
