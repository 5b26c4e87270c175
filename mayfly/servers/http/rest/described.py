"""IBM's REST operations in the words of OpenAPI, beside those that are declared (docs/HTTP.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import getdoc
from typing import Any, Final, NamedTuple

from mayfly.servers.http.rest import administration, login, messaging
from mayfly.servers.http.rest.api import PREFIX, Handler
from mayfly.servers.http.rest.incoming import (
    CORRELATION_ID,
    DELIVERY_DELAY,
    EXPIRY,
    PERSISTENCE,
    PRIORITY,
    REPLY_TO,
    REPORT,
    TEXT_TYPES,
)
from mayfly.servers.http.service import CSRF_HEADER, SAFE_METHODS

REST_TAG: Final = {"name": "IBM MQ REST API", "description": "Messaging and MQSC as by IBM MQ."}
_VERSION: Final = "v3"
_TEXT: Final = {"type": "string"}
_OBJECT: Final = {"type": "object"}
_NAMES: Final = {
    "qmgr": "a queue manager of this server",
    "queue": "a queue; `/` is written `%2F`",
    "topic": "a topic string, whose `/` may stand as they are",
}
_QUERY: Final = {
    "messageId": "the MsgId that a message must have",
    "correlationId": "the CorrelId that it must have",
    "wait": "ms to wait for a message",
    "limit": "so many messages at most",
}
_PUT_HEADERS: Final = {
    EXPIRY: "life in milliseconds, or `unlimited`",
    PERSISTENCE: "`persistent`, `nonPersistent` or `asDestination`",
    PRIORITY: "0 to 9, or `asDestination`",
    CORRELATION_ID: "`ID:` and 48 hexadecimal digits, or a text",
    REPLY_TO: "`QUEUE` or `QUEUE@QMGR`",
    "ibm-mq-usr": "properties: `name;value;type` with commas between",
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
_ERROR: Final = {
    "description": "The request has failed: `msgId`, and where a queue manager has refused it "
    "`reasonCode`.",
    "content": {"application/json": {"schema": _OBJECT}},
}


class _Described(NamedTuple):
    """One operation; ``answers`` are statuses, with the media type of the body or "" for none."""

    method: str
    path: str
    handler: Handler
    answers: Mapping[int, str]
    query: Iterable[str] = ()
    headers: Mapping[str, str] = {}
    body: Mapping[str, Any] = {}


_JSON, _PLAIN = "application/json", "text/plain"
_QUEUE: Final = "messaging/qmgr/{qmgr}/queue/{queue}"
_MESSAGE_IDS: Final = ("messageId", "correlationId")
_TEXT_BODY: Final = {media_type: {"schema": _TEXT} for media_type in sorted(TEXT_TYPES)}
_OPERATIONS: Final = (
    _Described("POST", f"{_QUEUE}/message", messaging.put, {201: ""}, (), _PUT_HEADERS, _TEXT_BODY),
    _Described(
        "DELETE",
        f"{_QUEUE}/message",
        messaging.take,
        {200: _PLAIN, 204: ""},
        (*_MESSAGE_IDS, "wait"),
    ),
    _Described("GET", f"{_QUEUE}/message", messaging.browse, {200: _PLAIN, 204: ""}, _MESSAGE_IDS),
    _Described(
        "GET",
        f"{_QUEUE}/messagelist",
        messaging.list_messages,
        {200: _JSON},
        (*_MESSAGE_IDS, "limit"),
    ),
    _Described(
        "POST",
        "messaging/qmgr/{qmgr}/topic/{topic}/message",
        messaging.publish,
        {201: ""},
        (),
        _PUT_HEADERS,
        _TEXT_BODY,
    ),
    _Described(
        "POST",
        "admin/action/qmgr/{qmgr}/mqsc",
        administration.run_command,
        {200: _JSON},
        body={_JSON: {"schema": _COMMAND}},
    ),
    _Described("GET", "admin/qmgr", administration.list_managers, {200: _JSON}),
    _Described("GET", "admin/qmgr/{qmgr}", administration.show_manager, {200: _JSON}),
    _Described("POST", "login", login.log_in, {204: ""}, body={_JSON: {"schema": _LOGIN}}),
    _Described("GET", "login", login.show, {200: _JSON}),
    _Described("DELETE", "login", login.log_out, {204: ""}),
)


def _operation(one: _Described) -> dict[str, Any]:
    summary, _, rest = (getdoc(one.handler) or "").partition("\n\n")
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    headers = dict(one.headers)
    if one.method not in SAFE_METHODS:
        headers[CSRF_HEADER] = "must be there; any value will do"
    described: dict[str, Any] = {
        "operationId": f"rest_{one.handler.__name__}",
        "tags": [REST_TAG["name"]],
        "summary": " ".join(summary.split()).removesuffix("."),
        "description": rest.replace("``", "`"),
        "parameters": [
            *(_parameter(name, "path", _NAMES[name]) for name in names),
            *(_parameter(name, "query", _QUERY[name]) for name in one.query),
            *(_parameter(name, "header", text) for name, text in headers.items()),
        ],
        "responses": {str(status): _answer(kind) for status, kind in one.answers.items()}
        | {"default": _ERROR},
    }
    if one.body:
        described["requestBody"] = {"required": True, "content": dict(one.body)}
    return described


def _answer(media_type: str) -> dict[str, Any]:
    told: dict[str, Any] = {"description": "The answer."}
    if media_type:
        told["content"] = {media_type: {"schema": _OBJECT if media_type == _JSON else _TEXT}}
    return told


def _parameter(name: str, place: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path" or name == CSRF_HEADER,
        "description": text,
        "schema": _TEXT,
    }


def _paths() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in _OPERATIONS:
        path = f"{PREFIX}{_VERSION}/{one.path}"
        found.setdefault(path, {})[one.method.lower()] = _operation(one)
    return found


#: The operations by path and method, as OpenAPI has them.
REST_PATHS: Final = _paths()
