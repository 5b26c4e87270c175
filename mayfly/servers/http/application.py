"""The ASGI application: resources by their paths, and the answers to failures."""

from __future__ import annotations

from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mayfly.mqi.errors import MQError
from mayfly.servers.http import problems
from mayfly.servers.http.clock import Clock
from mayfly.servers.http.guard import Guard
from mayfly.servers.http.health import live, ready
from mayfly.servers.http.metrics import metrics
from mayfly.servers.http.problems import Unauthorized
from mayfly.servers.http.resources import messages, queues, schedule
from mayfly.servers.http.resources.dead_letters import DeadLetters
from mayfly.servers.http.resources.schedule import Schedule
from mayfly.servers.http.rest.api import PREFIX, RestApi
from mayfly.servers.http.service import Service

#: The version of Mayfly's own resources. A change that clients could notice needs a new version.
VERSION = "v1"


def application(service: Service) -> ASGIApp:
    """Return the ASGI application of a host; each request has a ``Line`` in its state."""
    return Guard(_Site(RestApi(service), _own_resources(service)))


class _Site:
    """IBM's resources beside our own; names in IBM's paths hold slashes, which a router splits."""

    def __init__(self, rest: RestApi, own: Starlette) -> None:
        self._rest, self._own = rest, own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_rest = scope["path"].startswith(PREFIX)
        await (self._rest if is_rest else self._own)(scope, receive, send)


def _of_managers() -> list[BaseRoute]:
    """Return the resources of one queue manager each."""
    changes = [
        Route(f"/schedule/{{id}}/{action}", partial(schedule.changed, action), methods=["POST"])
        for action in schedule.ACTIONS
    ]
    return [
        Mount(
            "/qmgr/{qmgr}",
            routes=[
                Route("/messages/{id}/story", messages.story),
                Route("/queues", queues.listed),
                Route("/queues/{queue:path}", queues.shown),
                Route("/dead-letters", DeadLetters),
                Route("/schedule", Schedule),
                Route("/schedule/audit", schedule.audited),
                Route("/schedule/{id}", schedule.shown),
                *changes,
            ],
        )
    ]


def _own_resources(service: Service) -> Starlette:
    routes = [
        Mount("/health", routes=[Route("/live", live), Route("/ready", ready)]),
        Route("/metrics", metrics),
        Mount(f"/mayfly/{VERSION}", routes=[Route("/clock", Clock), *_of_managers()]),
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
