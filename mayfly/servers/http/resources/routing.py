"""The ASGI application of Mayfly's own resources: finds, checks and answers by the declarations.

A path is read as it was sent: names of queues hold ``/`` as ``%2F``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mayfly.admin.security.roles import check_role
from mayfly.mqi.errors import MQError
from mayfly.servers.http import problems
from mayfly.servers.http.bodies import read_object
from mayfly.servers.http.line import line_of
from mayfly.servers.http.problems import Unauthorized, wrong_request
from mayfly.servers.http.resources.checking import checked_body, checked_query
from mayfly.servers.http.resources.etags import is_known
from mayfly.servers.http.resources.operations import Answered, Call, Operation
from mayfly.servers.http.service import Service, Visit
from mayfly.servers.http.waits import ClientGone

#: The part of a path that names a queue manager.
_MANAGER: Final = "qmgr"


class _Resource:
    """A path and its operations by method; HEAD is answered as GET."""

    def __init__(self, path: str) -> None:
        self.pattern = path.split("/")
        self.operations: dict[str, Operation] = {}

    def add(self, operation: Operation) -> None:
        """Add an operation."""
        assert operation.method not in self.operations, f"{operation.path} is declared twice"
        self.operations[operation.method] = operation
        if operation.method == "GET":
            self.operations["HEAD"] = operation

    def names(self, segments: list[str]) -> dict[str, str] | None:
        """Return the parts of a path that this one has in braces, None for another path."""
        found = {}
        for wanted, segment in zip(self.pattern, segments, strict=True):
            if wanted.startswith("{") and segment:
                found[wanted[1:-1]] = segment
            elif wanted != segment:
                return None
        return found

    @property
    def allowed(self) -> str:
        """The methods, as the header Allow has them."""
        return ", ".join(sorted(self.operations))


class OwnResources:
    """The ASGI application of some operations."""

    def __init__(self, service: Service, operations: Iterable[Operation]) -> None:
        """Take the parts of a host, and the operations."""
        self._service = service
        by_path: dict[str, _Resource] = {}
        for operation in operations:
            by_path.setdefault(operation.path, _Resource(operation.path)).add(operation)
        self._resources: dict[int, list[_Resource]] = {}
        # Without braces first: /schedule/audit is no message.
        for path in sorted(by_path, key=lambda path: path.count("{")):
            found = by_path[path]
            self._resources.setdefault(len(found.pattern), []).append(found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            with line_of(request):
                answer = await self._answered(request)
        except MQError as error:
            answer = problems.of_mq_error(error)
        except Unauthorized as error:
            answer = problems.of_unauthorized(error)
        except HTTPException as error:
            answer = problems.of_http_error(error)
        except (ClientGone, ClientDisconnect):
            return
        except Exception:
            said = "the log of the server says what happened"
            failed = problems.problem(HTTPStatus.INTERNAL_SERVER_ERROR, said)
            await failed(scope, receive, send)
            raise
        await answer(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        resource, names = self._found(request)
        operation = resource.operations.get(request.method)
        if operation is None:
            said = f"{request.method} is none of {resource.allowed}"
            headers = {"Allow": resource.allowed}
            raise wrong_request(HTTPStatus.METHOD_NOT_ALLOWED, said, headers=headers)
        visit = await self._let_in(request, operation, names)
        query = checked_query(request, operation.query)
        body = None
        if operation.body is not None:
            body = checked_body(await read_object(request), operation.body)
        call = Call(self._service, request, names, query, body, visit)
        return _response(operation, call, await _handled(operation, call))

    def _found(self, request: Request) -> tuple[_Resource, dict[str, str]]:
        raw: bytes = request.scope["raw_path"]
        try:
            segments = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
        except UnicodeDecodeError:
            said = f"the path {raw.decode('ascii')!r} is no UTF-8"
            raise wrong_request(HTTPStatus.BAD_REQUEST, said) from None
        for resource in self._resources.get(len(segments), ()):
            names = resource.names(segments)
            if names is not None:
                return resource, names
        raise wrong_request(HTTPStatus.NOT_FOUND, f"nothing is at {request.url.path}")

    async def _let_in(
        self, request: Request, operation: Operation, names: Mapping[str, str]
    ) -> Visit | None:
        """Let a user in who has the role of an operation; raises as admission."""
        if operation.role is None:
            return None
        service = self._service
        manager = names.get(_MANAGER)
        if manager is not None and manager not in service.managers:
            said = f"queue manager {manager!r} is not served here"
            raise wrong_request(HTTPStatus.NOT_FOUND, said)
        visit = await service.admit(request, manager=manager)
        engine = service.managers[visit.applicant.queue_manager].engine
        check_role(engine, visit.admitted, operation.role)
        return visit


async def _handled(operation: Operation, call: Call[Any, Any]) -> object:
    if inspect.iscoroutinefunction(operation.handler):
        return await operation.handler(call)
    return await run_in_threadpool(operation.handler, call)


def _response(operation: Operation, call: Call[Any, Any], found: object) -> Response:
    if isinstance(found, Response):
        return found
    answered = found if isinstance(found, Answered) else Answered(found)
    status = operation.status if answered.status is None else answered.status
    if operation.has_etag and is_known(call.request, answered.headers["ETag"]):
        return Response(None, HTTPStatus.NOT_MODIFIED, answered.headers)
    if answered.content is None:
        return Response(None, status, answered.headers)
    written = msgspec.json.encode(answered.content)
    return Response(written, status, answered.headers, media_type=operation.media_type)
