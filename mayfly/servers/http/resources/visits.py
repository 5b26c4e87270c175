"""A request to a resource of one queue manager: its sender and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from mayfly.connection import LocalConnection
from mayfly.engine import Engine
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.http.problems import wrong_request
from mayfly.servers.http.service import Service, Visit

_T = TypeVar("_T")


async def ask(request: Request, do: Callable[[LocalConnection], _T]) -> _T:
    """Let an administrator in to the queue manager of the path; return what ``do`` returns.

    ``do`` has a connection, in a thread of its own: it may wait for the disk. Raises HTTPException
    (404) for a queue manager that is not served here, and as admission.
    """
    visit = await _visit(request)

    def work() -> _T:
        with visit.connection() as connection:
            return do(connection)

    return await run_in_threadpool(work)


async def ask_engine(request: Request, do: Callable[[Engine], _T]) -> _T:
    """Let an operator in as :func:`ask` does; return what ``do`` returns of the queue manager."""
    visit = await _visit(request)
    if not visit.admitted.is_operator:
        said = f"{visit.admitted.user} is no administrator"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, said)
    engine = visit.service.managers[request.path_params["qmgr"]].engine
    return await run_in_threadpool(do, engine)


async def _visit(request: Request) -> Visit:
    service: Service = request.app.state.service
    name = request.path_params["qmgr"]
    if name not in service.managers:
        raise wrong_request(HTTPStatus.NOT_FOUND, f"queue manager {name!r} is not served here")
    return await service.admit(request, manager=name)


def parameters(request: Request, *known: str) -> dict[str, str]:
    """Return the query parameters; raises HTTPException (400) for one unknown, or given twice."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            said = f"query parameter {name!r} is none of {', '.join(known) or 'none'}"
            raise wrong_request(HTTPStatus.BAD_REQUEST, said)
        if name in found:
            raise wrong_request(HTTPStatus.BAD_REQUEST, f"query parameter {name!r} is given twice")
        found[name] = value
    return found


def number(
    given: Mapping[str, str], name: str, least: int, most: int, usual: int | None = None
) -> int | None:
    """Return a whole number of the query within bounds; raises HTTPException (400)."""
    text = given.get(name)
    if text is None:
        return usual
    value = int(text) if text.isdecimal() and text.isascii() and len(text) <= len(str(most)) else -1
    if not least <= value <= most:
        said = f"{name} {text!r} is not a whole number from {least} to {most}"
        raise wrong_request(HTTPStatus.BAD_REQUEST, said)
    return value
