"""ETags: a change is made only of what its sender has seen (RFC 9110, 13.1)."""

from __future__ import annotations

from hashlib import blake2b
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.requests import Request

from mayfly.servers.http.problems import wrong_request

_ANY: Final = "*"
IF_MATCH: Final = {"If-Match": "the ETag of what is to be changed, or `*`"}
PROBLEMS: Final = {HTTPStatus.PRECONDITION_FAILED: "it has changed since: the ETag is another one"}
REQUIRED: Final = {
    **PROBLEMS,
    HTTPStatus.PRECONDITION_REQUIRED: "If-Match is missing; `*` is for whatever is there",
}


def etag_of(value: object) -> str:
    """Return the ETag of what an answer shows: it changes with the value."""
    written = msgspec.json.encode(value, order="sorted")
    return f'"{blake2b(written, digest_size=12).hexdigest()}"'


def is_known(request: Request, etag: str) -> bool:
    """Return True if the sender of a GET has said that it has the answer of an ETag."""
    return request.method in ("GET", "HEAD") and _names(_given(request, "if-none-match"), etag)


def check_match(request: Request, etag: str | None) -> None:
    """Raise HTTPException (412) for a header If-Match or If-None-Match that is not true.

    ``etag`` is that of what is there, None for nothing.
    """
    wanted, unwanted = _given(request, "if-match"), _given(request, "if-none-match")
    if wanted and not _names(wanted, etag):
        there = "nothing is there" if etag is None else f"the ETag is {etag}"
        said = f"If-Match is {', '.join(wanted)}; {there}"
        raise wrong_request(HTTPStatus.PRECONDITION_FAILED, said)
    if unwanted and _names(unwanted, etag):
        said = f"If-None-Match is {', '.join(unwanted)}; the ETag is {etag}"
        raise wrong_request(HTTPStatus.PRECONDITION_FAILED, said)


def is_conditional(request: Request) -> bool:
    """Return True if a request says what it has seen: If-Match or If-None-Match."""
    return bool(_given(request, "if-match") or _given(request, "if-none-match"))


def check_required_match(request: Request, etag: str | None) -> None:
    """Raise as check_match, and HTTPException (428) where If-Match is missing."""
    if not _given(request, "if-match"):
        said = "If-Match is missing: it is the ETag of what is to be changed, or *"
        raise wrong_request(HTTPStatus.PRECONDITION_REQUIRED, said)
    check_match(request, etag)


def _given(request: Request, name: str) -> list[str]:
    values = ",".join(request.headers.getlist(name)).split(",")
    return [value.strip() for value in values if value.strip()]


def _names(given: list[str], etag: str | None) -> bool:
    return etag is not None and (_ANY in given or etag in given)
