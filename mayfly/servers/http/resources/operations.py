"""The declaration of an operation: one method of one resource of Mayfly's own.

A declaration says all that is to be known of an operation, once. ``routing`` finds, checks and
answers requests by it, ``openapi`` describes it. The types of query, body and answer are those in
the annotations of the handler. Pages of lists and ETags are here for handlers.
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
from mayfly.servers.http.problems import WrongRequest
from mayfly.servers.http.service import Service, Visit

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
    "id": "a MsgId or CorrelId in hexadecimal; of the schedule, the MsgId of the sender",
}


#: Beside ``Meta(description=…)`` of a field whose value is never shown, as a password.
SECRET: Final = {"is_secret": True}


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """An operation takes no query parameters."""


@dataclass(frozen=True)
class Call(Generic[_Q, _B]):
    """A request that was admitted and checked; ``names`` are the parts of the path in braces."""

    service: Service
    request: Request
    names: Mapping[str, str]
    query: _Q
    body: _B
    admitted: Visit | None

    @property
    def visit(self) -> Visit:
        """The visit of the user; an operation that anybody may ask has none."""
        assert self.admitted is not None
        return self.admitted

    @property
    def manager(self) -> QueueManager:
        """The queue manager of the path, else the first one of the server."""
        return self.service.managers[self.visit.applicant.queue_manager]

    def connection(self) -> AbstractContextManager[LocalConnection]:
        """Have a connection for a block: the role was checked, so it may do everything.

        Its changes stand in audits under the name of the user.
        """
        return self.visit.operating_connection()


class Answered(NamedTuple, Generic[_A]):
    """An answer with headers of its own, or with another status than the usual one."""

    content: _A
    headers: Mapping[str, str] = {}
    status: int | None = None


@dataclass(frozen=True)
class Operation:
    """One method of a path, which is written as in OpenAPI.

    The ``handler`` takes a ``Call[Query, Body]``. A plain function works in a thread, and may wait
    for the disk; a coroutine works in the loop. It returns its answer, ``Answered``, or a Response
    of Starlette for what is no JSON, or raises MQError or ``WrongRequest``. Without a ``role``
    anybody may ask. ``status`` is that of success. ``problems`` are statuses of failures of its
    own, each with the case that it stands for; ``other_answers`` are more statuses of the usual
    answer. ``headers`` are those of a request that it heeds. Where it ``has_etag`` its answers have
    that header, and a GET with If-None-Match is 304 when nothing has changed.
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

    @property
    def tag(self) -> str:
        """Its heading: the module of the handler in words."""
        return self.handler.__module__.rpartition(".")[2].replace("_", " ")

    @property
    def name(self) -> str:
        """Its name in programs that are generated from the description."""
        return f"{self.tag.replace(' ', '_')}_{self.handler.__name__}"

    @property
    def names(self) -> list[str]:
        """The parts of the path in braces."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @cached_property
    def query(self) -> type[msgspec.Struct]:
        """The type of the query parameters."""
        found: type[msgspec.Struct] = self._types[0]
        return found

    @cached_property
    def body(self) -> Any:
        """The type of the body, None for none."""
        return None if self._types[1] is type(None) else self._types[1]

    @cached_property
    def answer(self) -> Any:
        """The type of the answer; None for none, and for what is no JSON."""
        found = self._hints.get("return")
        if get_origin(found) is Answered:
            [found] = get_args(found)
        is_json = found is not type(None) and not (
            isinstance(found, type) and issubclass(found, Response)
        )
        return found if is_json else None

    @cached_property
    def _types(self) -> tuple[Any, ...]:
        [call] = (hint for name, hint in self._hints.items() if name != "return")
        assert get_origin(call) is Call, f"{self.handler} takes no Call[Query, Body]"
        return get_args(call)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.handler, include_extras=True)


#: The value of ``after`` for a list that is ordered by names.
AfterName: TypeAlias = Annotated[
    str, Meta(description="names behind this one: ``next`` of the page before")
]
#: The member of an answer that leads to the page behind it.
Next: TypeAlias = Annotated[
    str | None, Meta(description="the value of ``after`` for the next page, null at the end")
]


def check_span(from_ms: int | None, before_ms: int | None) -> None:
    """Raise WrongRequest (400) for a span of time that ends before it begins."""
    if from_ms is not None and before_ms is not None and from_ms > before_ms:
        said = f"from_ms {from_ms} is behind before_ms {before_ms}"
        raise WrongRequest(HTTPStatus.BAD_REQUEST, said)


def page_by_name(found: Iterable[tuple[str, _T]], limit: int, after: str) -> tuple[list[_T], Next]:
    """Return a page of values by name, those behind ``after``, and the ``next`` of the answer."""
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
    """Return the ETag of what an answer shows: it changes with the value."""
    written = msgspec.json.encode(value, order="sorted")
    return f'"{blake2b(written, digest_size=12).hexdigest()}"'


def is_known(request: Request, etag: str) -> bool:
    """Return True for a GET whose If-None-Match names an ETag."""
    return request.method in ("GET", "HEAD") and _names(_given(request, "if-none-match"), etag)


def check_match(request: Request, etag: str | None) -> None:
    """Raise WrongRequest (412) for a header If-Match or If-None-Match that is not true.

    ``etag`` is that of what is there, None for nothing.
    """
    wanted, unwanted = _given(request, "if-match"), _given(request, "if-none-match")
    if wanted and not _names(wanted, etag):
        there = "nothing is there" if etag is None else f"the ETag is {etag}"
        said = f"If-Match is {', '.join(wanted)}; {there}"
        raise WrongRequest(HTTPStatus.PRECONDITION_FAILED, said)
    if unwanted and _names(unwanted, etag):
        said = f"If-None-Match is {', '.join(unwanted)}; the ETag is {etag}"
        raise WrongRequest(HTTPStatus.PRECONDITION_FAILED, said)


def is_conditional(request: Request) -> bool:
    """Return True if a request says what it has seen: If-Match or If-None-Match."""
    return bool(_given(request, "if-match") or _given(request, "if-none-match"))


def check_required_match(request: Request, etag: str | None) -> None:
    """Raise as check_match, and WrongRequest (428) where If-Match is missing."""
    if not _given(request, "if-match"):
        said = "If-Match is missing: it is the ETag of what is to be changed, or *"
        raise WrongRequest(HTTPStatus.PRECONDITION_REQUIRED, said)
    check_match(request, etag)


def check_put(request: Request, etag: str | None) -> None:
    """Raise as check_match; what is there is replaced with If-Match alone (428)."""
    check_match(request, etag)
    if etag is not None:
        check_required_match(request, etag)


def _given(request: Request, name: str) -> list[str]:
    values = ",".join(request.headers.getlist(name)).split(",")
    return [value.strip() for value in values if value.strip()]


def _names(given: list[str], etag: str | None) -> bool:
    return etag is not None and (_ANY in given or etag in given)
