"""IBM's REST API below ``/ibmmq/rest``: its operations by path and method, login, administration.

Administration is MQSC commands as text or JSON, and the queue managers. At the login resource a
user logs in with a password, and later requests send a cookie. Paths are decoded segment by
segment, since names of queues and topics contain ``/`` as ``%2F``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from mayfly.admin.security.applicant import Admitted, failure_delay_s, is_administrator
from mayfly.admin.security.roles import Role, roles_of
from mayfly.admin.security.users import User, users_of
from mayfly.engine import Engine
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQRCCF_COMMAND_FAILED
from mayfly.mqi.errors import MQError, StoreError
from mayfly.servers.clients import manager_of
from mayfly.servers.http.connection import ClientGone, http_connection_of, read_object
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.http.resources.mqsc import run_script
from mayfly.servers.http.rest import messaging
from mayfly.servers.http.rest.calls import (
    FAILED,
    NO_CSRF_HEADER,
    NO_MESSAGE_MADE,
    UNEXPECTED,
    WRONG_VALUE,
    RestAnswer,
    RestCall,
    RestError,
    json_answer,
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
from mayfly.servers.http.service import (
    CSRF_HEADER,
    LIFE_SECONDS,
    SAFE_METHODS,
    AuthenticatedUser,
    Credentials,
    Mechanism,
    Service,
    cookie_of,
)
from mayfly.servers.status import ServingState
from mayfly.verbs.facts import CommandResult, MqscMessage

_MAX_BYTES: Final = 4_096
_LOGIN_KEYS: Final = ("username", "password")
#: Roles as IBM's server names them; it has none for users who may operate.
_ROLES: Final = {Role.LOOK: "MQWebAdminRO", Role.OPERATE: "MayflyOperator"}
_ADMINISTRATOR, _PROGRAM = "MQWebAdmin", "MQWebUser"


async def log_in(call: RestCall) -> RestAnswer:
    """Log in a user of any queue manager of the server; 204, with a cookie.

    Raises Unauthorized for a wrong or missing password, RestError for a body of another form.
    """
    user, password = await _read_credentials(call)
    if not (user and password):
        raise Unauthorized("user and password are missing")
    await _authenticate_anywhere(call, Credentials(Mechanism.FORM, user, password))
    token = call.service.logins.begin(user, password)
    return RestAnswer(HTTPStatus.NO_CONTENT, (_cookie(call, token, LIFE_SECONDS),))


async def show(call: RestCall) -> RestAnswer:
    """Show the logged-in user: name, roles, and kind of credentials.

    Raises Unauthorized without valid credentials.
    """
    credentials = call.service.credentials(call.request)
    authenticated = await _authenticate_anywhere(call, credentials)
    shown_user = {
        "name": authenticated.admitted.user or credentials.user,
        "role": _role_names(authenticated),
        "authenticationMechanism": credentials.mechanism.value,
    }
    return json_answer({"user": [shown_user]})


async def log_out(call: RestCall) -> RestAnswer:
    """End a login; 204, and the browser deletes the cookie.

    Raises Unauthorized if the request has no cookie of a login, or the login has ended.
    """
    logins = call.service.logins
    token = cookie_of(call.request, logins.cookie)
    if not token or logins.find(token) is None:
        raise Unauthorized("the login has ended, or there was none", is_login=True)
    logins.end(token)
    return RestAnswer(HTTPStatus.NO_CONTENT, (_cookie(call, "", 0),))


async def _authenticate_anywhere(call: RestCall, credentials: Credentials) -> AuthenticatedUser:
    """Authenticate a user at the queue managers that know the name; return the first success.

    The path of a login names no queue manager, so all that know the user check it at once. If none
    knows the user, the first one refuses, as for a wrong password. A refusal always comes after the
    longest FAILDLAY of all queue managers. So neither an answer nor its time shows which users
    exist. Raises Unauthorized, or the MQError of a channel.
    """
    managers = call.service.managers
    call.service.check_open(managers.first)
    knowing = [name for name, each in managers.items() if _has_user(each.engine, credentials.user)]
    names = knowing or [managers.first]
    attempts = [_authenticate(call, credentials, name) for name in names]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    failures = list[BaseException]()
    for outcome in outcomes:
        if not isinstance(outcome, BaseException):
            return outcome
        failures.append(outcome)
    delays_s = {name: failure_delay_s(each.engine) for name, each in managers.items()}
    waited_s = max(delays_s[name] for name in names)
    await asyncio.sleep(max(delays_s.values()) - waited_s)
    raise failures[-1]


def _has_user(engine: Engine, user: str) -> bool:
    """Return True if a queue manager has a user; False if its users' file cannot be read."""
    try:
        return users_of(engine).find(user) is not None
    except (StoreError, OSError):
        # Admission says in the log what is wrong with the file.
        return False


