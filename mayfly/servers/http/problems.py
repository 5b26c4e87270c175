"""Failures as ``application/problem+json`` (RFC 9457), with reason codes of queue managers."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.http.statuses import status_of

MEDIA_TYPE: Final = "application/problem+json"


class Unauthorized(Exception):
    """Nobody is let in with these credentials, or with none; the log of the server says why.

    ``is_login`` tells that the credentials were the cookie of a login that has ended.
    """

    def __init__(self, detail: str, *, is_login: bool = False) -> None:
        super().__init__(detail)
        self.detail, self.is_login = detail, is_login


#: The header of a 401: the credentials that it asks for.
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="mayfly", charset="UTF-8"'}


class WrongRequest(HTTPException):
    """A request is refused; ``more`` are members of the problem beside those of every one."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        headers: Mapping[str, str] | None,
        more: Mapping[str, object],
    ) -> None:
        super().__init__(status, detail, headers)
        self.more = more


def wrong_request(
    status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
) -> HTTPException:
    """Return the error of a request that no queue manager has refused."""
    return WrongRequest(status, detail, headers, more)


def of_mq_error(error: MQError) -> JSONResponse:
    """Answer a request that a queue manager, or admission, has refused."""
    return problem(status_of(error), error.detail or error.text, error.reason)


def of_unauthorized(error: Unauthorized) -> JSONResponse:
    """Ask for other credentials."""
    return problem(HTTPStatus.UNAUTHORIZED, error.detail, rc.MQRC_NOT_AUTHORIZED, CHALLENGE)


def of_http_error(error: HTTPException) -> JSONResponse:
    """Answer a request that is wrong in itself, as one for a resource that is not there."""
    more = error.more if isinstance(error, WrongRequest) else {}
    return problem(HTTPStatus(error.status_code), error.detail, None, error.headers, **more)


def problem(
    status: HTTPStatus,
    detail: str,
    reason: int | None = None,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> JSONResponse:
    """Return an answer that tells of a failure; ``more`` are members of its own."""
    told = {"title": status.phrase, "status": status.value, "detail": detail}
    content: dict[str, Any] = told | more
    if reason is not None:
        content |= {"reason": reason, "reasonName": rc.reason_name(reason)}
    return JSONResponse(content, status, headers, media_type=MEDIA_TYPE)
