"""What a request must look like before the platform takes it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from . import refusals
from .accelerators import type_of_config

UPDATABLE = ("description", "tags", "labels", "metadata", "network_config.enable_external_ips")
"""The paths an UpdateNode mask may name (docstring of UpdateNodeRequest)."""

_NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")  # Compute Engine: less than 128 bytes
_METADATA_VALUE_BYTES = 262_144
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")  # the platform also takes letters of other alphabets
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_DESCRIPTION_CHARACTERS = 512

_PARENT = re.compile(r"projects/([^/]+)/locations/([^/]+)")
_NODE = re.compile(r"projects/([^/]+)/locations/([^/]+)/nodes/([^/]+)")


def split_parent(parent: str) -> tuple[str, str]:
    """Project and zone of ``projects/P/locations/Z``; raises Refused."""
    match = _PARENT.fullmatch(parent)
    if match is None:
        raise refusals.invalid(f'The "parent" value "{parent}" must be projects/PROJECT/locations/ZONE.')
    return match[1], match[2]


def split_node(name: str) -> tuple[str, str, str]:
    """Project, zone and node id of ``projects/P/locations/Z/nodes/N``; raises Refused."""
    match = _NODE.fullmatch(name)
    if match is None:
        raise refusals.invalid(f'The "name" value "{name}" must be projects/PROJECT/locations/ZONE/nodes/NODE.')
    return match[1], match[2], match[3]


def is_node_name(name: str) -> bool:
    """Whether this has the form of a node's full name."""
    return _NODE.fullmatch(name) is not None


def check_zone(zone: str, offers: Mapping[str, frozenset[str]]) -> None:
    """Refuse a zone that does not exist."""
    if zone not in offers:
        raise refusals.unknown_location(zone)


def check_request_id(request_id: str) -> None:
    """Refuse a request id that is no UUID (docstring of CreateNodeRequest). None at all is allowed."""
    if not request_id:
        return
    try:
        uuid.UUID(request_id)
    except ValueError as error:
        raise refusals.invalid(f'The "request_id" value "{request_id}" is not a UUID.') from error


def accelerator_type_of(node: Any) -> str:
    """The accelerator type that the node asks for, in either form."""
    config = node.accelerator_config
    return node.accelerator_type or type_of_config(config.type_, config.topology)


def check_new_node(node_id: str, node: Any, zone: str, offers: Mapping[str, frozenset[str]]) -> None:
    """Refuse a node (protobuf message) that CreateNode would not accept in this zone."""
    check_zone(zone, offers)
    for acceptable, complaint in _requirements(node_id, node):
        if not acceptable:
            raise refusals.invalid(complaint)
    check_changeable_fields(node)
    accelerator = accelerator_type_of(node)
    if accelerator not in offers[zone]:
        raise refusals.not_offered(accelerator, zone)


def _requirements(node_id: str, node: Any) -> Iterable[tuple[bool, str]]:
    scheduling = node.scheduling_config
    return (
        (
            bool(_NODE_ID.fullmatch(node_id)),
            f'The "node_id" value "{node_id}" must match {_NODE_ID.pattern} (at most 63 characters).',
        ),
        (bool(node.runtime_version), 'The "runtime_version" value "" is required.'),
        (
            bool(node.accelerator_type) != node.HasField("accelerator_config"),
            'Exactly one of "accelerator_type" and "accelerator_config" must be specified.',
        ),
        (
            not (scheduling.reserved and (scheduling.spot or scheduling.preemptible)),
            'The "scheduling_config" value must not be both reserved and spot or preemptible.',
        ),
        (
            not (node.HasField("network_config") and node.network_configs),
            '"network_config" and "network_configs" are mutually exclusive.',
        ),
    )


def check_changeable_fields(node: Any) -> None:
    """Refuse a description, label or metadata entry (of a protobuf Node) outside of the platform's limits."""
    if len(node.description) > _DESCRIPTION_CHARACTERS:
        raise refusals.invalid(f'The "description" value is longer than {_DESCRIPTION_CHARACTERS} characters.')
    for key, value in node.labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            raise refusals.invalid(f'The "labels" entry "{key}": "{value}" must match {_LABEL_KEY.pattern}.')
    for key, value in node.metadata.items():
        if not _METADATA_KEY.fullmatch(key):
            raise refusals.invalid(f'The "metadata" key "{key}" must match {_METADATA_KEY.pattern}.')
        if len(value.encode()) > _METADATA_VALUE_BYTES:
            raise refusals.invalid(f'The "metadata" value of "{key}" is larger than {_METADATA_VALUE_BYTES} bytes.')


def check_mask(paths: Iterable[str]) -> None:
    """Refuse an update mask that is empty or names a path which cannot be updated."""
    paths = list(paths)
    if not paths:
        raise refusals.invalid('The "update_mask" value "" is required.')
    for path in paths:
        if path not in UPDATABLE:
            raise refusals.invalid(f'The "update_mask" path "{path}" is not one of {", ".join(UPDATABLE)}.')
