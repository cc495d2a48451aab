"""The Pub/Sub server: the broker behind gRPC and, for publishing only, REST."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from tpu_recovery.local import rpc
from tpu_recovery.local.deliver import Poster
from tpu_recovery.local.pubsub.broker import Broker
from tpu_recovery.local.pubsub.rest import RestServer
from tpu_recovery.local.schedule import Clock, Schedule
from tpu_recovery.local.served import handlers

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"


class PubSubServer:
    """Pub/Sub on loopback: ``PUBSUB_EMULATOR_HOST=127.0.0.1:{port}``, and ``http://127.0.0.1:{rest_port}`` for REST.

    Everything is in memory. Not served, and refused as UNIMPLEMENTED: streaming pull, updates, snapshots and seek,
    schemas, filters, ordering keys, exactly-once, exports, transforms. Subscriptions never expire.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self.port = 0
        self.rest_port = 0
        self._poster = Poster()
        self._schedule = Schedule(clock, name="pubsub")
        self._broker = Broker(clock=clock, schedule=self._schedule, post=self._poster)
        self._grpc: grpc.Server | None = None
        self._rest: RestServer | None = None

    def start(self, port: int = 0, rest_port: int = 0) -> None:
        """Serve; port 0 takes a free one. The ports are then in ``port`` and ``rest_port``."""
        transports = "google.pubsub_v1.services"
        publisher = rpc.calls_of(f"{transports}.publisher.transports.grpc", "PublisherGrpcTransport", PUBLISHER)
        subscriber = rpc.calls_of(f"{transports}.subscriber.transports.grpc", "SubscriberGrpcTransport", SUBSCRIBER)
        services = {
            PUBLISHER: handlers(publisher, self._broker.publisher_calls()),
            SUBSCRIBER: handlers(subscriber, self._broker.subscriber_calls())
            | {"StreamingPull": grpc.stream_stream_rpc_method_handler(_refuse_streaming)},
        }
        self._schedule.start()
        self._grpc, self.port = rpc.serve(services, port=port)
        self._rest = RestServer(rest_port, self._broker.publish)
        self.rest_port = self._rest.server_address[1]
        threading.Thread(target=self._rest.serve_forever, args=(0.05,), name="pubsub-rest", daemon=True).start()

    def stop(self) -> None:
        """Stop serving and delivering. A push that is under way is not waited for."""
        if self._grpc:
            self._grpc.stop(None).wait()
        if self._rest:
            self._rest.shutdown()
            self._rest.server_close()
        self._schedule.stop()
        self._poster.close()

    def tick(self) -> None:
        """Notice at once that the clock was moved."""
        self._schedule.tick()

    def wait_idle(self, timeout: float, *, within: float = 0.0) -> bool:
        """Wait until no push is under way or due; False when that took more than ``timeout`` real seconds.

        With ``within``, redeliveries due in the next so many seconds are waited for as well; ``math.inf`` waits until
        every pushed message is acknowledged or dead-lettered and every lease of a pulled one has ended.
        """
        return self._schedule.wait_idle(timeout, within=within)

    def duplicate(self, subscription: str, copies: int) -> None:
        """From now on deliver every message of a subscription (full name) ``copies`` more times than once."""
        self._broker.subscription(subscription).extra_copies = copies


def _refuse_streaming(_requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "the local stack does not serve StreamingPull: use Pull or push")
    yield  # never reached: it makes this a generator, which is what gRPC iterates over
