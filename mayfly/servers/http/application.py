"""The ASGI application: resources by their paths, and the answers to failures."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route

from mayfly.mqi.errors import MQError
from mayfly.servers.http import problems
from mayfly.servers.http.clock import Clock
from mayfly.servers.http.health import live, ready
from mayfly.servers.http.problems import Unauthorized
from mayfly.servers.http.service import Service

#: The version of Mayfly's own resources. A change that clients could notice needs a new version.
VERSION = "v1"


def application(service: Service) -> Starlette:
    """Return the ASGI application of a host; it can be asked without a server, and mounted."""
    routes = [
        Mount("/health", routes=[Route("/live", live), Route("/ready", ready)]),
        Mount(f"/mayfly/{VERSION}", routes=[Route("/clock", Clock)]),
    ]
    made = Starlette(
        routes=routes,
        exception_handlers={
            MQError: problems.of_mq_error,
            Unauthorized: problems.of_unauthorized,
            HTTPException: problems.of_http_error,
            Exception: problems.of_failure,
        },
    )
    made.state.service = service
    return made
