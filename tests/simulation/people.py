"""The people around the jobs: they apply, edit, pause, delete, stop, look after what is held, and forge."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.entries import PERSON, api_call, stamp, system_event
from tests.simulation.cloud import Cloud
from tests.simulation.documents import Documents
from tests.simulation.faults import HOUR, Fault, Faults
from tests.simulation.hub import Hub
from tests.simulation.invariants import Invariants
from tests.simulation.platform import Platform
from tests.simulation.post import Post
from tests.simulation.store import SimulatedStore
from tests.simulation.vms import Vms

from tpu_recovery.model.validate import HANDOFF_KEY
from tpu_recovery.recovery.situation import ABOUT_OLDER_CHECKPOINTS

LOOKS_EVERY = 6 * HOUR
"""Mean time after which somebody finds that a job is held."""

RUBBISH = (b"", b"{", b"\xff" * 1000, b"[]", b'{"protoPayload": {"methodName": "x"}}')


class People:
    """What they do, and whom the entries name for it."""

    def __init__(
        self,
        *,
        hub: Hub,
        faults: Faults,
        store: SimulatedStore,
        platform: Platform,
        cloud: Cloud,
        vms: Vms,
        post: Post,
        documents: Documents,
        invariants: Invariants,
    ) -> None:
        self._hub, self._faults, self._store, self._platform = hub, faults, store, platform
        self._cloud, self._vms, self._post, self._documents = cloud, vms, post, documents
        self._invariants = invariants
        self._taken_down: set[str] = set()
        """Nodes that a person deleted."""
        store.watchers.append(self._watch_inbox)

    def begin(self, job: str) -> None:
        """Somebody has written a job file; from now on everything may happen to the job."""
        self._hub.after(self._hub.between(0, 600), f"apply {job}", lambda: self.command("apply", job))
        for fault, do in (
            (Fault.PERSON_DELETES, self._delete),
            (Fault.PERSON_STOPS, self._stop),
            (Fault.PERSON_PAUSES, self._pause),
            (Fault.PERSON_EDITS, self._rearrange),
            (Fault.PERSON_SSH, self._cloud.rewrite_metadata_late),
            (Fault.FORGED, self._forge),
            (Fault.MALFORMED, self._malformed),
        ):
            self._now_and_then(fault, job, do)
        self._lose_checkpoints(job)
        self._look_after(job)

    def _now_and_then(self, fault: Fault, job: str, do: Callable[[str], Any]) -> None:
        def happen() -> None:
            if self._faults.happens(fault):
                do(job)
                self._now_and_then(fault, job, do)

        wait = self._faults.wait(fault)
        if wait is not None:
            self._hub.after(wait, f"{fault} {job}", happen)

    def _lose_checkpoints(self, job: str) -> None:
        def lose() -> None:
            self._vms.lose_checkpoint(job)
            self._lose_checkpoints(job)

        wait = self._faults.wait(Fault.CHECKPOINT_LOST)
        if wait is not None:
            self._hub.after(wait, f"a checkpoint of {job} is lost", lose)

    def command(self, kind: str, job: str) -> None:
        """What the command line publishes."""
        number = f"{kind}-{self._hub.steps}-{self._hub.chance.random()}"
        command = {"id": number, "job": job, "kind": kind, "at": stamp(self._hub.now), "by": PERSON}
        self._post.publish("/command", command)

    # Looking after jobs

    def _look_after(self, job: str) -> None:
        def glance() -> None:
            self.release(job)
            self._look_after(job)

        self._hub.after(self._hub.waiting_time(LOOKS_EVERY), f"somebody looks at {job}", glance)

    def release(self, job: str) -> None:
        """If the job is held: do what the hold asks for, and go on."""
        state = self._state(job)
        if state is None or state["hold"] is None:
            return
        row, name = state["hold"]["row"], state["slices"][0]["name"] if state["slices"] else ""
        node = self._platform.nodes.get(name)
        if row == "checkpoints are there, but none is complete":
            self._vms.bucket(job).steps.clear()
        elif row == "nothing was heard, and the guest attributes cannot be read":
            self._cloud.attributes_off.discard(job)
        elif row == "the node does not become ready again" and node is not None and node.state == "STOPPED":
            self._platform.start(node)
        elif row == "the program never starts" and node is not None:
            self._platform.delete(node, PERSON)
        elif row == "a node of somebody else has our name" and node is not None and not node.ours:
            del self._platform.nodes[name]
        elif row in ABOUT_OLDER_CHECKPOINTS:
            self._invariants.seen[job, state["generation"]] = None
        self._invariants.tell(job, "a person: does what the hold asks for, and resumes")
        self._documents.stood_down.pop(job, None)
        self._documents.resumed[job] = self._hub.now
        self._taken_down = {taken for taken in self._taken_down if f"/{job}-g" not in taken}
        self.command("resume", job)

    # Doing harm

    def _delete(self, job: str) -> None:
        node = self._platform.of(job, "READY")
        if node is not None:
            self._invariants.tell(job, f"a person: deletes {node.name.rsplit('/', 1)[1]}")
            self._taken_down.add(node.name)
            self._platform.delete(node, PERSON)

    def _stop(self, job: str) -> None:
        node = self._platform.of(job, "READY")
        if node is not None:
            self._invariants.tell(job, f"a person: stops {node.name.rsplit('/', 1)[1]}")
            self._platform.stop(node)

    def _pause(self, job: str) -> None:
        self._edit(job, "pauses the job", paused=True)
        seconds = self._hub.between(600, 6 * HOUR)
        self._hub.after(seconds, f"unpause {job}", lambda: self._edit(job, "ends the pause", paused=False))

    def _rearrange(self, job: str) -> None:
        """Edit the specification: the last placement comes first."""
        spec = self._wishes(job)["spec"]
        placements = spec["placements"]
        self._edit(job, "changes the placements", spec={**spec, "placements": [*placements[1:], placements[0]]})

    def _edit(self, job: str, what: str, **changes: Any) -> None:
        self._invariants.tell(job, f"a person: {what}")
        wishes = self._wishes(job)
        self._store.put(f"specs/{job}", {**wishes, **changes, "revision": wishes["revision"] + 1})
        self.command("apply", job)

    def _forge(self, job: str) -> None:
        """Somebody publishes what never happened."""
        state = self._state(job)
        if state is None or not state["slices"]:
            return
        name, now, number = state["slices"][0]["name"], self._hub.now, f"forged-{self._hub.steps}"
        choice = self._hub.chance.randrange(4)
        self._invariants.tell(job, f"a forger: {('delete', 'end', 'failed delete', 'finished')[choice]}")
        if choice == 0:
            self.emit(api_call("DeleteNode", name, now, operation=number, last=True))
        elif choice == 1:
            self.emit(system_event("tpu.nodes.terminate", name, now, number))
        elif choice == 2:
            self.emit(api_call("DeleteNode", name, now, operation=number, error=(7, "denied")))
        else:
            self._forge_report(name)

    def _forge_report(self, name: str) -> None:
        """All is right with it but the token."""
        node = self._platform.nodes.get(name)
        if node is None or HANDOFF_KEY not in node.metadata:
            return
        handoff = json.loads(node.metadata[HANDOFF_KEY])
        report = {
            **self._vms.outline(node, {**handoff, "token": "guessed"}),
            "launch": handoff["launch"],
            "sequence": 10**6 + self._hub.steps,
            "kind": "finished",
            "at": stamp(self._hub.now),
            "exit_code": 0,
        }
        self._post.publish("/report", report)

    def _malformed(self, _job: str) -> None:
        paths = ("/event", "/report", "/command")
        self._post.publish(self._hub.chance.choice(paths), self._hub.chance.choice(RUBBISH))

    # What the entries say

    def emit(self, entry: dict[str, Any]) -> None:
        """An entry on its way through the log sink; true or forged."""
        payload = entry["protoPayload"]
        author, named = payload["authenticationInfo"]["principalEmail"], payload["resourceName"]
        if author == "system@google.com":
            nodes = self._platform.nodes.values()
            self._documents.spoken |= {named} | {node.name for node in nodes if node.hostname in named}
        elif author == PERSON and payload["methodName"].endswith("DeleteNode") and "status" not in payload:
            self._platform.claimed.add(named)
        self._post.publish("/event", entry)

    def _watch_inbox(self, path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        """A person's delete that has been received must not be made up for (unless the platform spoke too)."""
        if not path.startswith("inbox/") or before is not None or after["status"] != "waiting":
            return
        if after["kind"] != "event" or not self._taken_down:
            return
        payload = json.loads(after["raw"])["protoPayload"]
        name = payload["resourceName"]
        if payload["methodName"].endswith("DeleteNode") and name in self._taken_down:
            state = self._state(after["job"])
            if state is not None and state["slices"] and state["slices"][0]["name"] == name:
                self._documents.stood_down[after["job"]] = state["generation"]

    def _state(self, job: str) -> Mapping[str, Any] | None:
        stored = self._store.read(f"jobs/{job}")
        return stored.fields if stored else None

    def _wishes(self, job: str) -> Mapping[str, Any]:
        stored = self._store.read(f"specs/{job}")
        assert stored is not None
        return stored.fields
