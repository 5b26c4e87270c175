"""Failures as ``application/problem+json`` (RFC 9457), with reason codes of queue managers."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import (
    ConnectionBroken,
    InhibitedError,
    MQError,
    NotAuthorized,
    ObjectError,
    OptionsError,
    ResourceError,
)

MEDIA_TYPE: Final = "application/problem+json"
#: The status of an error is that of its reason, else that of its class.
_STATUS_OF_REASON: Final = {
    # The request is right, but the state of this server does not allow it.
    rc.MQRC_ENVIRONMENT_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_FUNCTION_NOT_SUPPORTED: HTTPStatus.CONFLICT,
    rc.MQRC_CHANNEL_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    rc.MQRC_UNKNOWN_CHANNEL_NAME: HTTPStatus.SERVICE_UNAVAILABLE,
}
_STATUS_OF_CLASS: Final[tuple[tuple[type[MQError], HTTPStatus], ...]] = (
    (OptionsError, HTTPStatus.BAD_REQUEST),
    (ObjectError, HTTPStatus.NOT_FOUND),
    (NotAuthorized, HTTPStatus.FORBIDDEN),
    (InhibitedError, HTTPStatus.FORBIDDEN),
    (ResourceError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ConnectionBroken, HTTPStatus.SERVICE_UNAVAILABLE),
)


class Unauthorized(Exception):
    """Nobody is let in with these credentials, or with none; the log of the server says why.

    ``is_login`` tells that the credentials were the cookie of a login that has ended.
    """

    def __init__(self, detail: str, *, is_login: bool = False) -> None:
        super().__init__(detail)
        self.detail, self.is_login = detail, is_login


#: The header of a 401: the credentials that it asks for.
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="mayfly", charset="UTF-8"'}


def wrong_request(status: HTTPStatus, detail: str) -> HTTPException:
    """Return the error of a request that no queue manager has seen."""
    return HTTPException(status, detail)


async def of_mq_error(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request that a queue manager, or admission, has refused."""
    assert isinstance(error, MQError)
    by_class = (status for kind, status in _STATUS_OF_CLASS if isinstance(error, kind))
    status = _STATUS_OF_REASON.get(error.reason) or next(by_class, HTTPStatus.INTERNAL_SERVER_ERROR)
    return problem(status, error.detail or error.text, error.reason)


async def of_unauthorized(_request: Request, error: Exception) -> JSONResponse:
    """Ask for other credentials."""
    assert isinstance(error, Unauthorized)
    return problem(HTTPStatus.UNAUTHORIZED, error.detail, rc.MQRC_NOT_AUTHORIZED, CHALLENGE)


async def of_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that is wrong in itself, as one for a resource that is not there."""
    assert isinstance(error, HTTPException)
    status, headers = HTTPStatus(error.status_code), error.headers or {}
    detail = error.detail
    if status is HTTPStatus.NOT_FOUND:
        detail = f"nothing is at {request.url.path}"
    elif status is HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"{request.method} is none of {headers.get('Allow', '')}"
    return problem(status, detail, headers=headers)


async def of_failure(_request: Request, _error: Exception) -> JSONResponse:
    """Answer a request whose handling has failed; the log has what happened."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return problem(status, "the log of the server says what happened")


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
