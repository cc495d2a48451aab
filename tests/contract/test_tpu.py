"""The local Cloud TPU API through the real client."""

import itertools
import threading
import uuid
import warnings
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2alpha1
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcTransport
from google.rpc import error_details_pb2
from tests.local.tpu.api import NODE, PARENT, ZONE, Api

from tpu_recovery.local.tpu import TpuServer, TpuSettings

pytestmark = pytest.mark.contract

State = tpu_v2alpha1.Node.State


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


def test_a_node_is_created_and_becomes_ready(api: Api) -> None:
    operation = api.create(labels={"job": "train"}, network_config={"enable_external_ips": True})
    assert api.get().state == State.CREATING
    assert not api.operation(operation.operation.name).done

    api.wait(10)

    node = api.get()
    assert node.state == State.READY
    assert node.health == tpu_v2alpha1.Node.Health.HEALTHY
    assert node.labels == {"job": "train"}
    assert [endpoint.ip_address for endpoint in node.network_endpoints] == [f"10.128.0.{n}" for n in (2, 3, 4, 5)]
    assert node.network_endpoints[0].access_config.external_ip
    assert node.id
    assert node.create_time.timestamp() == 1_800_000_000
    assert api.operation(operation.operation.name).done
    assert operation.result(timeout=10).name == NODE
    assert operation.metadata.target == NODE


def test_a_second_node_of_a_name_gets_another_id(api: Api) -> None:
    api.create_ready()
    first = api.get().id
    api.client.delete_node(name=NODE)
    api.wait(5)
    api.create_ready()
    assert api.get().id != first


def test_a_name_in_use_is_refused_even_when_its_node_is_dead(api: Api) -> None:
    api.create_ready()
    api.server.preempt(NODE)
    api.wait(30)
    assert api.get().state == State.PREEMPTED
    with pytest.raises(exceptions.AlreadyExists, match=f"Resource '{NODE}' already exists"):
        api.create()


def test_a_repeated_request_is_the_same_operation_for_an_hour(api: Api) -> None:
    request_id = str(uuid.uuid4())
    first = api.create(request_id=request_id).operation.name
    assert api.create(request_id=request_id).operation.name == first
    api.wait(3600)
    assert api.create(request_id=request_id).operation.name == first
    assert api.server.node_names() == [NODE]
    api.wait(1)
    with pytest.raises(exceptions.AlreadyExists):
        api.create(request_id=request_id)


def test_a_repeated_delete_request_is_the_same_operation(api: Api) -> None:
    api.create_ready()
    request = {"name": NODE, "request_id": str(uuid.uuid4())}
    first = api.client.delete_node(request=request).operation.name
    api.wait(5)
    assert api.client.delete_node(request=request).operation.name == first


def test_a_refused_request_is_not_remembered(api: Api) -> None:
    request_id = str(uuid.uuid4())
    api.server.quota(ZONE)
    with pytest.raises(exceptions.ResourceExhausted):
        api.create(request_id=request_id)
    api.create(request_id=request_id)
    assert api.server.node_names() == [NODE]


def test_a_stockout_is_an_error_of_the_operation_and_the_node_disappears(api: Api) -> None:
    api.server.stockout(ZONE)
    operation = api.create()
    api.wait(10)
    answer = api.operation(operation.operation.name)
    assert answer.done
    assert answer.error.code == 8
    assert answer.error.message.startswith(f'There is no more capacity in the zone "{ZONE}"; you can try in another')
    with pytest.raises(exceptions.ResourceExhausted):
        operation.result(timeout=10)
    with pytest.raises(exceptions.NotFound):
        api.get()
    api.create_ready()
    assert api.get().state == State.READY


def test_an_internal_error_is_an_error_of_the_operation(api: Api) -> None:
    api.server.fail_internal(ZONE)
    operation = api.create()
    api.wait(10)
    with pytest.raises(exceptions.InternalServerError, match="an internal error has occurred"):
        operation.result(timeout=10)


def test_a_missing_quota_is_an_error_of_the_call_and_leaves_nothing(api: Api) -> None:
    api.server.quota(ZONE)
    with pytest.raises(exceptions.ResourceExhausted, match=r"Quota limit '.*' has been exceeded\.") as caught:
        api.create()
    assert isinstance(caught.value.details[0], error_details_pb2.QuotaFailure)
    assert api.server.node_names() == []


