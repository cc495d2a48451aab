from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc
import pytest
from google.cloud import tpu_v2alpha1
from google.longrunning import operations_pb2
from tests.cloud.served import FAILURES, ServedApi
from tests.local.tpu.api import NODE, PARENT, ZONE, Api

from tpu_recovery.cloud import clients
from tpu_recovery.cloud.capacity import TpuCapacity
from tpu_recovery.errors import AlreadyExists, NotFound, Refused, Unreadable
from tpu_recovery.model.observed import NodeReading, OperationReading, OperationState, Presence
from tpu_recovery.recovery.ports import NodeRequest

FIRST_ID = "00000000-0000-4000-8000-000000000001"
OTHER_ID = "00000000-0000-4000-8000-000000000002"
NODE_FIELDS: dict[str, Any] = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"}
OPERATION = f"{PARENT}/operations/operation-1"


def request(request_id: str = FIRST_ID, **fields: Any) -> NodeRequest:
    return NodeRequest(PARENT, "train-g1", request_id, NODE_FIELDS | fields)


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


@pytest.fixture
def capacity(api: Api) -> TpuCapacity:
    return TpuCapacity(api.client)


class Case(NamedTuple):
    """A method of the port, and what a code comes to that is an answer of its own for it."""

    call: Callable[[TpuCapacity], Any]
    answers: Mapping[str, type[Exception]] = MappingProxyType({})
    otherwise: type[Exception] = Refused


AMBIGUOUS = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "DATA_LOSS", "ABORTED", "CANCELLED"}

CALLS = {
    "list": Case(
        lambda capacity: capacity.list_nodes("demo", ZONE),
        dict.fromkeys(("NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT", "FAILED_PRECONDITION"), Refused),
        otherwise=Unreadable,
    ),
    "create": Case(lambda capacity: capacity.create(request()), {"ALREADY_EXISTS": AlreadyExists}),
    "delete": Case(lambda capacity: capacity.delete(NODE), {"NOT_FOUND": NotFound}),
    "write metadata": Case(
        lambda capacity: capacity.write_metadata(NODE, {}), {"NOT_FOUND": NotFound, "ALREADY_EXISTS": Unreadable}
    ),
    "attributes": Case(lambda capacity: capacity.attributes(NODE), otherwise=Unreadable),
}

NOTHING_WRITTEN_YET = ("attributes", grpc.StatusCode.INVALID_ARGUMENT)
REFUSALS = [(name, code) for name in CALLS for code in FAILURES if (name, code) != NOTHING_WRITTEN_YET]


class TestRefusals:
    @pytest.mark.parametrize(("name", "code"), REFUSALS)
    def test_every_code_has_its_meaning(self, tpu: ServedApi, name: str, code: grpc.StatusCode) -> None:
        tpu.answers = [code]
        case = CALLS[name]
        expected = case.answers.get(code.name, Unreadable if code.name in AMBIGUOUS else case.otherwise)
        with pytest.raises(expected, match=f"{code.name}: because the test says so") as problem:
            case.call(TpuCapacity(clients.tpu_client()))
        assert type(problem.value) is expected
        assert len(tpu.calls) == 1

    @pytest.mark.parametrize("code", FAILURES)
    def test_of_a_description_they_are_readings(self, tpu: ServedApi, code: grpc.StatusCode) -> None:
        tpu.answers = [code]
        reading = TpuCapacity(clients.tpu_client()).describe(NODE)
        if code is grpc.StatusCode.NOT_FOUND:
            assert reading == NodeReading(name=NODE, presence=Presence.ABSENT)
        else:
            problem = f"{code.name}: because the test says so"
            assert reading == NodeReading(name=NODE, presence=Presence.UNREADABLE, problem=problem)

    @pytest.mark.parametrize("code", FAILURES)
    def test_of_an_operation_they_are_readings(self, tpu: ServedApi, code: grpc.StatusCode) -> None:
        tpu.answers = [code]
        reading = TpuCapacity(clients.tpu_client()).describe_operation(OPERATION)
        if code is grpc.StatusCode.NOT_FOUND:
            assert reading == OperationReading(state=OperationState.FORGOTTEN)
        else:
            message = f"{code.name}: because the test says so"
            assert reading == OperationReading(state=OperationState.UNREADABLE, message=message)

    def test_a_refusal_carries_code_and_message(self, api: Api, capacity: TpuCapacity) -> None:
        api.server.quota(ZONE)
        with pytest.raises(Refused) as refused:
            capacity.create(request())
        assert refused.value.code == "RESOURCE_EXHAUSTED"
        assert "has been exceeded" in refused.value.message


