"""Entry point of the cloud function `recover`."""

import flask
import functions_framework

from tpu_recovery.service import serve


@functions_framework.http
def recover(request: flask.Request) -> tuple[str, int]:
    """Serve pushes, timers and sweeps; the path says which."""
    reply = serve(request.path, request.get_data(), request.headers.get("X-Cloud-Trace-Context", ""))
    return reply.text, reply.status