def test_a_deleted_node_is_seen_deleting_and_then_not_found(api: Api) -> None:
    api.create_ready()
    operation = api.client.delete_node(name=NODE)
    assert api.get().state == State.DELETING
    with pytest.raises(exceptions.AlreadyExists):
        api.create()
    again = api.client.delete_node(name=NODE)
    api.wait(5)
    assert operation.result(timeout=10) is not None
    assert again.result(timeout=10) is not None
    with pytest.raises(exceptions.NotFound, match=f"Resource '{NODE}' was not found"):
        api.get()
    with pytest.raises(exceptions.NotFound):
        api.client.delete_node(name=NODE)


def test_an_update_replaces_the_whole_metadata_map_and_nothing_else(api: Api) -> None:
    api.create_ready(metadata={"startup-script": "true", "ssh-keys": "k"}, labels={"job": "train"}, description="old")
    operation = api.update({"metadata": {"tpu-recovery": "{}"}, "description": "new"}, "metadata")
    api.wait(1)
    assert operation.result(timeout=10).metadata == {"tpu-recovery": "{}"}
    node = api.get()
    assert (dict(node.metadata), dict(node.labels), node.description) == (
        {"tpu-recovery": "{}"},
        {"job": "train"},
        "old",
    )
    api.update({}, "metadata", "labels")
    api.wait(1)
    assert (dict(api.get().metadata), dict(api.get().labels)) == ({}, {})


def test_a_second_update_is_refused_while_one_is_in_flight(api: Api) -> None:
    api.create_ready()
    api.update({"description": "first"}, "description")
    with pytest.raises(exceptions.Aborted, match="already an UpdateNode call in flight") as caught:
        api.update({"description": "second"}, "description")
    assert caught.value.code == 409
    api.wait(1)
    api.update({"description": "second"}, "description")
    api.wait(1)
    assert api.get().description == "second"


def test_a_preempted_node_cannot_be_updated(api: Api) -> None:
    api.create_ready()
    api.server.preempt(NODE)
    api.wait(30)
    with pytest.raises(exceptions.InvalidArgument, match="update is not supported while in state PREEMPTED"):
        api.update({"description": "late"}, "description")


@pytest.mark.parametrize("path", ["runtime_version", "network_config", "scheduling_config.spot", "state"])
def test_other_fields_cannot_be_updated(api: Api, path: str) -> None:
    api.create_ready()
    with pytest.raises(exceptions.InvalidArgument, match=path):
        api.update({}, path)


def test_guest_attributes_are_given_by_worker_and_path(api: Api) -> None:
    def ask(path: str = "", *workers: str) -> list[dict[str, str]]:
        request = {"name": NODE, "query_path": path, "worker_ids": workers}
        answer = api.client.get_guest_attributes(request=request)
        return [
            {f"{item.namespace}/{item.key}": item.value for item in worker.query_value.items}
            for worker in answer.guest_attributes
        ]

    api.create()
    with pytest.raises(exceptions.InvalidArgument, match='The "GuestAttributes" value "" was not found'):
        ask()
    api.wait(10)
    hostnames = api.server.hostnames(NODE)
    assert ask("hostkeys/hostname") == [{"hostkeys/hostname": hostname} for hostname in hostnames]
    with pytest.raises(exceptions.InvalidArgument, match='value "tpu-recovery/" was not found'):
        ask("tpu-recovery/")

    api.server.set_guest_attribute(NODE, 2, "tpu-recovery", "report", "{}")
    api.server.set_guest_attribute(NODE, 2, "tpu-recovery", "alive", "1")
    report, alive = {"tpu-recovery/report": "{}"}, {"tpu-recovery/alive": "1"}
    assert ask("tpu-recovery/") == [{}, {}, report | alive, {}]
    assert ask("tpu-recovery/report", "2") == [report]
    assert ask("", "3", "2") == [
        {"hostkeys/hostname": hostnames[3]},
        {"hostkeys/hostname": hostnames[2]} | report | alive,
    ]
    with pytest.raises(exceptions.InvalidArgument, match="worker_ids"):
        ask("", "4")


