from typing import Any

import pytest
from google.cloud.tpu_v2alpha1.types import Node
from grpc import StatusCode

from tpu_recovery.local.tpu import rules
from tpu_recovery.local.tpu.accelerators import OFFERS
from tpu_recovery.local.tpu.refusals import Refused

ZONE = "us-east5-b"


def node(**fields: Any) -> Any:
    return Node.pb(Node({"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"} | fields))


def refusal_of(node_id: str = "train-g1", zone: str = ZONE, **fields: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        rules.check_new_node(node_id, node(**fields), zone, OFFERS)
    return caught.value


@pytest.mark.parametrize("node_id", ["a", "train-g1", "a" * 63, "a-0"])
def test_node_ids_of_the_platforms_alphabet_are_accepted(node_id: str) -> None:
    rules.check_new_node(node_id, node(), ZONE, OFFERS)


@pytest.mark.parametrize("node_id", ["", "Train", "1train", "train-", "-train", "a" * 64, "a_b", "a.b"])
def test_other_node_ids_are_refused(node_id: str) -> None:
    assert refusal_of(node_id).code is StatusCode.INVALID_ARGUMENT
    assert f'"node_id" value "{node_id}"' in refusal_of(node_id).message


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"runtime_version": ""}, "runtime_version"),
        ({"accelerator_type": ""}, "Exactly one of"),
        ({"accelerator_config": {"type_": "V5LITE_POD", "topology": "4x4"}}, "Exactly one of"),
        ({"scheduling_config": {"spot": True, "reserved": True}}, "both reserved and spot"),
        ({"scheduling_config": {"preemptible": True, "reserved": True}}, "both reserved and spot"),
        ({"network_config": {"network": "a"}, "network_configs": [{"network": "b"}]}, "mutually exclusive"),
        ({"description": "x" * 513}, "longer than 512"),
        ({"labels": {"Job": "train"}}, '"labels" entry "Job"'),
        ({"labels": {"job": "Train"}}, '"labels" entry "job"'),
        ({"metadata": {"tpu recovery": ""}}, '"metadata" key "tpu recovery"'),
        ({"metadata": {"k" * 128: ""}}, '"metadata" key'),
        ({"metadata": {"startup-script": "é" * 131_073}}, "larger than 262144 bytes"),
    ],
)
def test_malformed_nodes_are_refused(fields: dict[str, Any], complaint: str) -> None:
    refusal = refusal_of(**fields)
    assert refusal.code is StatusCode.INVALID_ARGUMENT
    assert complaint in refusal.message


def test_limits_are_inclusive() -> None:
    full = node(description="x" * 512, metadata={"k" * 127: "é" * 131_072}, labels={"job": "x" * 63})
    rules.check_new_node("train-g1", full, ZONE, OFFERS)


def test_an_accelerator_may_be_given_as_type_and_topology() -> None:
    by_topology = node(accelerator_type="", accelerator_config={"type_": "V5LITE_POD", "topology": "4x4"})
    rules.check_new_node("train-g1", by_topology, ZONE, OFFERS)
    assert rules.accelerator_type_of(by_topology) == "v5litepod-16"


def test_an_accelerator_that_the_zone_does_not_have_is_refused_in_the_platforms_words() -> None:
    refusal = refusal_of(accelerator_type="v4-8")
    assert refusal.code is StatusCode.INVALID_ARGUMENT
    assert refusal.message.startswith(
        'Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "v4-8", could '
        'not be found in the zonal accelerator configurations for "us-east5-b".; the accelerator v4-8 was not found in '
        "zone us-east5-b [EID: 0x"
    )


def test_an_unknown_zone_is_refused_as_unauthorized() -> None:
    refusal = refusal_of(zone="moon-1a")
    assert refusal.code is StatusCode.PERMISSION_DENIED
    assert refusal.message == "Location moon-1a is not found or access is unauthorized."


def test_a_request_id_is_a_uuid_or_nothing() -> None:
    rules.check_request_id("")
    rules.check_request_id("0d7e1d8a-6a0b-5f5e-9d0b-3f6a3a3f2b11")
    with pytest.raises(Refused, match='"request_id" value "train-g1" is not a UUID'):
        rules.check_request_id("train-g1")


def test_an_update_names_what_it_updates() -> None:
    rules.check_mask(["description", "tags", "labels", "metadata", "network_config.enable_external_ips"])
    for paths, complaint in ([], '"update_mask" value ""'), (["metadata", "state"], '"update_mask" path "state"'):
        with pytest.raises(Refused, match=complaint):
            rules.check_mask(paths)


@pytest.mark.parametrize("name", ["", "train-g1", "projects/p/locations/z", "projects/p/locations/z/nodes/"])
def test_malformed_names_are_refused(name: str) -> None:
    assert not rules.is_node_name(name)
    with pytest.raises(Refused, match='"name" value'):
        rules.split_node(name)
