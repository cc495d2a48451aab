"""The calls that only look. The caller holds the lock of the nodes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from google.cloud.tpu_v2alpha1.types import GetGuestAttributesResponse, ListNodesResponse

from . import refusals, rules
from .nodes import Nodes, Record, copy_of

ANY_ZONE = "-"


def get_node(nodes: Nodes, request: Any) -> Any:
    """GetNode."""
    return copy_of(nodes.record(request.name))


def get_operation(nodes: Nodes, request: Any) -> Any:
    """Operations.GetOperation."""
    if request.name not in nodes.operations:
        raise refusals.not_found(request.name)
    return nodes.operations[request.name].message()


def list_nodes(nodes: Nodes, request: Any) -> Any:
    """ListNodes of one zone, or of all with ``locations/-``; a page holds the nodes whose names follow the token."""
    check_parent(nodes, request.parent)
    prefix = request.parent.removesuffix(ANY_ZONE) if request.parent.endswith("/-") else f"{request.parent}/"
    after = _read_token(request.page_token)
    names = sorted(name for name in nodes.records if name.startswith(prefix) and name > after)
    size = request.page_size or nodes.settings.default_page_size
    response = ListNodesResponse.pb()()
    for name in names[:size]:
        response.nodes.add().CopyFrom(nodes.records[name].message)
    if len(names) > size:
        response.next_page_token = base64.urlsafe_b64encode(names[size - 1].encode()).decode()
    return response


def check_parent(nodes: Nodes, parent: str) -> None:
    """Refuse to list what is not ``projects/P/locations/Z``, or a zone that does not exist."""
    _, zone = rules.split_parent(parent)
    if zone != ANY_ZONE:
        rules.check_zone(zone, nodes.settings.offers)


def _read_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise refusals.invalid(f'The "page_token" value "{token}" is not one that a list call gave out.') from error


def get_guest_attributes(nodes: Nodes, request: Any) -> Any:
    """GetGuestAttributes: one entry for each worker asked for, in that order, of what is set under the query path."""
    record = nodes.record(request.name)
    response = GetGuestAttributesResponse.pb()()
    for worker in _workers_asked_for(record, request):
        entry = response.guest_attributes.add(query_path=request.query_path)
        matching = _matching(record.guest_attributes[worker], request.query_path)
        if not matching and nodes.settings.guest_attributes_need_every_worker:
            raise refusals.no_guest_attribute(request.query_path)
        for (namespace, key), value in sorted(matching.items()):
            entry.query_value.items.add(namespace=namespace, key=key, value=value)
    if not any(entry.query_value.items for entry in response.guest_attributes):
        raise refusals.no_guest_attribute(request.query_path)
    return response


def _workers_asked_for(record: Record, request: Any) -> list[int]:
    known = [str(worker) for worker in range(len(record.hostnames))]
    unknown = [worker for worker in request.worker_ids if worker not in known]
    if unknown:
        raise refusals.invalid(f'The "worker_ids" value "{unknown[0]}" is not one of {", ".join(known)}.')
    return [int(worker) for worker in request.worker_ids or known]


def _matching(attributes: dict[tuple[str, str], str], query_path: str) -> dict[tuple[str, str], str]:
    """All attributes for an empty path, those of one namespace for ``namespace/``, one for ``namespace/key``."""
    namespace, _, key = query_path.strip("/").partition("/")
    return {at: value for at, value in attributes.items() if namespace in {"", at[0]} and key in {"", at[1]}}