class TestDescribing:
    def test_a_node_is_read_with_everything_a_decision_needs(self, api: Api, capacity: TpuCapacity) -> None:
        capacity.create(request(labels={"tpu-recovery-job": "train"}))
        api.wait(10)
        reading = capacity.describe(NODE)
        assert reading == NodeReading(
            name=NODE,
            presence=Presence.PRESENT,
            state="READY",
            health="HEALTHY",
            id=reading.id,
            create_time=datetime.fromtimestamp(api.clock.now - 10, UTC),
            labels={"tpu-recovery-job": "train"},
            workers=4,
        )
        assert reading.id.isdigit()
        assert capacity.list_nodes("demo", ZONE) == [reading]

    def test_a_creation_time_is_read_to_the_microsecond(self, tpu: ServedApi) -> None:
        moment = datetime(2026, 12, 1, 1, 2, 3, 456789, tzinfo=UTC)
        tpu.answers = [tpu_v2alpha1.Node(name=NODE, create_time=moment)]
        assert TpuCapacity(clients.tpu_client()).describe(NODE).create_time == moment

    def test_a_node_without_the_optional_fields_is_read_too(self, tpu: ServedApi) -> None:
        tpu.answers = [tpu_v2alpha1.Node(name=NODE)]
        assert TpuCapacity(clients.tpu_client()).describe(NODE) == NodeReading(
            name=NODE, presence=Presence.PRESENT, state="STATE_UNSPECIFIED", health="HEALTH_UNSPECIFIED"
        )

    def test_states_from_the_future_are_read_as_their_numbers(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready()
        api.server.set_state(NODE, state=99, health=98)
        for reading in (capacity.describe(NODE), *capacity.list_nodes("demo", ZONE)):
            assert (reading.state, reading.health) == ("99", "98")


class TestListing:
    def test_all_pages_are_read(self, tpu: ServedApi) -> None:
        tpu.answers = [
            tpu_v2alpha1.ListNodesResponse(nodes=[tpu_v2alpha1.Node(name="a")], next_page_token="2"),
            tpu_v2alpha1.ListNodesResponse(nodes=[], next_page_token="3"),
            tpu_v2alpha1.ListNodesResponse(nodes=[tpu_v2alpha1.Node(name="b")]),
        ]
        listed = TpuCapacity(clients.tpu_client()).list_nodes("demo", ZONE)
        assert [node.name for node in listed] == ["a", "b"]
        assert tpu.calls == ["ListNodes"] * 3

    def test_a_list_with_a_page_missing_is_no_list(self, tpu: ServedApi) -> None:
        first = tpu_v2alpha1.ListNodesResponse(nodes=[tpu_v2alpha1.Node(name="a")], next_page_token="2")
        tpu.answers = [first, grpc.StatusCode.UNAVAILABLE]
        with pytest.raises(Unreadable):
            TpuCapacity(clients.tpu_client()).list_nodes("demo", ZONE)


class TestOperations:
    def test_it_runs_and_then_has_succeeded(self, api: Api, capacity: TpuCapacity) -> None:
        name = capacity.create(request())
        assert capacity.describe_operation(name) == OperationReading(state=OperationState.RUNNING)
        api.wait(10)
        assert capacity.describe_operation(name) == OperationReading(state=OperationState.SUCCEEDED)

    def test_a_stockout_is_a_failure_with_code_and_text(self, api: Api, capacity: TpuCapacity) -> None:
        api.server.stockout(ZONE)
        name = capacity.create(request())
        api.wait(10)
        reading = capacity.describe_operation(name)
        assert (reading.state, reading.code) == (OperationState.FAILED, "RESOURCE_EXHAUSTED")
        assert "no more capacity" in reading.message

    def test_one_that_nobody_knows_is_forgotten(self, capacity: TpuCapacity) -> None:
        assert capacity.describe_operation(OPERATION) == OperationReading(state=OperationState.FORGOTTEN)

    def test_an_error_code_from_the_future_is_read_as_its_number(self, tpu: ServedApi) -> None:
        operation = operations_pb2.Operation(name=OPERATION, done=True)
        operation.error.code, operation.error.message = 77, "new"
        tpu.answers = [operation]
        reading = TpuCapacity(clients.tpu_client()).describe_operation(OPERATION)
        assert reading == OperationReading(state=OperationState.FAILED, code="77", message="new")


class TestCreating:
    def test_the_same_request_again_gives_the_same_operation(self, capacity: TpuCapacity) -> None:
        assert capacity.create(request()) == capacity.create(request())

    def test_a_taken_name_is_said_to_exist(self, capacity: TpuCapacity) -> None:
        capacity.create(request())
        with pytest.raises(AlreadyExists):
            capacity.create(request(OTHER_ID))

    def test_every_field_arrives_under_its_own_name(self, api: Api, capacity: TpuCapacity) -> None:
        fields: dict[str, Any] = {
            "runtime_version": "v2-alpha-tpuv5-lite",
            "accelerator_config": {"type": "V5LITE_POD", "topology": "4x4"},
            "metadata": {"startup-script": "#!/bin/sh\n"},
            "labels": {"a": "b"},
            "tags": ["t"],
            "scheduling_config": {"spot": True, "reserved": False},
            "service_account": {"email": "a@b.example", "scope": ["s"]},
            "network_config": {"network": "n", "enable_external_ips": True},
            "data_disks": [{"source_disk": "d", "mode": "READ_ONLY"}],
            "autocheckpoint_enabled": True,
        }
        capacity.create(NodeRequest(PARENT, "train-g1", FIRST_ID, fields))
        node = api.get()
        assert (node.accelerator_config.type_.name, node.accelerator_config.topology) == ("V5LITE_POD", "4x4")
        assert (dict(node.metadata), dict(node.labels)) == (fields["metadata"], fields["labels"])
        assert (list(node.tags), node.scheduling_config.spot) == (["t"], True)
        assert (node.service_account.email, list(node.service_account.scope)) == ("a@b.example", ["s"])
        assert (node.network_config.network, node.network_config.enable_external_ips) == ("n", True)
        assert (node.data_disks[0].source_disk, node.data_disks[0].mode.name) == ("d", "READ_ONLY")
        assert node.autocheckpoint_enabled

    def test_the_caller_s_fields_are_left_as_they_are(self, capacity: TpuCapacity) -> None:
        fields = {
            "runtime_version": "v2-alpha-tpuv5-lite",
            "accelerator_config": {"type": "V5LITE_POD", "topology": "4x4"},
        }
        capacity.create(NodeRequest(PARENT, "train-g1", FIRST_ID, fields))
        assert fields["accelerator_config"] == {"type": "V5LITE_POD", "topology": "4x4"}


class TestDeleting:
    def test_a_node_goes(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready()
        capacity.delete(NODE)
        api.wait(5)
        assert capacity.describe(NODE).presence is Presence.ABSENT

    def test_one_that_is_gone_is_not_found(self, capacity: TpuCapacity) -> None:
        with pytest.raises(NotFound):
            capacity.delete(NODE)


class TestMetadata:
    def test_our_key_is_set_and_the_keys_of_others_stay(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready(metadata={"ssh-keys": "somebody's", "tpu-recovery": "old", "startup-script": "ours"})
        capacity.write_metadata(NODE, {"tpu-recovery": "new"})
        api.wait(1)
        assert dict(api.get().metadata) == {"ssh-keys": "somebody's", "tpu-recovery": "new", "startup-script": "ours"}

    def test_what_somebody_else_wrote_in_between_stays(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready(metadata={"tpu-recovery": "1"})
        api.update({"metadata": {"tpu-recovery": "1", "ssh-keys": "new"}}, "metadata")
        api.wait(1)
        capacity.write_metadata(NODE, {"tpu-recovery": "2"})
        api.wait(1)
        assert dict(api.get().metadata) == {"ssh-keys": "new", "tpu-recovery": "2"}

    def test_nothing_but_metadata_is_touched(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready(labels={"a": "b"}, description="mine", tags=["t"])
        capacity.write_metadata(NODE, {"tpu-recovery": "1"})
        api.wait(1)
        node = api.get()
        assert (dict(node.labels), node.description, list(node.tags)) == ({"a": "b"}, "mine", ["t"])

    def test_another_update_in_flight_means_again_in_a_moment(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready()
        capacity.write_metadata(NODE, {"tpu-recovery": "1"})
        with pytest.raises(Unreadable, match="another update is in flight"):
            capacity.write_metadata(NODE, {"tpu-recovery": "2"})
        api.wait(1)
        capacity.write_metadata(NODE, {"tpu-recovery": "3"})
        api.wait(1)
        assert api.get().metadata["tpu-recovery"] == "3"

    def test_a_node_that_is_gone_is_not_found(self, capacity: TpuCapacity) -> None:
        with pytest.raises(NotFound):
            capacity.write_metadata(NODE, {"tpu-recovery": "1"})

    def test_a_node_that_was_taken_refuses(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready(scheduling_config={"spot": True})
        api.server.preempt(NODE)
        api.wait(30)
        with pytest.raises(Refused, match="INVALID_ARGUMENT"):
            capacity.write_metadata(NODE, {"tpu-recovery": "1"})


class TestAttributes:
    def test_before_anything_is_written_there_are_none(self, capacity: TpuCapacity) -> None:
        capacity.create(request())
        assert capacity.attributes(NODE) == ((), ())

    def test_one_call_reads_host_names_and_reports_of_all_workers(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready()
        api.server.set_guest_attribute(NODE, 0, "tpu-recovery", "report", "first")
        api.server.set_guest_attribute(NODE, 0, "tpu-recovery", "alive", "second")
        api.server.set_guest_attribute(NODE, 3, "tpu-recovery", "report", "third")
        api.server.set_guest_attribute(NODE, 1, "somebody-else", "report", "foreign")
        api.server.calls.clear()
        attributes = capacity.attributes(NODE)
        assert attributes.hostnames == tuple(sorted(api.server.hostnames(NODE)))
        assert sorted(attributes.reports) == ["first", "second", "third"]
        assert api.server.calls == [("GetGuestAttributes", NODE)]

    def test_where_they_are_switched_off_they_are_unreadable(self, api: Api, capacity: TpuCapacity) -> None:
        api.create_ready()
        api.server.deny("GetGuestAttributes")
        with pytest.raises(Unreadable, match="PERMISSION_DENIED"):
            capacity.attributes(NODE)