async def _authenticate(call: RestCall, credentials: Credentials, name: str) -> AuthenticatedUser:
    """Authenticate a user at one queue manager, by the channel for administrators or programs.

    Users with a role use the channel for administrators; if that channel cannot be used, the other
    one. Raises Unauthorized, or the MQError of the channel.
    """
    service = call.service
    engine = service.managers[name].engine
    found = users_of(engine).find(credentials.user) if _has_user(engine, credentials.user) else None
    user = found or User(credentials.user)
    is_admin = is_administrator(engine, user)
    known = Admitted(user=user.name, groups=user.groups, is_operator=is_admin)
    if roles_of(engine, known):
        with suppress(MQError):
            return await service.authenticate(
                call.request, credentials, service.admin_channel, name
            )
        # The channel for administrators cannot be used. A different answer here would reveal that
        # the user has a role.
    return await service.authenticate(call.request, credentials, service.channel, name)


def _role_names(authenticated: AuthenticatedUser) -> list[str]:
    """Return IBM's names of the user's roles, as ``MQWebAdminRO``; ``MQWebUser`` without a role."""
    if authenticated.admitted.is_operator:
        return [_ADMINISTRATOR]
    engine = authenticated.service.managers[authenticated.applicant.queue_manager].engine
    return [_ROLES[role] for role in roles_of(engine, authenticated.admitted)] or [_PROGRAM]


async def _read_credentials(call: RestCall) -> tuple[str, str]:
    """Return user and password in a JSON body.

    Raises HttpError: 415 for another media type, 413 for more than 4,096 bytes. Raises RestError
    (400) for another form.
    """
    try:
        found = await read_object(call.request, _MAX_BYTES)
    except HttpError as error:
        if error.status is not HTTPStatus.BAD_REQUEST:
            raise
        found = {}
    if set(found) != set(_LOGIN_KEYS) or not all(
        isinstance(value, str) for value in found.values()
    ):
        # The error does not show the body, which may hold a password.
        text = "the body is no JSON object with username and password, two texts"
        raise RestError(HTTPStatus.BAD_REQUEST, NO_MESSAGE_MADE, text)
    return found["username"], found["password"]


def _cookie(call: RestCall, token: str, seconds: int) -> tuple[bytes, bytes]:
    """Return the Set-Cookie header of a login for some seconds; 0 deletes the cookie."""
    secure = "; Secure" if call.http_connection.peer.has_tls else ""
    text = (
        f"{call.service.logins.cookie}={token}; Path=/; Max-Age={seconds}; HttpOnly; "
        f"SameSite=Strict{secure}"
    )
    return b"set-cookie", text.encode()


_RUN_TEXT, _RUN_JSON = "runCommand", "runCommandJSON"
_COMMAND_KEYS: Final = ("type", "command", "qualifier", "name", "parameters", "responseParameters")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: An attribute, an operator and an operand: ``curdepth gt 0``.
_CONDITION: Final = re.compile(r"\s*(\w+)\s+(\w+)\s+(.*\S)\s*")
_WHERE = "WHERE"
#: Words without a value in parentheses, and the values that say whether they are meant.
_SWITCHES: Final = frozenset({"REPLACE", "PURGE", "ALL"})
_BOOLEANS: Final = {"true": True, "yes": True, "false": False, "no": False}
#: Words for states of which IBM's server has but these.
_RUNNING, _ENDED = "running", "endedUnexpectedly"


