"""The table from an audit entry's method to what it says.

Method names of the Cloud TPU API differ by version (v1, v2, v2alpha1), and callers mix versions, so only the last part
counts. Sources: facts page, sections 1.2, 1.3 and 2.
"""

from __future__ import annotations

import re

from tpu_recovery.model.messages import Meaning

SYSTEM_METHODS: dict[str, Meaning] = {
    "tpu.nodes.terminate": Meaning.NODE_TERMINATED,
    "tpu.nodes.restart": Meaning.NODE_RESTARTED,
    "compute.instances.preempted": Meaning.WORKER_PREEMPTED,
    "compute.instances.baremetalCaretakerPreempted": Meaning.WORKER_PREEMPTED,
    "compute.instances.hostError": Meaning.HOST_ERROR,
    "compute.instances.automaticRestart": Meaning.WORKER_RESTARTED,
    "compute.instances.terminateOnHostMaintenance": Meaning.HOST_MAINTENANCE,
    "compute.instances.migrateOnHostMaintenance": Meaning.HOST_MAINTENANCE,
    "compute.instances.upcomingMaintenance": Meaning.MAINTENANCE_NOTICE,
    "compute.instances.upcomingInfraMaintenance": Meaning.MAINTENANCE_NOTICE,
    "compute.instances.guestTerminate": Meaning.WORKER_STOPPED,
    "compute.instances.deferredStop": Meaning.RUN_TIME_EXPIRED,
    "compute.instances.deferredDelete": Meaning.RUN_TIME_EXPIRED,
}
"""Methods of system events. One that is not listed is OTHER: a reason to look, nothing more."""

CALL_MEANINGS: dict[str, tuple[Meaning, Meaning]] = {
    "CreateNode": (Meaning.CREATE_ACCEPTED, Meaning.CREATE_ENDED),
    "CreateQueuedResource": (Meaning.CREATE_ACCEPTED, Meaning.CREATE_ENDED),
    "DeleteNode": (Meaning.DELETE_ACCEPTED, Meaning.DELETE_ENDED),
    "DeleteQueuedResource": (Meaning.DELETE_ACCEPTED, Meaning.DELETE_ENDED),
    "StopNode": (Meaning.STOPPED, Meaning.STOPPED),
    "StartNode": (Meaning.STARTED, Meaning.STARTED),
    "UpdateNode": (Meaning.CHANGED, Meaning.CHANGED),
}
"""API calls: what their entry says when the operation has begun, and when it has ended."""

_CALL = re.compile(r"\.Tpu\.(\w+)$")


def meaning_of(method: str, *, ended: bool, failed: bool) -> Meaning:
    """What an entry says. ``ended``: the operation's last entry; ``failed``: severity ERROR or a status with a code.

    A call that failed before it began anything (no operation) is CALL_REFUSED; a create whose operation failed is
    CREATE_ENDED, because the operation is over either way and the look will read its error.
    """
    call = _CALL.search(method)
    if call is None:
        return SYSTEM_METHODS.get(method, Meaning.OTHER)
    began, finished = CALL_MEANINGS.get(call[1], (Meaning.OTHER, Meaning.OTHER))
    if failed and not (ended and finished is Meaning.CREATE_ENDED):
        return Meaning.CALL_REFUSED
    return finished if ended else began
