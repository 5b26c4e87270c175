"""Routing of Mayfly's JSON API: finds, checks and answers requests by declared operations.

Paths are decoded segment by segment, since names of queues contain ``/`` as ``%2F``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mayfly.admin.security.roles import check_role
from mayfly.mqi.errors import MQError
from mayfly.servers.clients import manager_of
from mayfly.servers.http import problems
from mayfly.servers.http.connection import ClientGone, http_connection_of, read_object
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.http.resources.operations import SECRET, Answered, Call, Operation, is_known
from mayfly.servers.http.service import AuthenticatedUser, Service


class OwnResources:
    """The ASGI application of Mayfly's JSON API."""

    def __init__(self, service: Service, operations: Iterable[Operation]) -> None:
        """Prepare to answer requests for ``operations``; each GET also answers HEAD.

        AssertionError for two operations with the same path and method.
        """
        self._service = service
        by_path: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            by_method = by_path.setdefault(operation.path, {})
            assert operation.method not in by_method, f"{operation.path} is declared twice"
            by_method[operation.method] = operation
            if operation.method == "GET":
                by_method["HEAD"] = operation
        #: Patterns of paths with their operations by method. Those without braces come first:
        #: /schedule/audit is no message.
        self._resources = [
            (path.split("/"), by_path[path])
            for path in sorted(by_path, key=lambda path: path.count("{"))
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an exception becomes a problem+json answer.

        If the client has gone nothing is sent. An unexpected exception is answered with 500 and
        raised again.
        """
        request = Request(scope, receive)
        try:
            with http_connection_of(request):
                answer = await self._handle(request)
        except (MQError, Unauthorized, HttpError) as error:
            answer = problems.problem_of(error)
        except (ClientGone, ClientDisconnect):
            return
        except Exception:
            text = "the log of the server says what happened"
            failed = problems.problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)
            await failed(scope, receive, send)
            raise
        await answer(scope, receive, send)

    async def _handle(self, request: Request) -> Response:
        """Find the operation, authenticate the user, check query and body, and call the handler.

        A plain handler runs in a thread. Raises HttpError, Unauthorized, and the errors of the
        handler.
        """
        operation, names = self._find(request)
        authenticated = await self._authenticate(request, operation, names)
        query = checked_query(request, operation.query)
        body = None
        if operation.body is not None:
            body = checked_body(await read_object(request), operation.body)
        call = Call(self._service, request, names, query, body, authenticated)
        if iscoroutinefunction(operation.handler):
            return _response(operation, call, await operation.handler(call))
        return _response(operation, call, await run_in_threadpool(operation.handler, call))

    def _find(self, request: Request) -> tuple[Operation, dict[str, str]]:
        """Return the operation for a request, and the values for the braces of its path.

        Example: ``…/queues/Q1`` has ``{'queue': 'Q1'}``. Raises HttpError: 404 for an unknown
        path, 405 for another method, 400 for a path not in UTF-8.
        """
        raw: bytes = request.scope["raw_path"]
        try:
            segments = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
        except UnicodeDecodeError:
            text = f"the path {raw.decode('ascii')!r} is no UTF-8"
            raise HttpError(HTTPStatus.BAD_REQUEST, text) from None
        for pattern, by_method in self._resources:
            names = _match_path(pattern, segments)
            if names is not None:
                if request.method in by_method:
                    return by_method[request.method], names
                allowed = ", ".join(sorted(by_method))
                text, headers = f"{request.method} is none of {allowed}", {"Allow": allowed}
                raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, text, headers=headers)
        raise HttpError(HTTPStatus.NOT_FOUND, f"nothing is at {request.url.path}")

    async def _authenticate(
        self, request: Request, operation: Operation, names: Mapping[str, str]
    ) -> AuthenticatedUser | None:
        """Authenticate the user and check the role of an operation; None if it needs no role.

        None also for one that is carried out while no queue manager is open. Raises HttpError (404)
        if the queue manager is not served here, MQRC_NOT_AUTHORIZED without the role, and the
        errors of ``Service.admit``.
        """
        if operation.role is None:
            return None
        service = self._service
        manager = names.get("qmgr")
        if manager is not None and manager not in service.managers.names:
            text = f"queue manager {manager!r} is not served here"
            raise HttpError(HTTPStatus.NOT_FOUND, text)
        if operation.answers_standby and not service.managers:
            await service.identify(request)
            return None
        authenticated = await service.admit(request, manager=manager)
        engine = manager_of(service.managers, authenticated.applicant, "http").engine
        check_role(engine, authenticated.admitted, operation.role)
        return authenticated


def _match_path(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """Return the values for the braces of a path pattern; None if the path does not match.

    Example: ``['a', '{x}']`` and ``['a', '5']`` -> ``{'x': '5'}``. An empty segment does not match.
    """
    if len(pattern) != len(segments):
        return None
    found = {}
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{") and segment:
            found[wanted[1:-1]] = segment
        elif wanted != segment:
            return None
    return found


def _response(operation: Operation, call: Call[Any, Any], found: object) -> Response:
    """Return the result of a handler as a response.

    ``found`` is that result. A Response stays as it is. None gives an answer without body. A result
    with the ETag that the client has gives 304 without body.
    """
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


_T = TypeVar("_T", bound=msgspec.Struct)
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_SWITCHES: Final = {"true": True, "false": False}
_LONGEST_SHOWN: Final = 200


class _ValueKind(NamedTuple):
    """The type of a value, its declared title, and whether its value must not be shown."""

    type: inspect.Type
    title: str = ""
    is_secret: bool = False


class _Field(NamedTuple):
    """A field of a struct: its JSON name, the kind of its values, and its annotation."""

    name: str
    kind: _ValueKind
    annotation: Any
    is_required: bool


def checked_query(request: Request, kind: type[_T]) -> _T:
    """Return the query parameters of a request as an instance of ``kind``.

    Raises HttpError (400), with name and value, for a parameter that is unknown, missing,
    repeated or not of its type.
    """
    fields, found = _fields(inspect.type_info(kind)), dict[str, object]()
    for name, text in request.query_params.multi_items():
        if name not in fields:
            if not fields:
                raise _bad_request(f"query parameter {name!r} is not known: there are none here")
            raise _bad_request(f"query parameter {name!r} is none of {', '.join(fields)}")
        if name in found:
            raise _bad_request(f"query parameter {name!r} is given twice")
        field = fields[name]
        found[name] = value = _of_text(field.kind.type, text)
        if not _fits(value, field.annotation):
            raise _bad_request(f"{name} {_abbreviated(text)} is not {_described(field.kind)}")
    for name, field in fields.items():
        if field.is_required and name not in found:
            message = f"query parameter {name!r} is missing: it is {_described(field.kind)}"
            raise _bad_request(message)
    return msgspec.convert(found, kind)


def checked_body(found: object, kind: Any) -> Any:
    """Return a JSON body as an instance of ``kind``.

    Raises HttpError (400), which names the first field that is wrong, missing or unknown.
    """
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise _bad_request(_mistake(found, inspect.type_info(kind)) or str(error)) from error


def _bad_request(text: str) -> HttpError:
    """Return the HttpError with status 400."""
    return HttpError(HTTPStatus.BAD_REQUEST, text)


def _fields(kind: inspect.Type) -> dict[str, _Field]:
    """Return the fields of a struct type by their JSON names."""
    assert isinstance(kind, inspect.StructType)
    annotations = get_type_hints(kind.cls, include_extras=True)
    return {
        field.encode_name: _Field(
            field.encode_name, _kind(field.type), annotations[field.name], field.required
        )
        for field in kind.fields
    }


def _kind(found: inspect.Type) -> _ValueKind:
    """Return a type without its metadata, and without None as an alternative.

    A union of several other types stays a union.
    """
    title, is_secret = "", False
    while isinstance(found, (inspect.Metadata, inspect.UnionType)):
        if isinstance(found, inspect.Metadata):
            title = title or (found.extra_json_schema or {}).get("title", "")
            is_secret = is_secret or found.extra == SECRET
            found = found.type
        else:
            choices = [one for one in found.types if not isinstance(one, inspect.NoneType)]
            if len(choices) > 1:
                break
            [found] = choices
    return _ValueKind(found, title, is_secret)


def _of_text(expected: inspect.Type, text: str) -> object:
    """Return a query parameter as value: ``'5'`` -> 5, ``'true'`` -> True, for these types.

    Text that is no number or boolean stays text, which later checks refuse.
    """
    if isinstance(expected, inspect.IntType):
        return int(text) if _WHOLE.fullmatch(text) else text
    if isinstance(expected, inspect.BoolType):
        return _SWITCHES.get(text, text)
    return text


def _mistake(found: object, kind: inspect.Type) -> str:
    """Return a text with the wrong field of a body, and why; "" if all fields have their types."""
    if not isinstance(found, dict):
        return "the body is no JSON object"
    fields = _fields(kind)
    for key in found:
        if key not in fields:
            return f"{_abbreviated(key)} is none of {', '.join(fields)}"
    return next((text for field in fields.values() if (text := _mistake_of(field, found))), "")


def _mistake_of(field: _Field, values: Mapping[str, object]) -> str:
    """Return a text that says why one field of an object is wrong; "" if it is right.

    A missing optional field is right. The value of a secret field is not in the text.
    """
    name, kind = field.name, field.kind
    if name not in values and not field.is_required:
        return ""
    found = values.get(name)
    if _fits(found, field.annotation):
        return ""
    if isinstance(kind.type, inspect.StructType):
        return _mistake_within(name, found, kind)
    if kind.is_secret:
        return f"{name} is not {_described(kind)}"
    if _described(kind) == _WHOLE_NUMBER:
        text = "missing" if name not in values else _abbreviated(found)
        return f"{name} is {text}: it is {_WHOLE_NUMBER}"
    return f"{name} {_abbreviated(found)} is not {_described(kind)}"


def _mistake_within(name: str, found: object, kind: _ValueKind) -> str:
    """Return a text that says why a JSON object inside a field is wrong; "" if it is right.

    ``name`` is the name of the field.
    """
    if not isinstance(found, dict):
        return f"{name} {_abbreviated(found)} is not an object"
    fields = _fields(kind.type)
    for key in found:
        if key not in fields:
            return f"{name} {_abbreviated(key)} is not one of {', '.join(fields)}"
    for key, field in fields.items():
        text = _mistake_of(field, found)
        if text and _described(field.kind) == _WHOLE_NUMBER:
            return text
        if text:
            wanted = f"{_described(kind)}: {key} is {_described(field.kind)}"
            return f"{name} {_abbreviated(found)} is not {wanted}"
    return ""


def _fits(found: object, annotation: Any) -> bool:
    """Return True if ``found``, from JSON, is of the type ``annotation`` and in its range.

    A boolean is no number.
    """
    try:
        msgspec.convert(found, annotation)
    except msgspec.ValidationError:
        return False
    return True


_WHOLE_NUMBER: Final = "a whole number"


def _described(kind: _ValueKind) -> str:
    """Return the allowed values of a type in words, as ``'a whole number from 1 to 5'``."""
    expected = kind.type
    if kind.title:
        return kind.title
    if isinstance(expected, inspect.IntType):
        minimum, maximum = expected.ge, expected.le
        bounds = "" if minimum is None else f" from {minimum}"
        return _WHOLE_NUMBER + bounds + ("" if maximum is None else f" to {maximum}")
    if isinstance(expected, inspect.StrType):
        maximum = expected.max_length
        return (
            "a text"
            if maximum is None
            else f"a text of {expected.min_length or 0} to {maximum} characters"
        )
    if isinstance(expected, inspect.LiteralType):
        return " or ".join(str(value) for value in expected.values)
    if isinstance(expected, inspect.ListType):
        return f"a list, each {_described(_kind(expected.item_type))}"
    if isinstance(expected, inspect.DictType):
        return f"an object, each value {_described(_kind(expected.value_type))}"
    if isinstance(expected, inspect.UnionType):
        return " or ".join(_described(_kind(one)) for one in expected.types)
    return _OTHER_DESCRIPTIONS.get(type(expected), "an object")


_OTHER_DESCRIPTIONS: Final[Mapping[type[inspect.Type], str]] = {
    inspect.BoolType: "true or false",
    inspect.FloatType: "a number",
    inspect.NoneType: "null",
}


def _abbreviated(value: object) -> str:
    """Return a value for error texts: its ``repr``, cut after 200 characters."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
