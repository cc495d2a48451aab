"""The decision table: what the service does in every situation.

It is read in four sections. The first row of a section whose columns all fit is the answer; either it says what to do,
or it sends the question on to a later section. A column that a row does not name does not matter to it.

* PERSON: what people want comes first.
* CAPACITY: is there a node, by the TPU API?
* CHECKPOINT: a node is to be created; is there something to resume from?
* RUNNER: the node is READY; what does the runner on it say?

Waiting is never endless: a row that waits names a concern, and once the concern's deadline has passed the same
situation is OVERDUE and another row answers, in the end one that holds the job for a person.
"""

from __future__ import annotations

from tpu_recovery.recovery.table import capacity, checkpoint, person, runner
from tpu_recovery.recovery.table.columns import Row, Section

TABLE: dict[Section, tuple[Row, ...]] = {
    Section.PERSON: person.ROWS,
    Section.CAPACITY: capacity.ROWS,
    Section.CHECKPOINT: checkpoint.ROWS,
    Section.RUNNER: runner.ROWS,
}
