"""The OpenAPI 3.1 description of all operations, generated from their declarations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from http import HTTPStatus
from inspect import cleandoc, getdoc
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from mayfly import __version__
from mayfly.servers.http import problems
from mayfly.servers.http.resources.operations import (
    JSON,
    NAMES,
    OF_MANAGER,
    OWN,
    Call,
    NoQuery,
    Operation,
)
from mayfly.servers.http.rest import api as rest_api
from mayfly.servers.http.rest.api import RestOperation
from mayfly.servers.http.service import CSRF_HEADER, SAFE_METHODS

_COMPONENT: Final = "#/components/schemas/{name}"
_TITLE: Final = "Mayfly over HTTP"
_ABOUT: Final = """\
Queue managers in which every message has a lifetime. Below `/mayfly/v1` are resources of Mayfly's
own, below `/ibmmq/rest` those of the IBM MQ REST API. `docs/HTTP.md` explains both."""
#: Kinds of credentials. A cookie needs the header against CSRF with every change.
_SCHEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "password": {"type": "http", "scheme": "basic", "description": "user and password"},
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "the operator's token, on the loopback interface or over TLS",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": CSRF_HEADER,
        "description": "any value; other sites cannot send it",
    },
}
_COOKIE: Final = "login"
_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "minLength": 1}
_ETAG: Final = {"ETag": {"required": True, "schema": _TEXT}}
_NOT_MODIFIED: Final = str(HTTPStatus.NOT_MODIFIED.value)


class Problem(Struct):
    """A failed request (RFC 9457); an answer may have more members."""

    title: Annotated[str, Meta(description="the phrase of the status")]
    status: Annotated[int, Meta(description="the status of the answer")]
    detail: Annotated[str, Meta(description="what is wrong, with field and value")]
    reason: Annotated[
        int | msgspec.UnsetType, Meta(description="MQRC_*, where a queue manager has refused it")
    ] = msgspec.UNSET
    reasonName: Annotated[  # noqa: N815 - a member of answers since the first version
        str | msgspec.UnsetType, Meta(description="its name")
    ] = msgspec.UNSET
    attribute: Annotated[
        str | msgspec.UnsetType, Meta(description="the attribute of an object that is wrong")
    ] = msgspec.UNSET
    value: Annotated[
        int | str | msgspec.UnsetType, Meta(description="its value; never that of a secret")
    ] = msgspec.UNSET


class ApiDescription:
    """All operations of a server, and their description as OpenAPI."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        """Store the operations, and one more that returns the description, in ``operations``."""
        path = f"{OWN}/openapi.json"
        own = Operation("GET", path, self.openapi, None)
        self.operations = (*operations, own)

    def openapi(self, call: Call[NoQuery, None]) -> dict[str, Any]:
        """Return the OpenAPI 3.1 description of all operations; needs no credentials."""
        cookie = {"type": "apiKey", "in": "cookie", "name": call.service.logins.cookie}
        components = self._document["components"]
        schemes = {**components["securitySchemes"], _COOKIE: cookie}
        return {**self._document, "components": {**components, "securitySchemes": schemes}}

    @cached_property
    def _document(self) -> dict[str, Any]:
        """The description without the name of the login cookie, which is random."""
        described = self.operations
        schemas = _Schemas(described)
        paths: dict[str, dict[str, Any]] = {}
        for one in described:
            paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
        tags = {one.tag: _module_summary(one) for one in described}
        return {
            "openapi": "3.1.0",
            "info": {"title": _TITLE, "version": __version__, "description": _ABOUT},
            "tags": [{"name": name, "description": text} for name, text in tags.items()]
            + [dict(REST_TAG)],
            "paths": paths | REST_PATHS,
            "components": {"schemas": schemas.components, "securitySchemes": dict(_SCHEMES)},
        }


class _Schemas:
    """The JSON Schemas of all bodies and answers."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        """Make the schemas of all types that the operations have as body or answer."""
        declared = (kind for one in operations for kind in (one.body, one.answer))
        #: Each type once; not all of them can be keys of a dictionary.
        kinds = {id(kind): kind for kind in (Problem, *declared) if kind is not None}
        found, components = msgspec.json.schema_components(kinds.values(), ref_template=_COMPONENT)
        self._found = dict(zip(kinds, map(_cleaned, found), strict=True))
        self.components: dict[str, Any] = _cleaned(components)

    def of(self, kind: Any) -> Any:
        """Return the schema of a type; KeyError for a type that no operation has."""
        return self._found[id(kind)]


def _operation(one: Operation, schemas: _Schemas) -> dict[str, Any]:
    """Return the OpenAPI object that describes one operation."""
    summary, description = _docstring_of(one.handler)
    headers = dict(one.headers)
    if one.has_etag and one.method == "GET":
        headers["If-None-Match"] = "the ETag of an answer that the sender has"
    described: dict[str, Any] = {
        "operationId": one.name,
        "tags": [one.tag],
        "summary": summary,
        "description": description,
        "parameters": [
            *(_parameter(name, "path", NAMES[name], _NAME) for name in one.names),
            *_query(one),
            *(_parameter(name, "header", text) for name, text in headers.items()),
        ],
        "responses": _responses(one, schemas),
        "security": [] if one.role is None else _security(one),
    }
    if one.role is not None:
        described["x-mayfly-role"] = one.role.value
    if one.body is not None:
        content = {JSON: {"schema": schemas.of(one.body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _security(one: Operation) -> list[dict[str, list[str]]]:
    """Return the OpenAPI security requirements of an operation.

    Password, token and login cookie are accepted; a change by cookie also needs the CSRF header.
    """
    login: dict[str, list[str]] = {_COOKIE: []}
    if one.method not in SAFE_METHODS:
        login["csrf"] = []
    return [{"password": []}, {"token": []}, login]


def _query(one: Operation) -> list[dict[str, Any]]:
    """Return the OpenAPI parameters for the query fields of an operation."""
    schema = _cleaned(msgspec.json.schema(one.query))["$defs"][one.query.__name__]
    found = []
    for name, of_field in schema["properties"].items():
        # No value is no parameter, and not the text null.
        choices = [each for each in of_field.pop("anyOf", ()) if each != {"type": "null"}]
        if of_field.get("default", "") is None:
            del of_field["default"]
        description = of_field.pop("description", "")
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in schema["required"],
                "description": description,
                "schema": {**(choices[0] if choices else {}), **of_field},
            }
        )
    return found


def _parameter(
    name: str, place: str, text: str, schema: Mapping[str, Any] = _TEXT
) -> dict[str, Any]:
    """Return one OpenAPI parameter; ``place`` is ``path``, ``query`` or ``header``."""
    return {
        "name": name,
        "in": place,
        "required": place == "path" or name == CSRF_HEADER,
        "description": text,
        "schema": schema,
    }


def _responses(one: Operation, schemas: _Schemas) -> dict[str, Any]:
    """Return the OpenAPI responses of an operation, answers and errors, by status number."""
    kind = {"schema": _TEXT if one.answer is None else schemas.of(one.answer)}
    content = {} if one.status is HTTPStatus.NO_CONTENT else {one.media_type: kind}
    answered = {one.status: _summary_of(one.answer), **one.other_answers}
    headers = {"headers": _ETAG} if one.has_etag else {}
    answers: dict[str, dict[str, Any]] = {
        str(status.value): {"description": text, "content": content, **headers}
        for status, text in answered.items()
    }
    if one.has_etag and one.method == "GET":
        answers[_NOT_MODIFIED] = {"description": "It is as the sender has it.", **headers}
    problem = {problems.MEDIA_TYPE: {"schema": schemas.of(Problem)}}
    failed = {
        str(status.value): {"description": text, "content": problem}
        for status, text in {**_usual_problems(one), **one.problems}.items()
        if status not in answered
    }
    return dict(sorted((failed | answers).items()))


def _summary_of(kind: Any) -> str:
    """Return the first paragraph of a type's docstring; "It is done." without one."""
    about = cleandoc(getattr(kind, "__doc__", None) or "") if isinstance(kind, type) else ""
    return _marked(" ".join(about.partition("\n\n")[0].split())) or "It is done."


