"""Every field that CreateNode takes has a place in the specification, so that nothing is lost when a node is made anew.

The field lists come from the client library itself: a field that a later version adds makes these tests fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from google.cloud import tpu_v2alpha1
from tests.model.job_files import complete

from tpu_recovery.model import spec
from tpu_recovery.model.codec import to_document
from tpu_recovery.model.spec import CapacityKind, JobSpec, Placement

# fmt: off
SET_BY_THE_API = {
    "name":                 "the request's parent and node_id say it; it is a new one for every generation",
    "state":                "what the API reports",
    "health":               "what the API reports, although its description forgets to say so",
    "health_description":   "what the API reports",
    "create_time":          "what the API reports",
    "network_endpoints":    "what the API reports",
    "id":                   "what the API reports; it is a new one for every node",
    "api_version":          "which version created the node",
    "symptoms":             "what the API reports",
    "queued_resource":      "which queued resource created the node",
    "multislice_node":      "follows from the request of the queued resource",
    "upcoming_maintenance": "what the API reports",
}
"""Fields of Node that nobody can set, and why."""

OTHERWISE_SAID = {
    "scheduling_config":    "the capacity of a placement",
}
"""Fields of Node that the specification says in other words."""

NESTED: dict[Any, Any] = {
    tpu_v2alpha1.NetworkConfig:          spec.NetworkConfig,
    tpu_v2alpha1.ServiceAccount:         spec.ServiceAccount,
    tpu_v2alpha1.AttachedDisk:           spec.AttachedDisk,
    tpu_v2alpha1.AcceleratorConfig:      spec.AcceleratorConfig,
    tpu_v2alpha1.ShieldedInstanceConfig: spec.ShieldedInstanceConfig,
    tpu_v2alpha1.BootDiskConfig:         spec.BootDiskConfig,
    tpu_v2alpha1.CustomerEncryptionKey:  spec.CustomerEncryptionKey,
}
CHOICES: dict[Any, Any] = {
    tpu_v2alpha1.AttachedDisk.DiskMode:  spec.DiskMode,
    tpu_v2alpha1.AcceleratorConfig.Type: spec.AcceleratorKind,
}
SCHEDULING = {
    "spot":        CapacityKind.SPOT,
    "reserved":    CapacityKind.RESERVED,
    "preemptible": None,  # the old name of spot, with an end after 24 hours; the API recommends spot
}
# fmt: on


def fields(message: Any) -> dict[str, Any]:
    """A message's fields by the API's name (`type` is `type_` in Python)."""
    return {field.name.rstrip("_"): field for field in message.pb().DESCRIPTOR.fields}


SETTABLE = sorted(set(fields(tpu_v2alpha1.Node)) - set(SET_BY_THE_API) - set(OTHERWISE_SAID))


def test_the_fields_that_nobody_can_set_are_those_that_the_client_calls_output_only() -> None:
    text = tpu_v2alpha1.Node.__doc__ or ""
    output_only = set(re.findall(r"^ {8}(\w+) \([^)]*\):\s+Output only\.", text, re.MULTILINE))
    assert output_only | {"health"} == set(SET_BY_THE_API)


@pytest.mark.parametrize("name", SETTABLE)
def test_a_field_of_a_node_that_can_be_set_stands_in_the_specification_under_the_same_name(name: str) -> None:
    assert shape_of(get_type_hints(JobSpec)[name]) == api_shape_of(fields(tpu_v2alpha1.Node)[name])


@pytest.mark.parametrize(("message", "struct"), NESTED.items(), ids=[struct.__name__ for struct in NESTED.values()])
def test_a_message_inside_a_node_has_all_its_fields_in_the_specification(message: Any, struct: Any) -> None:
    hints = get_type_hints(struct)
    assert {name: shape_of(hint) for name, hint in hints.items() if name in struct.__struct_fields__} == {
        name: api_shape_of(field) for name, field in fields(message).items()
    }


@pytest.mark.parametrize(("theirs", "ours"), CHOICES.items(), ids=[ours.__name__ for ours in CHOICES.values()])
def test_a_choice_has_all_the_words_of_the_api(theirs: Any, ours: type[StrEnum]) -> None:
    assert {member.name for member in theirs if member.value} == set(ours)


def test_every_kind_of_capacity_of_the_api_can_be_asked_for() -> None:
    assert set(fields(tpu_v2alpha1.SchedulingConfig)) == set(SCHEDULING)
    assert {kind for kind in SCHEDULING.values() if kind} | {CapacityKind.ON_DEMAND} == set(CapacityKind)


def test_what_a_placement_changes_is_something_that_the_job_has() -> None:
    job, placement = get_type_hints(JobSpec), get_type_hints(Placement)
    for name in set(Placement.__struct_fields__) - {"zone", "capacity"}:
        assert placement[name] == job[name]


@pytest.mark.parametrize("name", SETTABLE)
def test_the_client_takes_every_field_as_the_complete_job_has_it_and_gives_back_the_same(name: str) -> None:
    document = to_document(complete(by_type_and_one_network=name in ("accelerator_type", "network_config")))
    node = tpu_v2alpha1.Node(**{name: document[name]})
    read: dict[str, Any] = tpu_v2alpha1.Node.to_dict(node, use_integers_for_enums=False)
    assert set_values(read[name]) == set_values(document[name])


def test_the_complete_examples_set_every_field_there_is() -> None:
    set_in = set(set_fields(complete())) | set(set_fields(complete(by_type_and_one_network=True)))
    never = {(struct, name) for struct in structs_of_the_specification() for name in struct.__struct_fields__} - set_in
    assert never == {(spec.Checkpoints, "format")}  # there is only one yet


def structs_of_the_specification() -> list[type[spec.Document]]:
    return [value for value in vars(spec).values() if isinstance(value, type) and issubclass(value, spec.Document)]


def set_fields(value: object) -> Iterator[tuple[type, str]]:
    """All fields of a struct and of those inside it that are not at their default."""
    if isinstance(value, tuple):
        for member in value:
            yield from set_fields(member)
    if isinstance(value, spec.Document):
        for field in msgspec.structs.fields(value):
            member = getattr(value, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if member != default:
                yield type(value), field.name
            yield from set_fields(member)


def set_values(value: Any) -> Any:
    """A value without the members that are at the API's default, under the API's names."""
    if isinstance(value, dict):
        return {name.rstrip("_"): set_values(member) for name, member in value.items() if member}
    if isinstance(value, (list, tuple)):
        return [set_values(member) for member in value]
    return value


SCALARS = {str: "string", bool: "bool", int: "int"}


def shape_of(hint: Any) -> str:
    """What a field of ours holds, in the words of ``api_shape_of``."""
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    origin = get_origin(hint)
    if origin is dict:
        return f"map of {shape_of(arguments[1])}"
    if origin is tuple:
        return f"many {shape_of(arguments[0])}"
    if arguments:  # optional
        return shape_of(arguments[0])
    if issubclass(hint, StrEnum):
        return f"choice {hint.__name__}"
    return SCALARS.get(hint) or f"message {hint.__name__}"


def api_shape_of(field: Any) -> str:
    """What a field of the API holds."""
    ours = {message.pb().DESCRIPTOR.full_name: struct.__name__ for message, struct in NESTED.items()}
    if field.message_type and field.message_type.GetOptions().map_entry:
        return f"map of {api_shape_of(field.message_type.fields_by_name['value'])}"
    if field.message_type:
        shape = f"message {ours[field.message_type.full_name]}"
    elif field.enum_type:
        choices = {theirs.__qualname__: mine.__name__ for theirs, mine in CHOICES.items()}
        name = field.enum_type.full_name.removeprefix("google.cloud.tpu.v2alpha1.")
        shape = f"choice {choices[name]}"
    else:
        shape = {field.TYPE_STRING: "string", field.TYPE_BOOL: "bool", field.TYPE_INT32: "int"}[field.type]
    return f"many {shape}" if field.is_repeated else shape
