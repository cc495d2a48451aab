"""A local Cloud TPU API with a clock that tests set, and a real client of it."""

from typing import Any

import grpc
from google.cloud import tpu_v2alpha1
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcTransport
from google.protobuf.field_mask_pb2 import FieldMask

from tpu_recovery.local.tpu import Machines, TpuServer, TpuSettings

ZONE = "us-east5-b"
PARENT = f"projects/demo/locations/{ZONE}"
NODE = f"{PARENT}/nodes/train-g1"


class Clock:
    """A clock that stands still until it is set forward."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Api:
    """A server, its clock and a real client of it."""

    def __init__(self, machines: Machines | None = None, **settings: Any) -> None:
        self.clock = Clock()
        self.entries: list[dict[str, Any]] = []
        durations = {"create_seconds": 10, "delete_seconds": 5, "update_seconds": 1, "preemption_grace": 30}
        self.server = TpuServer(self.clock, self.entries.append, machines, TpuSettings(**durations | settings))
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.start()}")
        self.client = tpu_v2alpha1.TpuClient(transport=TpuGrpcTransport(channel=self.channel))

    def close(self) -> None:
        self.channel.close()
        self.server.stop()

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.server.tick()

    def create(self, node_id: str = "train-g1", request_id: str = "", **fields: Any) -> Any:
        wanted: dict[str, Any] = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"} | fields
        return self.client.create_node(
            request={"parent": PARENT, "node_id": node_id, "node": wanted, "request_id": request_id}
        )

    def create_ready(self, **fields: Any) -> None:
        self.create(**fields)
        self.wait(10)

    def update(self, node: dict[str, Any], *paths: str) -> Any:
        node = {"name": NODE} | node
        return self.client.update_node(node=tpu_v2alpha1.Node(node), update_mask=FieldMask(paths=paths))

    def get(self) -> Any:
        return self.client.get_node(name=NODE)

    def operation(self, name: str) -> Any:
        return self.client.get_operation({"name": name})