def _usual_problems(one: Operation) -> dict[HTTPStatus, str]:
    """Return the error statuses that follow from an operation's declaration, with texts.

    Example: an operation with a body may be answered with 413 and 415.
    """
    found = {
        HTTPStatus.BAD_REQUEST: "a value is wrong; the detail names it",
        HTTPStatus.INTERNAL_SERVER_ERROR: "the handling has failed; the log says how",
    }
    if one.role is not None:
        found |= {
            HTTPStatus.UNAUTHORIZED: "credentials are missing or refused",
            HTTPStatus.FORBIDDEN: "the user has not the authority; or the header against CSRF "
            "is missing beside a cookie",
            HTTPStatus.SERVICE_UNAVAILABLE: "the server drains, or the queue manager has stopped",
        }
    if one.path.startswith(OF_MANAGER):
        found[HTTPStatus.NOT_FOUND] = "the queue manager is not served here"
    if one.body is not None:
        found |= {
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the body has more than 64 KiB",
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "the body is not application/json",
        }
    return found


def _docstring_of(handler: Callable[..., Any]) -> tuple[str, str]:
    """Return the first paragraph of a handler's docstring, and the rest, as CommonMark."""
    summary, _, rest = (getdoc(handler) or "").partition("\n\n")
    return " ".join(summary.split()).removesuffix("."), _marked(rest)