def test_states_and_health_of_the_future_arrive_as_numbers(api: Api) -> None:
    api.create_ready()
    api.server.set_state(NODE, state=99, health=98, health_description="The TPU had a maintenance event")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the client warns of numbers it does not know
        node = api.get()
        assert (node.state, node.health) == (99, 98)
        assert node.health_description == "The TPU had a maintenance event"
    with pytest.raises(exceptions.InvalidArgument, match="not supported while in state 99"):
        api.update({}, "metadata")


def test_calls_that_nothing_here_makes_fail_loudly(api: Api) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="does not serve StopNode"):
        api.client.stop_node(request={"name": NODE})
    with pytest.raises(exceptions.MethodNotImplemented, match="does not serve CreateQueuedResource"):
        api.client.create_queued_resource(request={"parent": PARENT, "queued_resource_id": "q"})
    with pytest.raises(exceptions.MethodNotImplemented):
        api.client.list_operations({"name": PARENT})


def test_lists_come_in_pages(api: Api) -> None:
    for number in range(5):
        api.create(node_id=f"n{number}")
    elsewhere = "projects/demo/locations/us-central2-b"
    api.client.create_node(
        request={
            "parent": elsewhere,
            "node_id": "other",
            "node": {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"},
        }
    )
    pages = list(api.client.list_nodes(request={"parent": PARENT, "page_size": 2}).pages)
    assert [[node.name[-2:] for node in page.nodes] for page in pages] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert len(list(api.client.list_nodes(parent="projects/demo/locations/-"))) == 6
    assert [node.name for node in api.client.list_nodes(parent=elsewhere)] == [f"{elsewhere}/nodes/other"]
    assert list(api.client.list_nodes(parent="projects/demo2/locations/-")) == []
    with pytest.raises(exceptions.InvalidArgument, match="page_token"):
        list(api.client.list_nodes(request={"parent": PARENT, "page_token": "x"}))


def test_there_are_no_queued_resources(api: Api) -> None:
    assert list(api.client.list_queued_resources(parent=PARENT)) == []
    with pytest.raises(exceptions.PermissionDenied, match="Location moon-1a is not found or access is unauthorized"):
        list(api.client.list_queued_resources(parent="projects/demo/locations/moon-1a"))


def test_an_operation_that_never_was_is_not_found(api: Api) -> None:
    with pytest.raises(exceptions.NotFound):
        api.operation(f"{PARENT}/operations/operation-1")


def test_denied_and_unavailable_calls_fail_as_often_as_asked(api: Api) -> None:
    api.create_ready()
    api.server.deny("GetNode", times=1)
    with pytest.raises(exceptions.PermissionDenied, match=r"Permission 'tpu\.nodes\.get' denied"):
        api.get()
    api.server.unavailable("GetNode", times=2)
    for _ in range(2):
        with pytest.raises(exceptions.ServiceUnavailable):
            api.get()
    assert api.get().state == State.READY
    with pytest.raises(ValueError, match="'GetNod' is not served"):
        api.server.deny("GetNod")


def test_every_call_is_counted_in_order(api: Api) -> None:
    operation = api.create().operation.name
    api.operation(operation)
    list(api.client.list_nodes(parent=PARENT))
    api.client.delete_node(name=NODE)
    assert api.server.calls == [
        ("CreateNode", NODE),
        ("GetOperation", operation),
        ("ListNodes", PARENT),
        ("DeleteNode", NODE),
    ]


def test_time_passes_without_anybody_asking() -> None:
    seconds = itertools.count(1_800_000_000)
    created = threading.Event()

    def hear(entry: dict[str, Any]) -> None:
        if "last" in entry["operation"]:
            created.set()

    server = TpuServer(clock=lambda: float(next(seconds)), emit=hear, settings=TpuSettings(create_seconds=10))
    with grpc.insecure_channel(f"127.0.0.1:{server.start()}") as channel:
        client = tpu_v2alpha1.TpuClient(transport=TpuGrpcTransport(channel=channel))
        node = tpu_v2alpha1.Node(accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
        client.create_node(parent=PARENT, node_id="train-g1", node=node)
        assert created.wait(timeout=60)
    server.stop()
    assert server.calls == [("CreateNode", NODE)]
