"""``/health/live`` and ``/health/ready``: probes, which anybody may ask (docs/SERVING.md)."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.servers.http.service import Service
from mayfly.servers.standing import State


def live(request: Request) -> JSONResponse:
    """Answer 200 while at least one queue manager works; else the process should be restarted."""
    states = _states(request)
    return _answer(states, is_good=any(state.is_live for state in states.values()))


def ready(request: Request) -> JSONResponse:
    """Answer 200 while all queue managers take work."""
    states = _states(request)
    return _answer(states, is_good=all(state is State.READY for state in states.values()))


def _states(request: Request) -> dict[str, State]:
    service: Service = request.app.state.service
    return service.standing.states()


def _answer(states: dict[str, State], *, is_good: bool) -> JSONResponse:
    status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
    # A cache on the way would answer for a server that is gone.
    return JSONResponse({"queue_managers": states}, status, {"Cache-Control": "no-store"})
