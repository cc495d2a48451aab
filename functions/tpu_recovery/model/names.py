"""Names: of jobs, of what we create for them, of resources in the TPU and Compute Engine APIs.

A node that we create is called ``<job>-g<generation>`` and the name is never used again (see docs/design.md, rule 3).
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_JOB_NAME = 40
"""Characters. A node id has at most 63; the rest is room for ``-g<generation>`` and a slice index."""

JOB_NAME_RULE = (
    f"a job name has 1 to {LONGEST_JOB_NAME} lower-case letters, digits and hyphens, "
    "starts with a letter and ends with a letter or digit"
)
JOB_NAME = re.compile(rf"[a-z](?:[-a-z0-9]{{0,{LONGEST_JOB_NAME - 2}}}[a-z0-9])?")

LABEL_JOB = "tpu-recovery-job"
LABEL_UID = "tpu-recovery-uid"
LABEL_GENERATION = "tpu-recovery-generation"

_RESOURCE = re.compile(
    r"(?://[^/]+/)?projects/(?P<project>[^/]+)/(?:locations|zones)/(?P<zone>[^/]+)/"
    r"(?P<kind>nodes|queuedResources|instances)/(?P<id>[^/]+)"
)
_WORKER = re.compile(r"t1v-n-[0-9a-f]+-w-[0-9]+")


def node_id(job: str, generation: int) -> str:
    """The id of the node that is created for a generation of a job."""
    return f"{job}-g{generation}"


class ResourceName(NamedTuple):
    """A node, queued resource or Compute Engine instance: project id (or number), zone, kind, id."""

    project: str
    zone: str
    kind: str
    id: str

    @classmethod
    def parse(cls, text: str) -> ResourceName | None:
        """The parts of a full resource name, or None when the text is not the name of something we know."""
        match = _RESOURCE.fullmatch(text)
        return cls(**match.groupdict()) if match else None

    @classmethod
    def node(cls, project: str, zone: str, node_id: str) -> ResourceName:
        """The name of a TPU node."""
        return cls(project, zone, "nodes", node_id)

    @property
    def parent(self) -> str:
        """The location that holds the resource."""
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def is_worker(self) -> bool:
        """Whether this is a worker VM of a TPU node (``t1v-n-<hash>-w-<index>``; facts page, section 1.3)."""
        return self.kind == "instances" and _WORKER.fullmatch(self.id) is not None

    def __str__(self) -> str:
        place = "zones" if self.kind == "instances" else "locations"
        return f"projects/{self.project}/{place}/{self.zone}/{self.kind}/{self.id}"
