"""The ASGI application of HTTP: it sends each request to its resource, and adds usual headers."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from importlib import resources
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mayfly.servers.http.pages import Pages
from mayfly.servers.http.problems import problem
from mayfly.servers.http.resources import (
    authority,
    channels,
    claims,
    clock,
    connections,
    dead_letters,
    definitions,
    events,
    experiments,
    health,
    ledger,
    messages,
    metrics,
    queues,
    schedule,
    timeline,
    users,
)
from mayfly.servers.http.resources.openapi import ApiDescription
from mayfly.servers.http.resources.operations import OWN, Operation
from mayfly.servers.http.resources.routing import OwnResources
from mayfly.servers.http.rest.api import PREFIX, RestApi
from mayfly.servers.http.service import Service

#: The operations of all resources; a new resource is a module, and a line here.
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
#: The page for operators.
CONSOLE: Final = Pages("/console/", resources.files("mayfly.servers.console") / "page")
#: The page of operations: people read the description, and send requests.
DOCS: Final = Pages(f"{OWN}/docs/", resources.files("mayfly.servers.http") / "docs_page")
_PAGES: Final = (CONSOLE, DOCS)
#: Headers of answers that do not have them.
_USUAL: Final = (
    # A page sets another policy, which never allows inline scripts.
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    # A cache on the way would answer for a server that is gone, or another user.
    (b"cache-control", b"no-store"),
)
#: A browser says so of requests by scripts, and no script can change it.
_FETCHED: Final = (b"sec-fetch-dest", b"empty")


class Application:
    """The ASGI application of a server: it picks the resource by the path of a request.

    The server puts the client's connection (``HttpConnection``) into the state of each request. The
    application adds security and cache headers to answers that lack them. Set ``is_loopback`` for a
    server on the loopback interface without TLS: a request whose Host header names another site
    then gets status 421. So no web page can reach this server under its own host name (DNS
    rebinding).
    """

    def __init__(self, service: Service, *, is_loopback: bool = False) -> None:
        """Make the REST API and the JSON resources of ``service``; open no socket.

        With ``is_loopback`` requests for the host name of another site are refused.
        """
        self._is_loopback = is_loopback
        self._rest = RestApi(service)
        self._own = OwnResources(service, ApiDescription(OPERATIONS).operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; add security and cache headers that the answer lacks.

        An answer to a script of a page has no WWW-Authenticate: a browser would ask for a password.
        """
        # At a challenge to a script of a page, a browser would ask for a password by itself.
        is_script = _FETCHED in scope["headers"]

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                given = {name for name, _value in headers}
                headers += [each for each in _USUAL if each[0] not in given]
                if is_script:
                    headers = [each for each in headers if each[0].lower() != b"www-authenticate"]
                message["headers"] = headers
            await send(message)

        await self._of(scope)(scope, receive, send_guarded)

    def _of(self, scope: Scope) -> ASGIApp:
        """Return the ASGI application for a request: REST API, page, redirect or JSON resources.

        For another site's name in Host, on the loopback interface, it is an answer with status 421.
        """
        if self._is_loopback:
            for name, value in scope["headers"]:
                if name == b"host" and not is_of_this_machine(value):
                    text = "on the loopback interface the server answers to localhost and to "
                    text += "addresses alone: the header Host names another site"
                    return problem(HTTPStatus.MISDIRECTED_REQUEST, text)
        path: str = scope["path"]
        if path.startswith(PREFIX):
            return self._rest
        if page := next((page for page in _PAGES if page.is_asked(path)), None):
            return page
        if path == "/" and "text/html" in Headers(scope=scope).get("accept", ""):
            return RedirectResponse(CONSOLE.path, HTTPStatus.SEE_OTHER)
        return self._own


@lru_cache(maxsize=64)
def is_of_this_machine(host: bytes) -> bool:
    """Return True if a Host header names an IP address, ``localhost`` or a name without a dot.

    Another web site cannot have such a name. A port in the header is ignored.
    """
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        name, bracket, port = name[1:].partition("]")
        return bool(bracket) and _is_address(name) and (not port or port.startswith(":"))
    name = name.partition(":")[0].removesuffix(".")
    return "." not in name or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    """Return True if a text is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
