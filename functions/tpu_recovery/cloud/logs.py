"""One JSON line per log record on standard output, with the fields that Cloud Logging understands."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar

TRACE: ContextVar[str] = ContextVar("trace", default="")
"""Full trace name of the request being served."""

_FIELDS = (
    "job", "incident", "generation", "row", "phase", "letters", "actions", "inbox", "topic", "path", "outcome", "status"
)  # fmt: skip
"""What our own records may carry beside their message. Nothing else is written, so no secret can slip in."""


class JsonFormatter(logging.Formatter):
    """See https://cloud.google.com/logging/docs/structured-logging for the field names."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        entry: dict[str, object] = {
            "severity": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
        }
        if trace := TRACE.get():
            entry["logging.googleapis.com/trace"] = trace
        entry.update({field: getattr(record, field) for field in _FIELDS if hasattr(record, field)})
        if record.exc_info:
            entry["message"] = f"{entry['message']}\n{self.formatException(record.exc_info)}"
        return json.dumps(entry, ensure_ascii=False, default=str)


def log_as_json() -> None:
    """Make our own loggers write JSON lines. Other libraries keep their handlers."""
    logger = logging.getLogger("tpu_recovery")
    if any(isinstance(handler.formatter, JsonFormatter) for handler in logger.handlers):
        return
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def trace_of(header: str, project: str) -> str:
    """The trace name in an ``X-Cloud-Trace-Context`` header; empty when there is none."""
    trace = header.split("/", 1)[0]
    return f"projects/{project}/traces/{trace}" if trace else ""
