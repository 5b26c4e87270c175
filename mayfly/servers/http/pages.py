"""Pages (static files) of this server: read and compressed once, and revalidated by ETag."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from http import HTTPStatus
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from mayfly.servers.http.problems import problem

#: Scripts and styles are files of this server, never part of a page, and no request leaves it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
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
