"""Pub/Sub on this machine, for the real google-cloud-pubsub clients."""

from tpu_recovery.local.pubsub.server import PubSubServer

__all__ = ["PubSubServer"]
