"""Cloud Tasks on this machine, for the real google-cloud-tasks client."""

from tpu_recovery.local.tasks.server import TasksServer

__all__ = ["TasksServer"]
