"""Google's clients: real ones always, pointed at the local stack when its environment variables are set.

Each is imported where it is first used: a cold start pays only for what its path needs.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from google.api_core import exceptions
from google.api_core.retry import Retry, if_exception_type

if TYPE_CHECKING:
    import google.cloud.pubsub_v1
    import google.cloud.storage
    from google.cloud import firestore, tasks_v2, tpu_v2alpha1

TPU_HOST = "TPU_RECOVERY_TPU_HOST"
TASKS_HOST = "TPU_RECOVERY_TASKS_HOST"

CALL_SECONDS = 10.0
"""No outside call may take longer, its retries included: an invocation has 60 s and a lease of 75 s."""

AGAIN = Retry(
    predicate=if_exception_type(exceptions.ServiceUnavailable, exceptions.InternalServerError),
    initial=0.1,
    maximum=1.0,
    timeout=CALL_SECONDS - 4,
)
"""For calls that may be made twice: a connection that broke while the process was frozen is no reason to give up.

The clients' own policies go on for up to five minutes. The last attempt begins early enough to end within CALL_SECONDS.
"""


@cache
def firestore_client(project: str, database: str) -> firestore.Client:
    """Firestore; honours FIRESTORE_EMULATOR_HOST by itself."""
    from google.cloud import firestore

    return firestore.Client(project=project, database=database)


@cache
def tpu_client() -> tpu_v2alpha1.TpuClient:
    """Cloud TPU, v2alpha1: autocheckpoint and maintenance exist only there."""
    from google.cloud import tpu_v2alpha1

    host = os.environ.get(TPU_HOST)
    if not host:
        return tpu_v2alpha1.TpuClient()
    import grpc
    from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcTransport

    return tpu_v2alpha1.TpuClient(transport=TpuGrpcTransport(channel=grpc.insecure_channel(host)))


@cache
def tasks_client() -> tasks_v2.CloudTasksClient:
    """Cloud Tasks."""
    from google.cloud import tasks_v2

    host = os.environ.get(TASKS_HOST)
    if not host:
        return tasks_v2.CloudTasksClient()
    import grpc
    from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

    return tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=grpc.insecure_channel(host)))


@cache
def storage_client(project: str) -> google.cloud.storage.Client:
    """Cloud Storage; with STORAGE_EMULATOR_HOST it needs no credentials."""
    # Otherwise the client reads each bucket's metadata beside our calls, in a thread, for traces that nobody takes:
    # one more permission, and a refusal in the audit log of every bucket that does not grant it.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    import google.cloud.storage

    if os.environ.get("STORAGE_EMULATOR_HOST"):
        from google.auth.credentials import AnonymousCredentials

        return google.cloud.storage.Client(project=project, credentials=AnonymousCredentials())
    return google.cloud.storage.Client(project=project)


@cache
def publisher_client() -> google.cloud.pubsub_v1.PublisherClient:
    """Pub/Sub, to publish notices; honours PUBSUB_EMULATOR_HOST by itself."""
    import google.cloud.pubsub_v1

    return google.cloud.pubsub_v1.PublisherClient()


def forget() -> None:
    """Make every client anew when it is next asked for: the environment says something else now."""
    for client in (firestore_client, tpu_client, tasks_client, storage_client, publisher_client):
        client.cache_clear()
