"""The ASGI application: IBM's resources, the console, and all operations of our own."""

from __future__ import annotations

from http import HTTPStatus
from importlib import resources
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mayfly.servers.console.serving import CONSOLE
from mayfly.servers.http import clock, health, metrics
from mayfly.servers.http.guard import Guard
from mayfly.servers.http.pages import Pages
from mayfly.servers.http.resources import (
    authority,
    channels,
    claims,
    connections,
    dead_letters,
    definitions,
    events,
    experiments,
    ledger,
    messages,
    queues,
    schedule,
    timeline,
    users,
)
from mayfly.servers.http.resources.openapi import Description
from mayfly.servers.http.resources.operations import OWN, Operation
from mayfly.servers.http.resources.routing import OwnResources
from mayfly.servers.http.rest.api import PREFIX, RestApi
from mayfly.servers.http.service import Service

#: A new resource is a module with operations, and stands here.
OPERATIONS: Final[tuple[Operation, ...]] = (
    *health.OPERATIONS,
    *metrics.OPERATIONS,
    *clock.OPERATIONS,
    *queues.OPERATIONS,
    *schedule.OPERATIONS,
    *dead_letters.OPERATIONS,
    *definitions.OPERATIONS,
    *users.OPERATIONS,
    *authority.OPERATIONS,
    *messages.OPERATIONS,
    *events.OPERATIONS,
    *timeline.OPERATIONS,
    *experiments.OPERATIONS,
    *ledger.OPERATIONS,
    *channels.OPERATIONS,
    *claims.OPERATIONS,
    *connections.OPERATIONS,
)


def application(service: Service, *, is_loopback: bool = False) -> ASGIApp:
    """Return the ASGI application of a host; each request has a ``Line`` in its state.

    One that listens without TLS on the loopback interface answers to names of its machine alone.
    """
    own = OwnResources(service, Description(OPERATIONS).operations)
    return Guard(_Site(RestApi(service), own), is_loopback=is_loopback)


#: Operations for people: they read the description, and send requests.
DOCS: Final = Pages(f"{OWN}/docs/", resources.files("mayfly.servers.http") / "docs_page")
_PAGES: Final = (CONSOLE, DOCS)


class _Site:
    """IBM's resources and pages beside our own."""

    def __init__(self, rest: RestApi, own: OwnResources) -> None:
        self._rest, self._own = rest, own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith(PREFIX):
            await self._rest(scope, receive, send)
        elif page := next((page for page in _PAGES if page.is_asked(path)), None):
            await page(scope, receive, send)
        elif path == "/" and "text/html" in Headers(scope=scope).get("accept", ""):
            await RedirectResponse(CONSOLE.path, HTTPStatus.SEE_OTHER)(scope, receive, send)
        else:
            await self._own(scope, receive, send)