async def run_command(call: RestCall) -> RestAnswer:
    """Run MQSC commands; 200 even if a command fails.

    Each reply, and the whole answer, has a completion code and a reason code. Commands need the
    roles of :func:`run_script`; if one is missing for one command, no command of the script is run.
    Raises RestError (400) for a body that is no command.
    """
    authenticated = await call.admit_administrator()
    call.parameters(())
    asked = await read_object(call.request)
    for key in asked:
        if key not in _COMMAND_KEYS:
            raise HttpError(
                HTTPStatus.BAD_REQUEST, f"{key!r} is none of {', '.join(_COMMAND_KEYS)}"
            )
    kind = asked.get("type")
    if kind == _RUN_TEXT:
        script = _script_from_text(asked)
    elif kind == _RUN_JSON:
        script = _script_from_json(asked)
    else:
        raise _wrong("type", kind, f"{_RUN_TEXT} or {_RUN_JSON}")
    answer = await run_in_threadpool(_run, call, authenticated, script, as_text=kind == _RUN_TEXT)
    return json_answer(answer)


async def list_managers(call: RestCall) -> RestAnswer:
    """List the queue managers of this server, with their states (running or ended)."""
    await call.service.admit(call.request)
    call.parameters(())
    states = call.service.server_status.states()
    return json_answer({"qmgr": [_manager_json(name, state) for name, state in states.items()]})


async def show_manager(call: RestCall) -> RestAnswer:
    """Show one queue manager with its state; raises RestError (404) if it is not served here."""
    call.check_manager()
    await call.service.admit(call.request)
    call.parameters(())
    name = call.names[0]
    return json_answer({"qmgr": [_manager_json(name, call.service.server_status.states()[name])]})


def _manager_json(name: str, state: ServingState) -> dict[str, str]:
    """Return ``name`` and ``state`` of a queue manager for JSON.

    The state is one of IBM's two words: running or ended.
    """
    return {"name": name, "state": _RUNNING if state.is_live else _ENDED}


def _run(
    call: RestCall, authenticated: AuthenticatedUser, script: str, *, as_text: bool
) -> dict[str, Any]:
    """Check the roles for all commands of a script, run it, and return the answer for JSON.

    The keys are commandResponse, overallCompletionCode and overallReasonCode. With ``as_text`` the
    answer has the text of each message, otherwise the displayed objects as attributes. Runs in a
    thread. Raises MQRC_NOT_AUTHORIZED if a role is missing, RestError (400) for a script without a
    command.
    """
    manager = manager_of(call.service.managers, authenticated.applicant, "http")
    result = run_script(manager, authenticated, script)
    if not result.commands:
        raise _wrong("command", script, "a command")
    convert = _as_text if as_text else _as_values
    return {
        "commandResponse": [item for each in result.commands for item in convert(each)],
        "overallCompletionCode": c.MQCC_OK if result.ok else c.MQCC_FAILED,
        "overallReasonCode": rc.MQRC_NONE if result.ok else MQRCCF_COMMAND_FAILED,
    }


def _as_text(result: CommandResult) -> list[dict[str, Any]]:
    """Return the messages of a command for JSON, each with its two codes and its text.

    The keys are completionCode, reasonCode and text, a list of lines.
    """
    return [{**_codes(message), "text": str(message).splitlines()} for message in result.messages]


def _as_values(result: CommandResult) -> list[dict[str, Any]]:
    """Return the objects that a command displays for JSON.

    The keys are completionCode, reasonCode and parameters: attributes by keyword in lower case. If
    the command displays none, its messages are returned, as lines under the key message.
    """
    shown = [
        {
            "completionCode": c.MQCC_OK,
            "reasonCode": rc.MQRC_NONE,
            "parameters": {keyword.lower(): value for keyword, value in row.items()},
        }
        for row in result.rows
    ]
    return shown or [
        {**_codes(message), "message": str(message).splitlines()} for message in result.messages
    ]


def _codes(message: MqscMessage) -> dict[str, int]:
    """Return a message's codes by the names completionCode and reasonCode.

    A message that only informs has MQCC_OK and MQRC_NONE.
    """
    if message.is_information:
        return {"completionCode": c.MQCC_OK, "reasonCode": rc.MQRC_NONE}
    reason = message.reason or MQRCCF_COMMAND_FAILED
    return {"completionCode": c.MQCC_FAILED, "reasonCode": reason}


