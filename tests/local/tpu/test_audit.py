"""The entries of the platform, compared in their shape with what public samples and documents show."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from tests.local.tpu.api import NODE, Api

OURS = "tpu-recovery@demo.iam.gserviceaccount.com"
AUDIT_LOG = "type.googleapis.com/google.cloud.audit.AuditLog"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
RECEIVED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


def take_random(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without what is different every time, whose form is checked here."""
    assert re.fullmatch(r"-[0-9a-f]{11}", entry.pop("insertId"))
    assert TIME.fullmatch(entry.pop("timestamp"))
    assert RECEIVED.fullmatch(entry.pop("receiveTimestamp"))
    return entry


def activity(method: str, severity: str, payload: dict[str, Any]) -> dict[str, Any]:
    """What every entry of a TPU call has, with this in its payload."""
    full = f"google.cloud.tpu.v2alpha1.Tpu.{method}"
    return {
        "logName": "projects/demo/logs/cloudaudit.googleapis.com%2Factivity",
        "protoPayload": {
            "@type": AUDIT_LOG,
            "serviceName": "tpu.googleapis.com",
            "methodName": full,
            "resourceName": NODE,
            "authenticationInfo": {"principalEmail": OURS},
            **payload,
        },
        "resource": {
            "type": "audited_resource",
            "labels": {"method": full, "project_id": "demo", "service": "tpu.googleapis.com"},
        },
        "severity": severity,
    }


def call(permission: str, time: str = "2027-01-15T08:00:00.000000Z") -> dict[str, Any]:
    """What the entry of a call has, and the last one of an operation has not."""
    return {
        "requestMetadata": {
            "callerIp": "203.0.113.7",
            "callerSuppliedUserAgent": "grpc-python,gzip(gfe)",
            "requestAttributes": {"time": time, "auth": {}},
            "destinationAttributes": {},
        },
        "authorizationInfo": [
            {
                "resource": NODE,
                "permission": permission,
                "granted": True,
                "permissionType": "ADMIN_WRITE",
                "resourceAttributes": {},
            }
        ],
        "resourceLocation": {"currentLocations": ["us-east5-b"]},
    }


def test_a_creation_is_logged_when_it_is_accepted_and_when_it_ends(api: Api) -> None:
    operation = api.create(scheduling_config={"spot": True}, metadata={"startup-script": "secret"}).operation.name
    api.wait(10)
    first, last = map(take_random, api.entries)
    request = {
        "@type": "type.googleapis.com/google.cloud.tpu.v2alpha1.CreateNodeRequest",
        "parent": "projects/demo/locations/us-east5-b",
        "node_id": "train-g1",
        "node": {
            "accelerator_type": "v5litepod-16",
            "runtime_version": "v2-alpha-tpuv5-lite",
            "scheduling_config": {"spot": True},
        },
    }
    assert first == activity("CreateNode", "NOTICE", call("tpu.nodes.create") | {"request": request}) | {
        "operation": {"id": operation, "producer": "tpu.googleapis.com", "first": True}
    }
    assert last == activity("CreateNode", "NOTICE", {}) | {
        "operation": {"id": operation, "producer": "tpu.googleapis.com", "last": True}
    }
    form = r"projects/demo/locations/us-east5-b/operations/operation-\d{13}-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}"
    assert re.fullmatch(form, operation)


def test_a_stockout_is_the_status_of_the_last_entry(api: Api) -> None:
    api.server.stockout("us-east5-b")
    operation = api.create().operation.name
    api.wait(10)
    last = take_random(api.entries[-1])
    message = last["protoPayload"]["status"].pop("message")
    assert message.startswith('There is no more capacity in the zone "us-east5-b"; you can try')
    assert last == activity("CreateNode", "ERROR", {"status": {"code": 8}}) | {
        "operation": {"id": operation, "producer": "tpu.googleapis.com", "last": True}
    }


def test_a_refused_call_has_one_entry_and_no_operation(api: Api) -> None:
    api.server.quota("us-east5-b")
    with pytest.raises(exceptions.ResourceExhausted):
        api.create()
    (entry,) = map(take_random, api.entries)
    limit = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
    status = {
        "code": 8,
        "message": f"Quota limit '{limit}' has been exceeded. Limit: 4 in zone us-east5-b.",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [
                    {
                        "subject": "project:123456789012",
                        "description": f"Quota '{limit}' exhausted. Limit 4 in zone us-east5-b",
                    }
                ],
            }
        ],
    }
    assert entry == activity("CreateNode", "ERROR", call("tpu.nodes.create") | {"status": status})


