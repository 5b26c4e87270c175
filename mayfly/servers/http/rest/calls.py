"""Calls of IBM's REST API: a request as its handlers take it, their answers and errors."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.types import Send

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import (
    ConnectionBroken,
    InhibitedError,
    LostAnswer,
    MQError,
    NotAuthorized,
)
from mayfly.servers.http.connection import HttpConnection, http_connection_of
from mayfly.servers.http.problems import CHALLENGE, HttpError, Unauthorized, status_of
from mayfly.servers.http.service import AuthenticatedUser, Service

_JSON_TYPE = b"application/json;charset=utf-8"
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class RestAnswer(NamedTuple):
    """One answer: status, headers and body; ``content_type`` is empty without a body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    content_type: bytes = b""

    async def send(self, send: Send) -> None:
        """Send the answer to the client by the ASGI function ``send``."""
        headers = list(self.headers)
        if self.content_type:
            headers.append((b"content-type", self.content_type))
        if self.status != 204:
            headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(
    content: object, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> RestAnswer:
    """Return an answer with ``content`` as JSON in UTF-8; half surrogate pairs become ``?``.

    ``headers`` are pairs of name and value that are added.
    """
    body = _ENCODER.encode(content).encode("utf-8", "replace")
    return RestAnswer(status, headers, body, _JSON_TYPE)


class IbmMessage(NamedTuple):
    """One of IBM's error messages: its number, its explanation, and the action it advises."""

    number: str
    explanation: str
    action: str = "Resubmit the request, correcting any issues."


UNEXPECTED: Final = IbmMessage(
    "MQWB0003E", "A failure that nothing else handles.", "The log of the server says more."
)
NO_QUEUE_MANAGER: Final = IbmMessage(
    "MQWB0009E",
    "The request names a queue manager that is not served here.",
    "Resubmit the request with a valid queue manager name.",
)
NO_CSRF_HEADER: Final = IbmMessage(
    "MQWB0100E",
    "The header shows that no other site has sent the request.",
    "Resubmit the request with the header; any value will do.",
)
NOT_AUTHORIZED: Final = IbmMessage(
    "MQWB0103E",
    "The user has not the authority for this request.",
    "Obtain the authority (SET AUTHREC) and resubmit the request.",
)
NOT_AUTHENTICATED: Final = IbmMessage(
    "MQWB0104E",
    "Credentials are missing, or are not those of a user.",
    "Resubmit the request with valid credentials.",
)
LOGIN_ENDED: Final = IbmMessage(
    "MQWB0112E", "The cookie is of no login that lasts.", "Log in again and resubmit the request."
)
NO_DESTINATION: Final = IbmMessage(
    "MQWB0300E", "The queue manager or destination might not be created or active."
)
NO_MESSAGE_MADE: Final = IbmMessage("MQWB0301E", "The message could not be created.")
WRONG_VALUE: Final = IbmMessage(
    "MQWB0302E",
    "A header or query parameter has a value that is not valid.",
    "Resubmit the request with a valid value.",
)
FAILED: Final = IbmMessage(
    "MQWB0303E", "Sending, publishing, receiving or browsing the message has failed."
)
NO_RESPONSE_HEADER: Final = IbmMessage(
    "MQWB0304E", "A property of the message cannot be a header of the response."
)
WRONG_CHARACTER_SET: Final = IbmMessage("MQWB0305E", "The request is not encoded in UTF-8.")
WRONG_MEDIA_TYPE: Final = IbmMessage("MQWB0306E", "The body of the request is no kind of text.")

#: The explanations of errors by number where no message is put or got, as in administration.
_WITHOUT_MESSAGES: Final[Mapping[str, str]] = {
    FAILED.number: "The request could not be carried out.",
    NO_MESSAGE_MADE.number: "The request is not what this resource takes.",
    WRONG_VALUE.number: "A part of the request has a value that is not valid.",
}
#: The messages of errors by their class.
_OF_CLASS: Final[tuple[tuple[type[MQError], IbmMessage], ...]] = (
    (LostAnswer, FAILED),
    (NotAuthorized, NOT_AUTHORIZED),
    (ConnectionBroken, NO_DESTINATION),
)
#: And of reason codes.
_OF_REASON: Final[Mapping[int, IbmMessage]] = {
    rc.MQRC_Q_MGR_NAME_ERROR: NO_QUEUE_MANAGER,
    rc.MQRC_UNKNOWN_CHANNEL_NAME: NO_DESTINATION,
    rc.MQRC_EXPIRY_ERROR: WRONG_VALUE,
    rc.MQRC_MISSING_REPLY_TO_Q: WRONG_VALUE,
    rc.MQRC_REPORT_OPTIONS_ERROR: WRONG_VALUE,
}


class RestError(Exception):
    """A failed request: its status, one of IBM's messages, and a text that names field and value.

    ``reason`` is the reason code of the queue manager, 0 for none.
    """

    def __init__(
        self,
        status: HTTPStatus,
        failure: IbmMessage,
        text: str,
        *,
        reason: int = rc.MQRC_NONE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store status, IBM message and text of the answer; ``reason`` is MQRC_*, 0 for none.

        ``headers`` are added to the answer.
        """
        super().__init__(text)
        self.status, self.failure, self.text, self.reason = status, failure, text, reason
        self.headers = headers or {}

    def answer(self, *, of_messages: bool) -> RestAnswer:
        """Return the answer for this error, in IBM's JSON form.

        ``of_messages`` says that the resource is one of messages: others do not speak of them.
        """
        number, explanation, action = self.failure
        if not of_messages:
            explanation = _WITHOUT_MESSAGES.get(number, explanation)
        content: dict[str, Any] = {
            "type": "rest",
            # The pages of IBM's documentation say one name, its servers the other.
            "messageId": number,
            "msgId": number,
            "message": f"{number}: {self.text}",
            "explanation": explanation,
            "action": action,
        }
        if self.reason:
            content |= {"completionCode": c.MQCC_FAILED, "reasonCode": self.reason}
        headers = tuple((k.lower().encode(), v.encode()) for k, v in self.headers.items())
        return json_answer({"error": [content]}, self.status, headers)


def wrong_value(name: str, value: str, what: str, *, reason: int = rc.MQRC_NONE) -> RestError:
    """Return the RestError (400) for a wrong header or query parameter.

    ``what`` says in the text which values are allowed. ``reason`` is the MQRC_* of the error, 0 for
    none.
    """
    text = f"{name} {value!r} is not {what}"
    return RestError(HTTPStatus.BAD_REQUEST, WRONG_VALUE, text, reason=reason)


def of_mq_error(error: MQError, what: str) -> RestError:
    """Return the RestError for an MQError; ``what`` names the queue or topic, "" for none.

    A get- or put-inhibited queue has status 405, as in IBM MQ.
    """
    status = status_of(error)
    if isinstance(error, InhibitedError):
        # As with IBM MQ.
        status = HTTPStatus.METHOD_NOT_ALLOWED
    text = f"{what}: {error}" if what else str(error)
    return RestError(status, _failure_of(error, status), text, reason=error.reason)


def _failure_of(error: MQError, status: HTTPStatus) -> IbmMessage:
    """Return the IBM message for an error: by its class, else by reason code, else by status."""
    usual = NO_DESTINATION if status is HTTPStatus.NOT_FOUND else FAILED
    by_class = (failure for kind, failure in _OF_CLASS if isinstance(error, kind))
    return next(by_class, _OF_REASON.get(error.reason, usual))


def of_unauthorized(error: Unauthorized) -> RestError:
    """Return the RestError (401) for credentials that are missing or refused."""
    failure = LOGIN_ENDED if error.is_login else NOT_AUTHENTICATED
    return RestError(
        HTTPStatus.UNAUTHORIZED,
        failure,
        error.detail,
        reason=rc.MQRC_NOT_AUTHORIZED,
        headers=CHALLENGE,
    )


def of_wrong_request(error: HttpError) -> RestError:
    """Return the RestError for a request that was refused before a queue manager was called."""
    status = error.status
    return RestError(status, _OF_STATUS.get(status, FAILED), error.detail, headers=error.headers)


_OF_STATUS: Final = {
    HTTPStatus.FORBIDDEN: NO_CSRF_HEADER,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: WRONG_MEDIA_TYPE,
}


class RestCall(NamedTuple):
    """One request to IBM's REST API, as handlers take it.

    ``names`` are the values for the braces of its path, the queue manager first. ``version`` is 1
    to 3.
    """

    service: Service
    request: Request
    version: int
    names: tuple[str, ...]

    @property
    def http_connection(self) -> HttpConnection:
        """The HTTP connection of the client that sent the request."""
        return http_connection_of(self.request)

    async def admit(self) -> AuthenticatedUser:
        """Authenticate a program by the rules of the channel for programs; return the user.

        Raises RestError (404) for an unknown queue manager, and the errors of ``Service.admit``.
        """
        return await self._authenticate(self.service.channel)

    async def admit_administrator(self) -> AuthenticatedUser:
        """Authenticate a user by the rules of the channel for administrators; return the user.

        The caller must still check the role. Raises the errors of :meth:`admit`.
        """
        return await self._authenticate(self.service.admin_channel)

    def check_manager(self) -> None:
        """Raise RestError (404) if the queue manager of the path is not served here."""
        name = self.names[0]
        if name not in self.service.managers.names:
            text = f"queue manager {name!r} is not served here"
            reason = rc.MQRC_Q_MGR_NAME_ERROR
            raise RestError(HTTPStatus.NOT_FOUND, NO_QUEUE_MANAGER, text, reason=reason)

    async def _authenticate(self, channel: str) -> AuthenticatedUser:
        """Authenticate the user by the rules of a channel, at the queue manager of the path."""
        self.check_manager()
        return await self.service.admit(self.request, channel, self.names[0])

    def headers(self) -> dict[str, str]:
        """Return the headers by name in lower case; the first value if a name is repeated.

        This is ten times as fast as ``request.headers``, which searches all headers for each name.
        """
        given = reversed(self.request.scope["headers"])
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in given}

    def parameters(self, known: Collection[str]) -> dict[str, str]:
        """Return the query parameters by name; empty without any.

        Raises RestError (400) for a name that is not in ``known``, and for a repeated one.
        """
        found: dict[str, str] = {}
        if not self.request.scope["query_string"]:
            return found
        for name, value in self.request.query_params.multi_items():
            if name not in known:
                what = f"one of {', '.join(known)}" if known else "known: there are none here"
                raise wrong_value("query parameter", name, what)
            if name in found:
                raise wrong_value(name, value, "there only once")
            found[name] = value
        return found
