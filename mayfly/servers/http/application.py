"""The ASGI application of HTTP: it sends each request to its resource, and adds usual headers.

Static pages are read and compressed once, and revalidated by ETag.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cached_property, lru_cache
from hashlib import blake2b
from http import HTTPStatus
from importlib import resources
from importlib.resources.abc import Traversable
from ipaddress import ip_address
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    figures,
    fleet,
    health,
    kinds,
    ledger,
    messages,
    metrics,
    mqsc,
    queue_messages,
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
from mayfly.servers.http.standby_page import standby_page

#: Scripts and styles are files of this server, never part of a page, and no request leaves it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_POLICY_BYTES: Final = POLICY.encode()
_PAGE: Final = "index.html"
_METHODS: Final = ("GET", "HEAD")
_ALLOW: Final = {"Allow": ", ".join(_METHODS)}
_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
#: A browser asks each time whether it has the newest version: 304 without a body when it has.
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


class File(NamedTuple):
    """A static file, plain and compressed by gzip; both have the same weak ETag."""

    plain: bytes
    compressed: bytes
    media_type: str
    etag: str


class Pages:
    """The ASGI application that serves the files of a folder below a path.

    The path itself answers with ``index.html``. Files are read at the first request.
    """

    def __init__(self, path: str, folder: Traversable) -> None:
        """Serve the files of ``folder`` below ``path``, which ends in ``/``; read nothing yet."""
        self.path, self._folder = path, folder

    @cached_property
    def files(self) -> Mapping[str, File]:
        """The files of the folder, by their paths relative to ``path``; read at the first use."""
        return dict(_read(self._folder, ""))

    def is_asked(self, path: str) -> bool:
        """Return True for a path below this page, and for the page without its last slash."""
        return path == self.path.rstrip("/") or path.startswith(self.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with a file.

        304 if the client has the file, 404 if it does not exist, 405 for a method but GET and HEAD.
        The path without its last slash redirects to the page.
        """
        path, request = scope["path"], Headers(scope=scope)
        if scope["method"] not in _METHODS:
            text = f"{scope['method']} is none of {', '.join(_METHODS)}"
            made: Response = problem(HTTPStatus.METHOD_NOT_ALLOWED, text, headers=_ALLOW)
        elif not path.startswith(self.path):
            # A path alone keeps the name by which the client knows this server.
            made = RedirectResponse(self.path, HTTPStatus.SEE_OTHER)
        elif found := self.files.get(path.removeprefix(self.path) or _PAGE):
            made = _response(found, request)
        else:
            made = problem(HTTPStatus.NOT_FOUND, f"nothing is at {path}")
        await made(scope, receive, send)


def _read(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    """Return all files of a folder and its subfolders, with their paths below ``prefix``."""
    found: list[tuple[str, File]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{prefix}{each.name}/")
            continue
        plain = each.read_bytes()
        etag = f'W/"{blake2b(plain, digest_size=12).hexdigest()}"'
        media_type = _MEDIA_TYPES[each.name.rpartition(".")[2]]
        compressed = gzip.compress(plain, mtime=0)
        found.append((prefix + each.name, File(plain, compressed, media_type, etag)))
    return found


def _response(found: File, request: Headers) -> Response:
    """Return a file as an answer; 304 without body if the client's ETag is that of the file.

    The body is compressed if the client accepts gzip.
    """
    headers = {**_HEADERS, "ETag": found.etag}
    known = request.get("if-none-match", "").split(",")
    if found.etag in (each.strip() for each in known):
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    body = found.plain
    if _takes_gzip(request.get("accept-encoding", "")):
        body, headers["Content-Encoding"] = found.compressed, "gzip"
    # The type is a header here: Response would add the character set a second time.
    headers["Content-Type"] = found.media_type
    return Response(body, HTTPStatus.OK, headers)


def _takes_gzip(accepted: str) -> bool:
    """Return True if an Accept-Encoding header accepts gzip, with a quality above 0."""
    for each in accepted.lower().split(","):
        name, _, quality = each.replace(" ", "").partition(";q=")
        if name == "gzip":
            return quality.rstrip("0.") != "" if quality else True
    return False


#: The operations of all resources; a new resource is a module, and a line here.
OPERATIONS: Final[tuple[Operation, ...]] = (
    *health.OPERATIONS,
    *metrics.OPERATIONS,
    *clock.OPERATIONS,
    *queues.OPERATIONS,
    *queue_messages.OPERATIONS,
    *schedule.OPERATIONS,
    *dead_letters.OPERATIONS,
    *kinds.OPERATIONS,
    *definitions.OPERATIONS,
    *mqsc.OPERATIONS,
    *users.OPERATIONS,
    *authority.OPERATIONS,
    *messages.OPERATIONS,
    *events.OPERATIONS,
    *timeline.OPERATIONS,
    *figures.OPERATIONS,
    *fleet.OPERATIONS,
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
        self._fleet, self._managers = service.fleet, service.managers
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
                headers = [
                    (name, self._policy() if value == _POLICY_BYTES else value)
                    for name, value in headers
                ]
                if is_script:
                    headers = [each for each in headers if each[0].lower() != b"www-authenticate"]
                message["headers"] = headers
            await send(message)

        await self._shared(scope)(scope, receive, send_guarded)

    def _shared(self, scope: Scope) -> ASGIApp:
        """Return the application for a request; a page of the fleet's other servers may read.

        It may read with the login that its user has at this server, and change nothing: a browser
        sends the cookie, and no other site can read an answer.
        """
        origin = Headers(scope=scope).get("origin", "")
        if origin not in self._fleet.values():
            return self._of(scope)
        return CORSMiddleware(
            self._of(scope), allow_origins=[origin], allow_methods=("GET",), allow_credentials=True
        )

    def _policy(self) -> bytes:
        """Return the policy of the pages, which may ask the servers of the fleet as well."""
        origins = " ".join(self._fleet.values())
        return POLICY.replace(
            "connect-src 'self'", f"connect-src 'self' {origins}".rstrip()
        ).encode()

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
        if path == "/" or CONSOLE.is_asked(path):
            wants_page = "text/html" in Headers(scope=scope).get("accept", "")
            if wants_page and not self._managers:
                return standby_page(self._managers, scope["scheme"])
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
