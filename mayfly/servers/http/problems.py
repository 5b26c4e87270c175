"""Problems: the HTTP status for each reason code, and problem+json answers (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from mayfly.admin import SECRETS, AdminError
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import (
    ConnectionBroken,
    InhibitedError,
    LostAnswer,
    MQError,
    NoMessage,
    NotAuthorized,
    ObjectError,
    OptionsError,
    ResourceError,
)

#: The class of an error says how a caller reacts, and so does a status.
_OF_CLASS: Final[tuple[tuple[type[MQError], HTTPStatus], ...]] = (
    # The call may have taken effect. A 503 would ask the client to send it again.
    (LostAnswer, HTTPStatus.INTERNAL_SERVER_ERROR),
    (OptionsError, HTTPStatus.BAD_REQUEST),
    (ObjectError, HTTPStatus.NOT_FOUND),
    (NoMessage, HTTPStatus.NOT_FOUND),
    (NotAuthorized, HTTPStatus.FORBIDDEN),
    (InhibitedError, HTTPStatus.FORBIDDEN),
    (ResourceError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ConnectionBroken, HTTPStatus.SERVICE_UNAVAILABLE),
)
#: Where the class of an error says too little.
_OF_REASON: Final[Mapping[int, HTTPStatus]] = {
    # The name of an object is written wrong.
    rc.MQRC_DYNAMIC_Q_NAME_ERROR: HTTPStatus.BAD_REQUEST,
    rc.MQRC_OBJECT_NAME_ERROR: HTTPStatus.BAD_REQUEST,
    rc.MQRC_OBJECT_Q_MGR_NAME_ERROR: HTTPStatus.BAD_REQUEST,
    # The object is there, and is none for this request.
    rc.MQRC_Q_TYPE_ERROR: HTTPStatus.BAD_REQUEST,
    rc.MQRC_INVALID_DESTINATION: HTTPStatus.BAD_REQUEST,
    # The request is right, and the state or the definition of an object does not allow it.
    rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_CHANNEL_CONFIG_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_DEF_XMIT_Q_TYPE_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_DEF_XMIT_Q_USAGE_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_ENVIRONMENT_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_FUNCTION_NOT_SUPPORTED: HTTPStatus.CONFLICT,
    rc.MQRC_OBJECT_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    rc.MQRC_OBJECT_IN_USE: HTTPStatus.CONFLICT,
    rc.MQRC_OBJECT_TYPE_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_Q_INDEX_TYPE_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_Q_NOT_EMPTY: HTTPStatus.CONFLICT,
    rc.MQRC_REMOTE_Q_NAME_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_SUBSCRIPTION_IN_USE: HTTPStatus.CONFLICT,
    rc.MQRC_SUB_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    rc.MQRC_XMIT_Q_TYPE_ERROR: HTTPStatus.CONFLICT,
    rc.MQRC_XMIT_Q_USAGE_ERROR: HTTPStatus.CONFLICT,
    # Somebody has changed it since it was looked at, or opened.
    rc.MQRC_OBJECT_CHANGED: HTTPStatus.PRECONDITION_FAILED,
    # It will never fit.
    rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    rc.MQRC_MSG_TOO_BIG_FOR_Q: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    rc.MQRC_PROPERTIES_TOO_BIG: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    # It may be otherwise the next time: nothing was done.
    rc.MQRC_BACKED_OUT: HTTPStatus.SERVICE_UNAVAILABLE,
    rc.MQRC_CLUSTER_RESOLUTION_ERROR: HTTPStatus.SERVICE_UNAVAILABLE,
    rc.MQRC_NO_DESTINATIONS_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    rc.MQRC_PUBLICATION_FAILURE: HTTPStatus.SERVICE_UNAVAILABLE,
    rc.MQRC_UNKNOWN_CHANNEL_NAME: HTTPStatus.SERVICE_UNAVAILABLE,
    # The queue manager has failed.
    rc.MQRC_OBJECT_DAMAGED: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def status_of(error: MQError) -> HTTPStatus:
    """Return the HTTP status for an error: by its reason code, else by its class, else 500."""
    if not isinstance(error, LostAnswer) and error.reason in _OF_REASON:
        return _OF_REASON[error.reason]
    by_class = (status for kind, status in _OF_CLASS if isinstance(error, kind))
    return next(by_class, HTTPStatus.INTERNAL_SERVER_ERROR)


MEDIA_TYPE: Final = "application/problem+json"


class Unauthorized(Exception):
    """Credentials of a request are missing or refused (401); the server's log says why.

    ``is_login`` is True if the request had the cookie of a login that has ended.
    """

    def __init__(self, detail: str, *, is_login: bool = False) -> None:
        """Store the text for the client; ``is_login`` says that a login by cookie has ended."""
        super().__init__(detail)
        self.detail, self.is_login = detail, is_login


#: The header of a 401: the credentials that it asks for.
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="mayfly", charset="UTF-8"'}


class HttpError(Exception):
    """A request is wrong, whatever the state of the queue manager; ``status`` is its HTTP status.

    ``more`` are additional members of the problem+json answer.
    """

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        """Store status, text, headers and additional members (``more``) of the answer."""
        super().__init__(f"{status.value}: {detail}")
        self.status, self.detail, self.headers, self.more = status, detail, headers, more


def problem_of(error: MQError | Unauthorized | HttpError) -> JSONResponse:
    """Return the problem+json answer for an error.

    For Unauthorized it has the header WWW-Authenticate, which asks for credentials. For a wrong
    attribute of an object it names attribute and value, but not the value of a secret.
    """
    match error:
        case HttpError():
            return problem(error.status, error.detail, None, error.headers, **error.more)
        case Unauthorized():
            return problem(HTTPStatus.UNAUTHORIZED, error.detail, rc.MQRC_NOT_AUTHORIZED, CHALLENGE)
    more: dict[str, Any] = {}
    if isinstance(error, AdminError):
        more |= {"reasonName": error.reason_name, "attribute": error.attribute.lower()}
        if error.attribute not in SECRETS:
            more["value"] = error.value
    return problem(status_of(error), error.detail or error.text, error.reason, **more)


def problem(
    status: HTTPStatus,
    detail: str,
    reason: int | None = None,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> JSONResponse:
    """Return a problem+json answer with ``status`` and the text ``detail``.

    ``reason`` is an MQRC code, None for none. ``headers`` are added to the answer, ``more`` to the
    members of its JSON.
    """
    usual = {"title": status.phrase, "status": status.value, "detail": detail}
    content: dict[str, Any] = dict(usual)
    if reason is not None:
        content |= {"reason": reason, "reasonName": rc.reason_name(reason)}
    return JSONResponse(content | more, status, headers, media_type=MEDIA_TYPE)
