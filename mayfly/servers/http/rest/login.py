"""The login resource: a user logs in with a password, and later requests send a cookie."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from mayfly.admin.security.applicant import Admitted, failure_delay_s, is_administrator
from mayfly.admin.security.roles import Role, roles_of
from mayfly.admin.security.users import User, users_of
from mayfly.engine import Engine
from mayfly.mqi.errors import MQError, StoreError
from mayfly.servers.http.connection import read_object
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.http.rest.calls import (
    NO_MESSAGE_MADE,
    RestAnswer,
    RestCall,
    RestError,
    json_answer,
)
from mayfly.servers.http.service import (
    LIFE_SECONDS,
    AuthenticatedUser,
    Credentials,
    Mechanism,
    cookie_of,
)

_MAX_BYTES: Final = 4_096
_KEYS: Final = ("username", "password")
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
    if set(found) != set(_KEYS) or not all(isinstance(value, str) for value in found.values()):
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
