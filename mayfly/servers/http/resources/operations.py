"""Operations of Mayfly's JSON API: the declaration of one method of one resource.

An operation is declared once. ``routing`` finds, checks and answers requests by the declaration,
and ``openapi`` describes it. The types of query, body and answer are those in the annotations of
the handler. This module also has pages of lists and ETags, which handlers use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from http import HTTPStatus
from itertools import islice
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from mayfly.admin.security.roles import Role
from mayfly.client.connection import LocalConnection
from mayfly.queue_manager import QueueManager
from mayfly.servers.clients import manager_of
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.service import AuthenticatedUser, Service

_Q = TypeVar("_Q")
_B = TypeVar("_B")
_A = TypeVar("_A")
_T = TypeVar("_T")

JSON: Final = "application/json"
#: The version of Mayfly's own resources. A change that clients could notice needs a new version.
OWN: Final = "/mayfly/v1"
#: The resources of one queue manager.
OF_MANAGER: Final = f"{OWN}/qmgr/{{qmgr}}"
#: The parts of paths in braces.
NAMES: Final = {
    "qmgr": "a queue manager of this server",
    "user": "a user, 1 to 12 characters of A-Z a-z 0-9 . _ @ -",
    "object_type": "a type of object in lower case: `queue`, `topic`, `qmgr` …",
    "profile": "a name, or one with `?` `*` `**`; `/` is written `%2F`; `SELF` of qmgr",
    "entity_kind": "`principal` or `group`",
    "entity": "the name of a user or group",
    "kind": "a kind of object as in MQSC, in lower case: `qlocal`, `channel`, `qmgr` …",
    "name": "the name of an object; `/` is written `%2F`",
    "queue": "a local queue; `/` is written `%2F`",
    "channel": "a channel; `/` is written `%2F`",
    "connection": "CONN of a connection: 16 hexadecimal digits",
    "consumer": "a consumer of a pipeline; `/` is written `%2F`",
    "experiment": "an experiment that was begun here, by its id",
    "place": "the place of a message in a list: 32 hexadecimal digits",
    "undo": "the undo of a change, by its id",
    "id": "a MsgId or CorrelId in hexadecimal; of the schedule, the MsgId of the sender",
}


#: Beside ``Meta(description=…)`` of a field whose value is never shown, as a password.
SECRET: Final = {"is_secret": True}


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query type of operations without query parameters."""


@dataclass(frozen=True)
class Call(Generic[_Q, _B]):
    """One request that was authenticated and checked, as handlers take it.

    ``names`` are the values for the braces of the path. ``admitted`` is None for an operation that
    needs no credentials.
    """

    service: Service
    request: Request
    names: Mapping[str, str]
    query: _Q
    body: _B
    admitted: AuthenticatedUser | None

    @property
    def authenticated(self) -> AuthenticatedUser:
        """The authenticated user; AssertionError for an operation without credentials."""
        assert self.admitted is not None
        return self.admitted

    @property
    def manager(self) -> QueueManager:
        """The queue manager in the path, else the first open one of the server.

        Raises MQRC_HOST_NOT_AVAILABLE if another server has become its owner since.
        """
        return manager_of(self.service.managers, self.authenticated.applicant, "http")

    def connection(self) -> AbstractContextManager[LocalConnection]:
        """Open a connection with all authority for a ``with`` block: the role was checked before.

        Audits show its changes under the name of the user. The block must run in a thread.
        """
        return self.authenticated.operating_connection()


class Answered(NamedTuple, Generic[_A]):
    """An answer with additional headers, or with another status than ``Operation.status``."""

    content: _A
    headers: Mapping[str, str] = {}
    status: int | None = None


