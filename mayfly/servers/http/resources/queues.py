"""``…/queues``: local queues by where their messages stand, and how lives on them have ended."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.engine.face.operating import Figures, QueueFigures, figures
from mayfly.servers.http.problems import problem
from mayfly.servers.http.resources.visits import ask_engine, number, parameters

_USUAL_LIMIT, _MOST = 200, 10_000
_OF_ALL: Final = ("now_ms", "next_due_ms", "is_releasing", "ledger_first", "ledger_last")


async def listed(request: Request) -> JSONResponse:
    """List the predefined local queues by name: 200.

    ``limit`` is 200 unless it is given, 10,000 at most; ``others`` are the rest and all dynamic
    queues together. The queue manager's own figures stand beside them.
    """
    limit = number(parameters(request, "limit"), "limit", 1, _MOST, _USUAL_LIMIT)
    assert limit is not None
    found: Figures = await ask_engine(request, lambda engine: figures(engine, limit))
    told = {name: getattr(found, name) for name in _OF_ALL}
    queues = [{"name": name} | _as_json(one) for name, one in found.queues.items()]
    return JSONResponse(told | {"queues": queues, "others": _as_json(found.others)})


async def shown(request: Request) -> JSONResponse:
    """Show one local queue: 200, or 404 for a name that is not one's."""
    parameters(request)
    name = request.path_params["queue"]
    found: Figures = await ask_engine(request, lambda engine: figures(engine, 1, name))
    one = found.queues.get(name)
    if one is None:
        return problem(HTTPStatus.NOT_FOUND, f"{name!r} is no local queue")
    return JSONResponse({"name": name} | _as_json(one))


def _as_json(one: QueueFigures) -> dict[str, Any]:
    return one._asdict() | {"present": one.present and dict(one.present), "ended": dict(one.ended)}
