"""The resources below ``/ibmmq/rest``: which handler a path has, and how failures are told.

A path is read as it was sent: names of queues and topics hold ``/`` as ``%2F``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from mayfly.mqi.errors import MQError
from mayfly.servers.http.line import line_of
from mayfly.servers.http.problems import Unauthorized
from mayfly.servers.http.rest import administration, errors, login, messaging
from mayfly.servers.http.rest.answers import Answer
from mayfly.servers.http.rest.calls import Call
from mayfly.servers.http.rest.errors import RestError
from mayfly.servers.http.service import CSRF_HEADER, SAFE_METHODS, Service
from mayfly.servers.http.waits import ClientGone

PREFIX: Final = "/ibmmq/rest/"
Handler: TypeAlias = Callable[[Call], Awaitable[Answer]]
_VERSIONS: Final = {b"v1": 1, b"v2": 2, b"v3": 3}
#: In a pattern: one segment, and one or more.
_ONE, _MANY = "{}", "{...}"


class _Resource(NamedTuple):
    """The handlers of a path by method; those of ``open_to_all`` need no header against CSRF."""

    pattern: tuple[str, ...]
    handlers: Mapping[str, Handler]
    since: int = 1
    open_to_all: frozenset[str] = frozenset()


_QUEUE: Final = ("messaging", "qmgr", _ONE, "queue", _ONE)
_RESOURCES: Final = (
    _Resource(
        (*_QUEUE, "message"),
        {"POST": messaging.put, "GET": messaging.browse, "DELETE": messaging.take},
    ),
    _Resource((*_QUEUE, "messagelist"), {"GET": messaging.list_messages}),
    _Resource(
        ("messaging", "qmgr", _ONE, "topic", _MANY, "message"), {"POST": messaging.publish}, since=2
    ),
    _Resource(("admin", "action", "qmgr", _ONE, "mqsc"), {"POST": administration.run_command}),
    _Resource(("admin", "qmgr"), {"GET": administration.list_managers}),
    _Resource(("admin", "qmgr", _ONE), {"GET": administration.show_manager}),
    _Resource(
        ("login",),
        {"POST": login.log_in, "GET": login.show, "DELETE": login.log_out},
        # A login without the password fails, so a forged one does no harm.
        open_to_all=frozenset({"POST"}),
    ),
)


class RestApi:
    """The ASGI application of these resources."""

    def __init__(self, service: Service) -> None:
        """Take the parts of a host."""
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        line = line_of(request)
        try:
            try:
                with line:
                    answer = await self._answered(request)
            except RestError as error:
                answer = error.answer()
            except MQError as error:
                answer = errors.of_mq_error(error, "").answer()
            except Unauthorized as error:
                answer = errors.of_unauthorized(error).answer()
            except HTTPException as error:
                answer = errors.of_http_error(error).answer()
            except (ClientGone, ClientDisconnect):
                return
            except Exception:
                said = "the log of the server says what happened"
                failed = RestError(HTTPStatus.INTERNAL_SERVER_ERROR, errors.UNEXPECTED, said)
                await failed.answer().send(send)
                raise
            await answer.send(send)
        finally:
            line.answer.note(0)

    async def _answered(self, request: Request) -> Answer:
        found = _at(request.scope["raw_path"])
        if found is None:
            said = f"nothing is at {request.url.path}"
            raise RestError(HTTPStatus.NOT_FOUND, errors.FAILED, said)
        version, resource, names = found
        method = request.method
        handler = resource.handlers.get(method)
        if handler is None:
            raise _wrong_method(method, resource.handlers)
        is_checked = method not in SAFE_METHODS and method not in resource.open_to_all
        if is_checked and CSRF_HEADER not in request.headers:
            said = f"the header {CSRF_HEADER} is missing"
            raise RestError(HTTPStatus.FORBIDDEN, errors.NO_CSRF_HEADER, said)
        return await handler(Call(self._service, request, version, names))


# A client asks for few paths again and again. A path has 16 kB at most.
@lru_cache(maxsize=256)
def _at(raw_path: bytes) -> tuple[int, _Resource, tuple[str, ...]] | None:
    """Return version and resource of a path, and the parts that its pattern leaves open."""
    version, segments = _segments(raw_path)
    for resource in _RESOURCES:
        names = _names(resource.pattern, segments)
        if names is not None and version >= resource.since:
            return version, resource, names
    return None


def _segments(raw_path: bytes) -> tuple[int, list[str]]:
    """Return version and segments of a path; raises RestError for an escape that is no UTF-8."""
    version, *rest = raw_path[len(PREFIX) :].split(b"/")
    try:
        return _VERSIONS.get(version, 0), [
            (unquote_to_bytes(part) if b"%" in part else part).decode() for part in rest
        ]
    except UnicodeDecodeError:
        said = f"the path {raw_path.decode('ascii')!r} is no UTF-8"
        raise RestError(HTTPStatus.BAD_REQUEST, errors.WRONG_VALUE, said) from None


def _names(pattern: tuple[str, ...], segments: list[str]) -> tuple[str, ...] | None:
    """Return the parts of a path that a pattern leaves open, None for another path."""
    if _MANY in pattern and len(segments) > len(pattern):
        start = pattern.index(_MANY)
        end = start + 1 + len(segments) - len(pattern)
        segments = [*segments[:start], "/".join(segments[start:end]), *segments[end:]]
    if len(segments) != len(pattern):
        return None
    names = []
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted in (_ONE, _MANY):
            names.append(segment)
        elif wanted != segment:
            return None
    return tuple(names)


def _wrong_method(method: str, handlers: Mapping[str, Handler]) -> RestError:
    allowed = ", ".join(handlers)
    said = f"{method} is none of {allowed}"
    error = RestError(HTTPStatus.METHOD_NOT_ALLOWED, errors.FAILED, said)
    error.headers["Allow"] = allowed
    return error