def test_a_denied_call_says_that_the_permission_was_not_granted(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.deny("DeleteNode")
    with pytest.raises(exceptions.PermissionDenied):
        api.client.delete_node(name=NODE)
    (entry,) = api.entries
    assert entry["protoPayload"]["status"]["code"] == 7
    assert "granted" not in entry["protoPayload"]["authorizationInfo"][0]


def test_deletions_and_updates_are_logged_at_both_ends(api: Api) -> None:
    api.create_ready()
    calls: list[tuple[str, str, Callable[[], Any]]] = [
        ("UpdateNode", "tpu.nodes.update", lambda: api.update({"description": "x"}, "description")),
        ("DeleteNode", "tpu.nodes.delete", lambda: api.client.delete_node(name=NODE)),
    ]
    for method, permission, work in calls:
        api.entries.clear()
        operation = work().operation.name
        time = f"2027-01-15T08:00:{int(api.clock.now) % 60:02d}.000000Z"
        api.wait(5)
        first, last = map(take_random, api.entries)
        running = {"id": operation, "producer": "tpu.googleapis.com"}
        assert first == activity(method, "NOTICE", call(permission, time)) | {"operation": running | {"first": True}}
        assert last == activity(method, "NOTICE", {}) | {"operation": running | {"last": True}}


def test_reads_repeats_and_calls_that_did_not_arrive_are_not_logged(api: Api) -> None:
    request_id = "0d7e1d8a-6a0b-5f5e-9d0b-3f6a3a3f2b11"
    api.create(request_id=request_id)
    api.entries.clear()
    api.create(request_id=request_id)
    api.get()
    api.server.deny("GetNode")
    with pytest.raises(exceptions.PermissionDenied):
        api.get()
    api.server.unavailable("DeleteNode")
    with pytest.raises(exceptions.ServiceUnavailable):
        api.client.delete_node(name=NODE)
    assert api.entries == []


def system_event(method: str, service: str, resource_name: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "logName": "projects/demo/logs/cloudaudit.googleapis.com%2Fsystem_event",
        "protoPayload": {
            "@type": AUDIT_LOG,
            "serviceName": service,
            "methodName": method,
            "resourceName": resource_name,
            "authenticationInfo": {"principalEmail": "system@google.com"},
            **payload,
        },
        "severity": "INFO",
        "operation": {"producer": method, "first": True, "last": True},
    }


def take_event_id(entry: dict[str, Any]) -> dict[str, Any]:
    form = r"systemevent-\d{13}-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}"
    assert re.fullmatch(form, entry["operation"].pop("id"))
    return entry


def test_a_preemption_is_told_by_every_worker_and_once_by_the_node(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.preempt(NODE, reason="as it is")
    api.wait(30)
    *workers, node = (take_event_id(take_random(entry)) for entry in api.entries)
    triggers = {entry.pop("labels")["compute.googleapis.com/root_trigger_id"] for entry in workers}
    assert len(triggers) == 1
    instances = {entry["resource"]["labels"].pop("instance_id") for entry in workers}
    assert len(instances) == 4
    assert all(instance.isdigit() for instance in instances)
    method = "compute.instances.preempted"
    payload = {
        "request": {"@type": f"type.googleapis.com/{method}"},
        "status": {"message": "Instance was preempted."},
    }
    assert workers == [
        system_event(method, "compute.googleapis.com", f"projects/demo/zones/us-east5-b/instances/{hostname}", payload)
        | {"resource": {"type": "gce_instance", "labels": {"project_id": "demo", "zone": "us-east5-b"}}}
        for hostname in api.server.hostnames(NODE)
    ]
    labels = {"method": "tpu.nodes.terminate", "project_id": "demo", "service": "tpu.googleapis.com"}
    payload = {"metadata": {"terminateReason": "as it is"}}
    assert node == system_event("tpu.nodes.terminate", "tpu.googleapis.com", NODE, payload) | {
        "resource": {"type": "audited_resource", "labels": labels}
    }


def test_a_termination_without_a_reason_has_no_metadata(api: Api) -> None:
    api.create_ready()
    api.server.terminate(NODE)
    assert "metadata" not in api.entries[-1]["protoPayload"]


def test_no_two_entries_have_the_same_identity(api: Api) -> None:
    api.create_ready()
    api.server.preempt(NODE)
    api.wait(30)
    identities = {(entry["logName"], entry["timestamp"], entry["insertId"]) for entry in api.entries}
    assert len(identities) == len(api.entries) == 7