@dataclass(frozen=True)
class Operation:
    """One method of a path, which is written as in OpenAPI.

    ``handler`` takes a ``Call[Query, Body]``. A plain function runs in a thread, and may wait for
    the disk; a coroutine runs in the event loop. It returns the content of the answer, an
    ``Answered``, or a Starlette Response if the answer is not JSON; it may raise MQError or
    HttpError. Without a ``role`` no credentials are needed. ``status`` is the status of success.
    ``problems`` describes error statuses that only this operation has; ``other_answers`` describes
    more success statuses. ``headers`` are request headers that the handler uses. With ``has_etag``
    answers have an ETag, and a GET with a matching If-None-Match gets 304. With
    ``answers_standby`` it is carried out as well while no queue manager is open: its user is then
    identified, has no role, and the call has no ``manager``.
    """

    method: str
    path: str
    handler: Callable[[Call[Any, Any]], Any]
    role: Role | None
    status: HTTPStatus = HTTPStatus.OK
    problems: Mapping[HTTPStatus, str] = field(default_factory=dict)
    other_answers: Mapping[HTTPStatus, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON
    has_etag: bool = False
    answers_standby: bool = False

    @property
    def tag(self) -> str:
        """The heading of the operation in OpenAPI: the name of the handler's module."""
        return self.handler.__module__.rpartition(".")[2].replace("_", " ")

    @property
    def name(self) -> str:
        """The operation's id in OpenAPI, from which generators make function names."""
        return f"{self.tag.replace(' ', '_')}_{self.handler.__name__}"

    @property
    def names(self) -> list[str]:
        """The names in the braces of the path: ``…/{qmgr}/queues/{queue}`` has qmgr and queue."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @cached_property
    def query(self) -> type[msgspec.Struct]:
        """The type of the query parameters."""
        found: type[msgspec.Struct] = self._types[0]
        return found

    @cached_property
    def body(self) -> Any:
        """The type of the body; None if the operation takes no body."""
        return None if self._types[1] is type(None) else self._types[1]

    @cached_property
    def answer(self) -> Any:
        """The type of the answer's JSON; None for an answer without a body or not in JSON."""
        found = self._hints.get("return")
        if get_origin(found) is Answered:
            [found] = get_args(found)
        is_json = found is not type(None) and not (
            isinstance(found, type) and issubclass(found, Response)
        )
        return found if is_json else None

    @cached_property
    def _types(self) -> tuple[Any, ...]:
        """The types of query and body, from the annotation ``Call[Query, Body]``.

        AssertionError if the handler has another annotation.
        """
        [call] = (hint for name, hint in self._hints.items() if name != "return")
        assert get_origin(call) is Call, f"{self.handler} takes no Call[Query, Body]"
        return get_args(call)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """The annotations of the handler, by parameter name and ``return``."""
        return get_type_hints(self.handler, include_extras=True)


#: The value of ``after`` for a list that is ordered by names.
AfterName: TypeAlias = Annotated[
    str, Meta(description="names behind this one: ``next`` of the page before")
]
#: The member of an answer that names the page after it.
Next: TypeAlias = Annotated[
    str | None, Meta(description="the value of ``after`` for the next page, null at the end")
]


def check_span(from_ms: int | None, before_ms: int | None) -> None:
    """Raise HttpError (400) if a range of time ends before it begins; None means no limit."""
    if from_ms is not None and before_ms is not None and from_ms > before_ms:
        text = f"from_ms {from_ms} is behind before_ms {before_ms}"
        raise HttpError(HTTPStatus.BAD_REQUEST, text)


def page_by_name(found: Iterable[tuple[str, _T]], limit: int, after: str) -> tuple[list[_T], Next]:
    """Return at most ``limit`` values with names after ``after``, by name, and the last name.

    The last name is the ``after`` of the next page, None if no values follow. ``found`` has pairs
    of name and value in any order.
    """
    rest = ((name, value) for name, value in sorted(found, key=lambda one: one[0]) if name > after)
    page = list(islice(rest, limit + 1))
    following = page[limit - 1][0] if len(page) > limit else None
    return [value for _name, value in page[:limit]], following


# ETags: a change is made only of what its sender has seen (RFC 9110, 13.1).
_ANY: Final = "*"
IF_MATCH: Final = {"If-Match": "the ETag of what is to be changed, or `*`"}
#: For changes that heed If-Match, and for those that need it.
MATCH_PROBLEMS: Final = {
    HTTPStatus.PRECONDITION_FAILED: "it has changed since: the ETag is another one"
}
MATCH_REQUIRED: Final = {
    **MATCH_PROBLEMS,
    HTTPStatus.PRECONDITION_REQUIRED: "If-Match is missing; `*` is for whatever is there",
}


def etag_of(value: object) -> str:
    """Return the ETag for the content of an answer: equal contents have equal ETags."""
    written = msgspec.json.encode(value, order="sorted")
    return f'"{blake2b(written, digest_size=12).hexdigest()}"'


def is_known(request: Request, etag: str) -> bool:
    """Return True for a GET or HEAD whose If-None-Match names ``etag``, to be answered with 304."""
    return request.method in ("GET", "HEAD") and _matches(
        _header_values(request, "if-none-match"), etag
    )


def check_match(request: Request, etag: str | None) -> None:
    """Raise HttpError (412) if If-Match or If-None-Match does not fit the present object.

    ``etag`` is that of the object, None if it does not exist. Without both headers it does nothing.
    """
    wanted, unwanted = _header_values(request, "if-match"), _header_values(request, "if-none-match")
    if wanted and not _matches(wanted, etag):
        there = "nothing is there" if etag is None else f"the ETag is {etag}"
        text = f"If-Match is {', '.join(wanted)}; {there}"
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, text)
    if unwanted and _matches(unwanted, etag):
        text = f"If-None-Match is {', '.join(unwanted)}; the ETag is {etag}"
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, text)


def is_conditional(request: Request) -> bool:
    """Return True if a request has If-Match or If-None-Match."""
    return bool(_header_values(request, "if-match") or _header_values(request, "if-none-match"))


def check_required_match(request: Request, etag: str | None) -> None:
    """Raise HttpError if If-Match is missing (428) or names another ETag (412).

    ``etag`` is that of the present object, None if it does not exist.
    """
    if not _header_values(request, "if-match"):
        text = "If-Match is missing: it is the ETag of what is to be changed, or *"
        raise HttpError(HTTPStatus.PRECONDITION_REQUIRED, text)
    check_match(request, etag)


def check_put(request: Request, etag: str | None) -> None:
    """Raise HttpError if a PUT must not create or replace an object.

    An existing object is replaced only with If-Match (428 without it). ``etag`` is that of the
    object, None if it does not exist; a header that names another ETag is 412.
    """
    check_match(request, etag)
    if etag is not None:
        check_required_match(request, etag)


def _header_values(request: Request, name: str) -> list[str]:
    """Return the values of a header that holds a list, separated by commas; [] without it."""
    values = ",".join(request.headers.getlist(name)).split(",")
    return [value.strip() for value in values if value.strip()]


def _matches(given: list[str], etag: str | None) -> bool:
    """Return True if a list of ETags names ``etag``, or is ``*`` and an object exists.

    ``etag`` is None if no object exists; then the result is False.
    """
    return etag is not None and (_ANY in given or etag in given)
