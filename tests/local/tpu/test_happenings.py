from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2alpha1
from tests.local.tpu.api import NODE, Api

State = tpu_v2alpha1.Node.State


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


def methods(api: Api) -> list[str]:
    return [entry["protoPayload"]["methodName"].removeprefix("google.cloud.tpu.v2alpha1.Tpu.") for entry in api.entries]


def heard_after(api: Api, seconds: float) -> list[str]:
    api.entries.clear()
    api.wait(seconds)
    return methods(api)


def test_a_preempted_node_stays_ready_for_the_grace_and_then_keeps_its_name(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.preempt(NODE, reason="taken")
    assert methods(api) == ["compute.instances.preempted"] * 4
    assert api.get().state == State.READY
    assert heard_after(api, 30) == ["tpu.nodes.terminate"]
    assert api.get().state == State.PREEMPTED


def test_a_node_preempted_while_it_is_created_fails_its_operation() -> None:
    api = Api(create_seconds=10, preemption_grace=5)
    operation = api.create()
    api.server.preempt(NODE)
    api.wait(5)
    assert api.get().state == State.PREEMPTED
    api.wait(5)
    with pytest.raises(exceptions.InvalidArgument, match="update is not supported while in state PREEMPTED"):
        operation.result(timeout=10)
    assert api.get().state == State.PREEMPTED
    api.close()


def test_a_node_deleted_within_the_grace_is_gone_without_a_termination(api: Api) -> None:
    api.create_ready()
    api.server.preempt(NODE)
    api.client.delete_node(name=NODE)
    assert heard_after(api, 30) == ["DeleteNode"]
    assert api.server.node_names() == []


def test_a_node_deleted_while_it_is_created_never_becomes_ready(api: Api) -> None:
    operation = api.create()
    api.client.delete_node(name=NODE)
    api.wait(10)
    assert api.server.node_names() == []
    assert api.operation(operation.operation.name).error.code == 1


def test_a_node_deleted_while_it_is_updated_fails_the_update(api: Api) -> None:
    api.create_ready()
    update = api.update({"description": "x"}, "description")
    api.client.delete_node(name=NODE)
    api.wait(5)
    assert api.operation(update.operation.name).error.code == 1


def test_a_node_lost_while_it_is_updated_or_stopped_fails_the_operation(api: Api) -> None:
    api.create_ready()
    update = api.update({"description": "x"}, "description")
    api.server.terminate(NODE)
    api.wait(1)
    with pytest.raises(exceptions.InvalidArgument, match="update is not supported while in state TERMINATED"):
        update.result(timeout=10)
    api.entries.clear()
    api.server.stop_as(NODE, "alice@example.com")
    api.client.delete_node(name=NODE)
    api.wait(5)
    assert [entry["severity"] for entry in api.entries] == ["NOTICE", "NOTICE", "ERROR", "NOTICE"]


def test_only_what_is_named_of_a_state_is_changed(api: Api) -> None:
    api.create_ready()
    api.server.set_state(NODE, health=tpu_v2alpha1.Node.Health.UNHEALTHY_MAINTENANCE)
    api.server.set_state(NODE, state=State.REPAIRING)
    node = api.get()
    assert (node.state, node.health) == (State.REPAIRING, tpu_v2alpha1.Node.Health.UNHEALTHY_MAINTENANCE)


def test_a_node_under_maintenance_is_terminated(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.terminate(NODE)
    assert methods(api) == ["compute.instances.terminateOnHostMaintenance"] * 4 + ["tpu.nodes.terminate"]
    assert api.get().state == State.TERMINATED


def test_a_dead_node_cannot_be_lost_again(api: Api) -> None:
    api.create_ready()
    api.server.terminate(NODE)
    for happening in api.server.preempt, api.server.terminate, api.server.host_error, api.server.restart:
        with pytest.raises(ValueError, match="TERMINATED: only a node that is there can be lost"):
            happening(NODE)


def test_a_dead_node_can_be_deleted(api: Api) -> None:
    api.create_ready()
    api.server.terminate(NODE)
    api.client.delete_node(name=NODE)
    api.wait(5)
    assert api.server.node_names() == []


def test_a_forgotten_node_is_gone_and_nothing_says_so(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.forget(NODE)
    with pytest.raises(exceptions.NotFound):
        api.get()
    assert api.entries == []


def test_a_person_deletes_a_node(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.delete_as(NODE, "alice@example.com")
    assert api.get().state == State.DELETING
    api.wait(5)
    assert api.server.node_names() == []
    assert methods(api) == ["DeleteNode", "DeleteNode"]
    principals = {entry["protoPayload"]["authenticationInfo"]["principalEmail"] for entry in api.entries}
    assert principals == {"alice@example.com"}


def test_a_person_stops_a_node(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.stop_as(NODE, "alice@example.com")
    assert api.get().state == State.STOPPING
    api.wait(5)
    assert api.get().state == State.STOPPED
    assert methods(api) == ["StopNode", "StopNode"]


def test_a_failed_host_restarts_its_worker_and_the_node_stays(api: Api) -> None:
    api.create_ready()
    api.entries.clear()
    api.server.host_error(NODE, worker=2)
    assert methods(api) == ["compute.instances.hostError", "compute.instances.automaticRestart"]
    hostname = api.server.hostnames(NODE)[2]
    assert {entry["protoPayload"]["resourceName"] for entry in api.entries} == {
        f"projects/demo/zones/us-east5-b/instances/{hostname}"
    }
    api.entries.clear()
    api.server.restart(NODE)
    assert methods(api) == ["tpu.nodes.restart"]
    assert api.get().state == State.READY


@pytest.mark.parametrize("outlive", [False, True])
def test_guest_attributes_of_a_dead_node_are_kept_only_on_request(*, outlive: bool) -> None:
    api = Api(guest_attributes_outlive_vms=outlive)
    api.create_ready()
    api.server.terminate(NODE)
    request: dict[str, Any] = {"name": NODE}
    if outlive:
        assert len(api.client.get_guest_attributes(request=request).guest_attributes) == 4
    else:
        with pytest.raises(exceptions.InvalidArgument, match="GuestAttributes"):
            api.client.get_guest_attributes(request=request)
    api.close()


def test_one_worker_without_an_attribute_can_fail_the_whole_question() -> None:
    api = Api(guest_attributes_need_every_worker=True)
    api.create_ready()
    api.server.set_guest_attribute(NODE, 0, "tpu-recovery", "report", "{}")
    ask = {"name": NODE, "query_path": "tpu-recovery/report"}
    with pytest.raises(exceptions.InvalidArgument, match="GuestAttributes"):
        api.client.get_guest_attributes(request=ask)
    assert api.client.get_guest_attributes(request=ask | {"worker_ids": ["0"]}).guest_attributes
    api.close()
