"""IBM's REST API below ``/ibmmq/rest``: the table of its operations, found by path and method.

Paths are decoded segment by segment, since names of queues and topics contain ``/`` as ``%2F``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from mayfly.mqi.errors import MQError
from mayfly.servers.http.connection import http_connection_of
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.http.rest import administration, login, messaging
from mayfly.servers.http.rest.calls import (
    FAILED,
    NO_CSRF_HEADER,
    UNEXPECTED,
    WRONG_VALUE,
    RestAnswer,
    RestCall,
    RestError,
    of_mq_error,
    of_unauthorized,
    of_wrong_request,
)
from mayfly.servers.http.rest.messaging import (
    CORRELATION_ID,
    DELIVERY_DELAY,
    EXPIRY,
    PERSISTENCE,
    PRIORITY,
    REPLY_TO,
    REPORT,
    TEXT_TYPES,
    USR,
)
from mayfly.servers.http.service import CSRF_HEADER, SAFE_METHODS, Service
from mayfly.servers.http.waits import ClientGone

PREFIX: Final = "/ibmmq/rest/"
Handler: TypeAlias = Callable[[RestCall], Awaitable[RestAnswer]]
_VERSIONS: Final = {b"v1": 1, b"v2": 2, b"v3": 3}
#: The part of a path that may be more than one segment.
_TOPIC: Final = "{topic}"
_TEXT: Final = {"type": "string"}
#: The parts of paths in braces, and query parameters.
NAMES: Final = {
    "qmgr": "a queue manager of this server",
    "queue": "a queue; `/` is written `%2F`",
    "topic": "a topic string; its `/` need not be escaped",
}
QUERY: Final = {
    "messageId": "the MsgId that a message must have",
    "correlationId": "the CorrelId that it must have",
    "wait": "ms to wait for a message",
    "limit": "the most messages to list",
}
_PUT_HEADERS: Final = {
    EXPIRY: "life in milliseconds, or `unlimited`",
    PERSISTENCE: "`persistent`, `nonPersistent` or `asDestination`",
    PRIORITY: "0 to 9, or `asDestination`",
    CORRELATION_ID: "`ID:` and 48 hexadecimal digits, or a text",
    REPLY_TO: "`QUEUE` or `QUEUE@QMGR`",
    USR: "properties: `name;value;type` with commas between",
    DELIVERY_DELAY: "ms for which nobody can get the message",
    REPORT: "reports to ask for, as `expiration, cod`; `ibm-mq-md-replyTo` says where they go",
}
_COMMAND: Final = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["runCommand", "runCommandJSON"]},
        "command": {"type": "string"},
        "qualifier": {"type": "string"},
        "name": {"type": "string"},
        "parameters": {"type": "object"},
        "responseParameters": {"type": "array", "items": {"type": "string"}},
    },
}
_LOGIN: Final = {
    "type": "object",
    "required": ["username", "password"],
    "properties": {"username": _TEXT, "password": {"type": "string", "format": "password"}},
}
_JSON, _PLAIN = "application/json", "text/plain"


#: The part of a path that resources of messages have.
_MESSAGING: Final = b"/messaging/"


class RestOperation(NamedTuple):
    """One operation of IBM's REST API: a method of a path, which is written as in OpenAPI.

    ``answers`` maps each success status to the media type of its body, "" for no body. ``query``,
    ``headers`` and ``body`` describe the request: names of query parameters, headers with their
    descriptions, and the body's content as in OpenAPI. ``since`` is the API version that introduced
    the path.
    """

    method: str
    path: str
    handler: Handler
    answers: Mapping[int, str]
    query: Sequence[str] = ()
    headers: Mapping[str, str] = {}
    body: Mapping[str, Any] = {}
    since: int = 1
    #: Whether it needs no header against CSRF.
    is_open: bool = False


_QUEUE: Final = "messaging/qmgr/{qmgr}/queue/{queue}"
_MESSAGE_IDS: Final = ("messageId", "correlationId")
_TEXT_BODY: Final = {media_type: {"schema": _TEXT} for media_type in sorted(TEXT_TYPES)}
OPERATIONS: Final = (
    RestOperation(
        "POST", f"{_QUEUE}/message", messaging.put, {201: ""}, (), _PUT_HEADERS, _TEXT_BODY
    ),
    RestOperation(
        "GET", f"{_QUEUE}/message", messaging.browse, {200: _PLAIN, 204: ""}, _MESSAGE_IDS
    ),
    RestOperation(
        "DELETE",
        f"{_QUEUE}/message",
        messaging.take,
        {200: _PLAIN, 204: ""},
        (*_MESSAGE_IDS, "wait"),
    ),
    RestOperation(
        "GET",
        f"{_QUEUE}/messagelist",
        messaging.list_messages,
        {200: _JSON},
        (*_MESSAGE_IDS, "limit"),
    ),
    RestOperation(
        "POST",
        "messaging/qmgr/{qmgr}/topic/{topic}/message",
        messaging.publish,
        {201: ""},
        (),
        _PUT_HEADERS,
        _TEXT_BODY,
        since=2,
    ),
    RestOperation(
        "POST",
        "admin/action/qmgr/{qmgr}/mqsc",
        administration.run_command,
        {200: _JSON},
        body={_JSON: {"schema": _COMMAND}},
    ),
    RestOperation("GET", "admin/qmgr", administration.list_managers, {200: _JSON}),
    RestOperation("GET", "admin/qmgr/{qmgr}", administration.show_manager, {200: _JSON}),
    RestOperation(
        "POST",
        "login",
        login.log_in,
        {204: ""},
        body={_JSON: {"schema": _LOGIN}},
        # A login without the password fails, so a forged one does no harm.
        is_open=True,
    ),
    RestOperation("GET", "login", login.show, {200: _JSON}),
    RestOperation("DELETE", "login", login.log_out, {204: ""}),
)
#: Their operations by method.
PATHS: Final = {
    path: {one.method: one for one in OPERATIONS if one.path == path}
    for path in dict.fromkeys(one.path for one in OPERATIONS)
}


class RestApi:
    """The ASGI application of IBM's REST API."""

    def __init__(self, service: Service) -> None:
        """Serve the queue managers of ``service``; open no socket."""
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an exception becomes an error answer in IBM's JSON form.

        If the client has gone nothing is sent. An unexpected exception is answered with 500 and
        raised again.
        """
        request = Request(scope, receive)
        http_connection = http_connection_of(request)
        of_messages = _MESSAGING in request.scope["raw_path"]
        try:
            try:
                with http_connection:
                    answer = await self._handle(request)
            except RestError as error:
                answer = error.answer(of_messages=of_messages)
            except MQError as error:
                answer = of_mq_error(error, "").answer(of_messages=of_messages)
            except Unauthorized as error:
                answer = of_unauthorized(error).answer(of_messages=of_messages)
            except HttpError as error:
                answer = of_wrong_request(error).answer(of_messages=of_messages)
            except (ClientGone, ClientDisconnect):
                return
            except Exception:
                text = "the log of the server says what happened"
                failed = RestError(HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED, text)
                await failed.answer(of_messages=of_messages).send(send)
                raise
            await answer.send(send)
        finally:
            http_connection.answer.note(0)

    async def _handle(self, request: Request) -> RestAnswer:
        """Find the operation of a request, call its handler, and return the answer.

        Raises RestError: 404 for an unknown path, 405 for another method, 403 without the header
        against CSRF.
        """
        found = _find(request.scope["raw_path"])
        if found is None:
            text = f"nothing is at {request.url.path}"
            raise RestError(HTTPStatus.NOT_FOUND, FAILED, text)
        version, operations, names = found
        method = request.method
        operation = operations.get(method)
        if operation is None:
            allowed = ", ".join(operations)
            text = f"{method} is none of {allowed}"
            status, headers = HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": allowed}
            raise RestError(status, FAILED, text, headers=headers)
        is_checked = method not in SAFE_METHODS and not operation.is_open
        if is_checked and CSRF_HEADER not in request.headers:
            text = f"the header {CSRF_HEADER} is missing"
            raise RestError(HTTPStatus.FORBIDDEN, NO_CSRF_HEADER, text)
        return await operation.handler(RestCall(self._service, request, version, names))


# A client asks for few paths again and again. A path has 16 kB at most.
@lru_cache(maxsize=256)
def _find(
    raw_path: bytes,
) -> tuple[int, Mapping[str, RestOperation], tuple[str, ...]] | None:
    """Return the version, the operations by method, and the values for the braces of a path.

    None for an unknown path or version. Raises RestError (400) if the path is not UTF-8.
    """
    version, segments = _segments(raw_path)
    for path, operations in PATHS.items():
        names = _names(path.split("/"), segments)
        if names is not None and version >= next(iter(operations.values())).since:
            return version, operations, names
    return None


def _segments(raw_path: bytes) -> tuple[int, list[str]]:
    """Return the version (0 if unknown) and the segments of a path.

    Raises RestError (400) if the path is not UTF-8.
    """
    version, *rest = raw_path[len(PREFIX) :].split(b"/")
    try:
        return _VERSIONS.get(version, 0), [
            (unquote_to_bytes(part) if b"%" in part else part).decode() for part in rest
        ]
    except UnicodeDecodeError:
        text = f"the path {raw_path.decode('ascii')!r} is no UTF-8"
        raise RestError(HTTPStatus.BAD_REQUEST, WRONG_VALUE, text) from None


def _names(pattern: list[str], segments: list[str]) -> tuple[str, ...] | None:
    """Return the values for the braces of a path pattern; None if the path does not match.

    ``{topic}`` may take several segments: ``['{topic}', 'message']`` and ``['a', 'b', 'message']``
    -> ``('a/b',)``.
    """
    if _TOPIC in pattern and len(segments) > len(pattern):
        start = pattern.index(_TOPIC)
        end = start + 1 + len(segments) - len(pattern)
        segments = [*segments[:start], "/".join(segments[start:end]), *segments[end:]]
    if len(segments) != len(pattern):
        return None
    names = []
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            names.append(segment)
        elif wanted != segment:
            return None
    return tuple(names)