def _script_from_text(asked: Mapping[str, Any]) -> str:
    """Return the MQSC text in a request of type runCommand.

    Raises RestError (400) if it is missing or no text.
    """
    parameters = asked.get("parameters")
    command = parameters.get("command") if isinstance(parameters, dict) else None
    if not isinstance(command, str) or not command.strip():
        raise _wrong("parameters.command", command, "a command as text")
    return command


def _script_from_json(asked: Mapping[str, Any]) -> str:
    """Return the MQSC text for a command that a request has as JSON (runCommandJSON).

    All texts are quoted, so a value cannot become a command. Raises RestError (400) for a wrong
    field.
    """
    verb, qualifier = _keyword("command", asked.get("command")), ""
    if "qualifier" in asked:
        qualifier = _keyword("qualifier", asked["qualifier"])
    name = asked.get("name")
    if name is not None:
        qualifier += f"({_quoted('name', name)})"
    parameters, shown = asked.get("parameters", {}), asked.get("responseParameters", [])
    if not isinstance(parameters, dict):
        raise _wrong("parameters", parameters, "an object")
    if not isinstance(shown, list):
        raise _wrong("responseParameters", shown, "a list of words")
    given = [_parameter(_keyword("parameters", key), value) for key, value in parameters.items()]
    return " ".join(
        part
        for part in (
            verb,
            qualifier,
            *given,
            *(_keyword("responseParameters", word) for word in shown),
        )
        if part
    )


def _parameter(keyword: str, value: object) -> str:
    """Return one parameter as MQSC text: ``('MAXDEPTH', 5)`` -> ``MAXDEPTH(5)``.

    A switch such as REPLACE with ``no`` gives "". Raises RestError (400) for a wrong value.
    """
    if keyword in _SWITCHES:
        is_set = _BOOLEANS.get(str(value).lower()) if isinstance(value, (bool, str)) else None
        if is_set is None:
            raise _wrong(f"parameters.{keyword.lower()}", value, "yes or no")
        return keyword if is_set else ""
    if keyword == _WHERE:
        condition = _CONDITION.fullmatch(value) if isinstance(value, str) else None
        if condition is None:
            raise _wrong("parameters.where", value, "ATTRIBUTE OPERATOR VALUE")
        attribute, operator, operand = condition.groups()
        return f"{_WHERE}({attribute} {operator} {_quoted('parameters.where', operand)})"
    values = value if isinstance(value, list) else [value]
    spelled = ",".join(_quoted(f"parameters.{keyword.lower()}", each) for each in values)
    return f"{keyword}({spelled})"


def _quoted(field: str, value: object) -> str:
    """Return a value as MQSC text, in quotes if it is text.

    Raises RestError (400), with ``field``, for a text of several lines and for another type.
    """
    if isinstance(value, str):
        if not value.isprintable():
            # A line of MQSC ends a quoted text, and what follows would be a command.
            raise _wrong(field, value, "a text of one line")
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _wrong(field, value, "a text or a whole number")


def _keyword(field: str, value: object) -> str:
    """Return a word of MQSC in capitals; raises RestError (400), with ``field``, otherwise."""
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise _wrong(field, value, "a word of MQSC")
    return value.upper()


def _wrong(field: str, value: object, what: str) -> RestError:
    """Return the RestError (400) for a field of the body.

    ``what`` describes the allowed values in its text.
    """
    text = f"{field} {value!r} is not {what}"
    return RestError(HTTPStatus.BAD_REQUEST, WRONG_VALUE, text)


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
        run_command,
        {200: _JSON},
        body={_JSON: {"schema": _COMMAND}},
    ),
    RestOperation("GET", "admin/qmgr", list_managers, {200: _JSON}),
    RestOperation("GET", "admin/qmgr/{qmgr}", show_manager, {200: _JSON}),
    RestOperation(
        "POST",
        "login",
        log_in,
        {204: ""},
        body={_JSON: {"schema": _LOGIN}},
        # A login without the password fails, so a forged one does no harm.
        is_open=True,
    ),
    RestOperation("GET", "login", show, {200: _JSON}),
    RestOperation("DELETE", "login", log_out, {204: ""}),
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
