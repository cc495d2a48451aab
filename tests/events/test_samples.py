"""What the published, inferred and invented entries of the facts page mean."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from tests.events.entries import SAMPLES, SERVICE_ACCOUNT

from tpu_recovery.events.entry import parse_entry
from tpu_recovery.events.envelope import read_envelope
from tpu_recovery.model.messages import Author, Meaning

GOOGLE, ALICE = "system@google.com", "alice@example.com"
LOCATION = "projects/demo-proj-123/locations/us-east5-b"
NODE, QUEUED = f"{LOCATION}/nodes/train-a-0", f"{LOCATION}/queuedResources/train-a"
WORKER_0, WORKER_2 = (f"projects/demo-proj-123/zones/us-east5-b/instances/t1v-n-9472280f-w-{i}" for i in (0, 2))


class Says(NamedTuple):
    meaning: Meaning
    author: Author
    principal: str
    resource: str
    at: str
    method: str
    operation: str = ""
    message: str = ""
    reason: str = ""


# fmt: off
ENTRIES = {
    "tpu_nodes_terminate_preempted": Says(
        Meaning.NODE_TERMINATED, Author.PLATFORM, GOOGLE, NODE, "2026-03-02T10:15:30.123456", "tpu.nodes.terminate",
        "systemevent-1765432100000-3dd", "", "PREEMPTED-PLACEHOLDER"),
    "tpu_nodes_terminate_maintenance": Says(
        Meaning.NODE_TERMINATED, Author.PLATFORM, GOOGLE, f"{LOCATION}/nodes/train-b-0", "2026-03-02T11:00:00.000001",
        "tpu.nodes.terminate", "systemevent-1765432100000-389", "", "MAINTENANCE-PLACEHOLDER"),
    "tpu_nodes_terminate_no_reason": Says(
        Meaning.NODE_TERMINATED, Author.PLATFORM, GOOGLE, NODE, "2026-03-02T12:00:00", "tpu.nodes.terminate"),
    "tpu_nodes_restart": Says(
        Meaning.NODE_RESTARTED, Author.PLATFORM, GOOGLE, f"{LOCATION}/nodes/train-b-0", "2026-03-02T11:20:00.500000",
        "tpu.nodes.restart", "systemevent-1765432100000-a2a"),
    "compute_instances_preempted_worker": Says(
        Meaning.WORKER_PREEMPTED, Author.PLATFORM, GOOGLE, WORKER_0, "2026-03-02T10:15:14.413235",
        "compute.instances.preempted", "systemevent-1765432200000-1af", "Instance was preempted."),
    "compute_instances_hosterror_worker": Says(
        Meaning.HOST_ERROR, Author.PLATFORM, GOOGLE, WORKER_2, "2026-03-02T10:20:14.413235",
        "compute.instances.hostError", "systemevent-1765432200000-cb1", "Instance terminated by Compute Engine."),
    "compute_instances_automatic_restart_worker": Says(
        Meaning.WORKER_RESTARTED, Author.PLATFORM, GOOGLE, WORKER_2, "2026-03-02T10:24:14.413235",
        "compute.instances.automaticRestart", "systemevent-1765432200000-c1b",
        "Instance automatically restarted by Compute Engine."),
    "compute_instances_terminate_on_host_maintenance_worker": Says(
        Meaning.HOST_MAINTENANCE, Author.PLATFORM, GOOGLE, WORKER_0, "2026-03-02T10:30:14.413235",
        "compute.instances.terminateOnHostMaintenance", "systemevent-1765432200000-112",
        "Instance terminated during Compute Engine maintenance."),
    "compute_instances_upcoming_maintenance_pending": Says(
        Meaning.MAINTENANCE_NOTICE, Author.PLATFORM, "", WORKER_0, "2026-03-02T04:00:54.123000",
        "compute.instances.upcomingMaintenance", "systemevent-1765432200000-9b1", "Maintenance is scheduled"),
    "compute_instances_upcoming_maintenance_ongoing": Says(
        Meaning.MAINTENANCE_NOTICE, Author.PLATFORM, "", WORKER_0, "2026-03-09T04:00:10.500000",
        "compute.instances.upcomingMaintenance", "systemevent-1765432200000-9cc", "Maintenance has started"),
    "tpu_v2_createnode_first": Says(
        Meaning.CREATE_ACCEPTED, Author.PERSON, ALICE, NODE, "2026-03-02T09:00:00.100000",
        "google.cloud.tpu.v2.Tpu.CreateNode", f"{LOCATION}/operations/operation-1765432000001-"),
    "tpu_v2_createnode_last_ok": Says(
        Meaning.CREATE_ENDED, Author.PERSON, ALICE, NODE, "2026-03-02T09:03:00.100000",
        "google.cloud.tpu.v2.Tpu.CreateNode", f"{LOCATION}/operations/operation-1765432000001-"),
    "tpu_v2_createnode_last_stockout": Says(
        Meaning.CREATE_ENDED, Author.PERSON, ALICE, NODE, "2026-03-02T09:01:00.100000",
        "google.cloud.tpu.v2.Tpu.CreateNode", f"{LOCATION}/operations/operation-1765432000002-",
        'There is no more capacity in the zone "us-east5-b"'),
    "tpu_v2_createnode_already_exists": Says(
        Meaning.CALL_REFUSED, Author.SERVICE, SERVICE_ACCOUNT, NODE, "2026-03-02T09:01:40",
        "google.cloud.tpu.v2.Tpu.CreateNode", "", f"Resource '{NODE}' already exists"),
    "tpu_v2alpha1_createnode_quota_sync_error": Says(
        Meaning.CALL_REFUSED, Author.PERSON, ALICE, NODE, "2026-03-02T09:01:30",
        "google.cloud.tpu.v2alpha1.Tpu.CreateNode", "", "Quota limit 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI'"),
    "tpu_v2_createqueuedresource_first": Says(
        Meaning.CREATE_ACCEPTED, Author.PERSON, ALICE, QUEUED, "2026-03-02T08:00:00.100000",
        "google.cloud.tpu.v2.Tpu.CreateQueuedResource", f"{LOCATION}/operations/operation-1765432000006-"),
    "tpu_v2_createqueuedresource_last": Says(
        Meaning.CREATE_ENDED, Author.PERSON, ALICE, QUEUED, "2026-03-02T08:00:05.100000",
        "google.cloud.tpu.v2.Tpu.CreateQueuedResource", f"{LOCATION}/operations/operation-1765432000006-"),
    "tpu_v2_deletenode_user_first": Says(
        Meaning.DELETE_ACCEPTED, Author.PERSON, ALICE, NODE, "2026-03-02T14:00:00.100000",
        "google.cloud.tpu.v2.Tpu.DeleteNode", f"{LOCATION}/operations/operation-1765432000003-"),
    "tpu_v2_deletenode_user_last": Says(
        Meaning.DELETE_ENDED, Author.PERSON, ALICE, NODE, "2026-03-02T14:02:00.100000",
        "google.cloud.tpu.v2.Tpu.DeleteNode", f"{LOCATION}/operations/operation-1765432000003-"),
    "tpu_v2_deletenode_recovery_sa_last": Says(
        Meaning.DELETE_ENDED, Author.SERVICE, SERVICE_ACCOUNT, NODE, "2026-03-02T10:17:00.100000",
        "google.cloud.tpu.v2.Tpu.DeleteNode", f"{LOCATION}/operations/operation-1765432000004-"),
}
# fmt: on

ENVELOPES = ("pubsub_push_envelope", "cloudevent_message_published")


@pytest.mark.parametrize("name", ENTRIES)
def test_a_sample_entry_says(name: str) -> None:
    says = ENTRIES[name]
    event = parse_entry((SAMPLES / f"{name}.json").read_bytes(), service_account=SERVICE_ACCOUNT)
    assert event.meaning is says.meaning
    assert event.author is says.author
    assert event.principal == says.principal
    assert str(event.resource) == says.resource
    assert event.at == datetime.fromisoformat(says.at).replace(tzinfo=UTC)
    assert event.method == says.method
    assert event.terminate_reason == says.reason
    assert event.operation.startswith(says.operation)
    assert bool(event.operation) == bool(says.operation)
    assert event.message.startswith(says.message)
    assert bool(event.message) == bool(says.message)


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_sample_envelope_holds_the_sample_entry(name: str) -> None:
    message = read_envelope((SAMPLES / f"{name}.json").read_bytes())
    assert message.id == "136969346945"
    assert message.attributes == {"logging.googleapis.com/timestamp": "2026-03-02T10:15:30.123456Z"}
    assert message.published == datetime(2026, 3, 2, 10, 15, 32, 1000, UTC)
    event = parse_entry(message.data, service_account=SERVICE_ACCOUNT)
    assert event.meaning is Meaning.NODE_TERMINATED
    assert event.author is Author.PLATFORM
    assert str(event.resource) == NODE


def test_the_same_entry_has_the_same_key_in_any_envelope_and_no_other_entry_has_it() -> None:
    def key(data: bytes) -> str:
        return parse_entry(data, service_account=SERVICE_ACCOUNT).key

    keys = [key((SAMPLES / f"{name}.json").read_bytes()) for name in ENTRIES]
    wrapped = [key(read_envelope((SAMPLES / f"{name}.json").read_bytes()).data) for name in ENVELOPES]
    assert len(set(keys)) == len(ENTRIES)
    assert set(wrapped) == {keys[0]}


def test_no_sample_is_left_out() -> None:
    assert {path.stem for path in SAMPLES.glob("*.json")} == {*ENTRIES, *ENVELOPES}
