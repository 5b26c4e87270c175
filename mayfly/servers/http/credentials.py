"""Credentials of a request: a password, a token, the cookie of a login, a certificate."""

from __future__ import annotations

import base64
from enum import Enum
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from starlette.requests import Request

from mayfly.servers.http.problems import Unauthorized


class Mechanism(Enum):
    """The ways to come in, by the names of IBM's login resource."""

    NONE = "none"
    BASIC = "basic"
    FORM = "form"
    TOKEN = "token"
    CERTIFICATE = "clientCertificate"


class Credentials(NamedTuple):
    """User and password, the latter the operator's token with ``TOKEN``."""

    mechanism: Mechanism = Mechanism.NONE
    user: str = ""
    password: str = ""


def of_header(given: str) -> Credentials:
    """Return the credentials of an Authorization header; raises Unauthorized for other text."""
    scheme, _, said = given.partition(" ")
    if scheme.lower() == "basic":
        return _basic(said.strip())
    if scheme.lower() == "bearer":
        return Credentials(Mechanism.TOKEN, "", said.strip())
    raise Unauthorized(f"{scheme!r} is neither Basic nor Bearer")


def cookie_of(request: Request, name: str) -> str:
    """Return the value of a cookie, "" without it."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _basic(given: str) -> Credentials:
    """Return user and password of Basic credentials (RFC 7617, in UTF-8)."""
    try:
        text = base64.b64decode(given, validate=True).decode()
    # Other errors of base64 and of UTF-8 are of this class.
    except ValueError:
        raise Unauthorized("these Basic credentials are no base64 of UTF-8") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise Unauthorized("Basic credentials are USER:PASSWORD, and these have no colon")
    return Credentials(Mechanism.BASIC, user, password)