def _module_summary(one: Operation) -> str:
    """Return the first paragraph of the docstring of a handler's module, as CommonMark."""
    about = sys.modules[one.handler.__module__].__doc__ or ""
    return _marked(" ".join(about.partition("\n\n")[0].split()))


def _marked(text: str) -> str:
    """Return docstring text as CommonMark: double backquotes become single ones."""
    return text.replace("``", "`")


def _cleaned(schema: Any) -> Any:
    """Return a copy of a JSON Schema with its descriptions as CommonMark."""
    if isinstance(schema, dict):
        return {
            key: _marked(cleandoc(value))
            if key == "description" and isinstance(value, str)
            else _cleaned(value)
            for key, value in schema.items()
        }
    return [_cleaned(one) for one in schema] if isinstance(schema, (list, tuple)) else schema


REST_TAG: Final = {"name": "IBM MQ REST API", "description": "Messaging and MQSC as by IBM MQ."}
_REST_VERSION: Final = "v3"
_OBJECT: Final = {"type": "object"}
_ERROR: Final = {
    "description": "The request has failed: `msgId`, and where a queue manager has refused it "
    "`reasonCode`.",
    "content": {"application/json": {"schema": _OBJECT}},
}


def _rest_operation(one: RestOperation) -> dict[str, Any]:
    """Return the OpenAPI object that describes one operation of IBM's REST API."""
    summary, description = _docstring_of(one.handler)
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    headers = dict(one.headers)
    if one.method not in SAFE_METHODS:
        headers[CSRF_HEADER] = "must be there; any value will do"
    described: dict[str, Any] = {
        "operationId": f"rest_{one.handler.__name__}",
        "tags": [REST_TAG["name"]],
        "summary": summary,
        "description": description,
        "parameters": [
            *(_parameter(name, "path", rest_api.NAMES[name]) for name in names),
            *(_parameter(name, "query", rest_api.QUERY[name]) for name in one.query),
            *(_parameter(name, "header", text) for name, text in headers.items()),
        ],
        "responses": {str(status): _rest_answer(kind) for status, kind in one.answers.items()}
        | {"default": _ERROR},
    }
    if one.body:
        described["requestBody"] = {"required": True, "content": dict(one.body)}
    return described


def _rest_answer(media_type: str) -> dict[str, Any]:
    """Return the OpenAPI response for a body of a media type, "" for no body."""
    answers: dict[str, Any] = {"description": "The answer."}
    if media_type:
        answers["content"] = {media_type: {"schema": _OBJECT if media_type == JSON else _TEXT}}
    return answers


#: Those of IBM's API by path and method, as OpenAPI has them.
REST_PATHS: Final = {
    f"{rest_api.PREFIX}{_REST_VERSION}/{path}": {
        method.lower(): _rest_operation(one) for method, one in operations.items()
    }
    for path, operations in rest_api.PATHS.items()
}
