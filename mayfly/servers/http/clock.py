"""``/mayfly/v1/clock``: the time of the queue managers, which a test may move."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime.virtual_clock import VirtualClock
from mayfly.servers.http.bodies import read_object, whole_number
from mayfly.servers.http.service import Service, Visit

_ADVANCE: Final = "advance_ms"


class Clock(HTTPEndpoint):
    """The clock of the host: all of its queue managers go by it."""

    async def get(self, request: Request) -> JSONResponse:
        """Say what time it is, and whether it goes by itself."""
        service: Service = request.app.state.service
        visit = await service.admit(request)
        return JSONResponse(await run_in_threadpool(_time, visit, None))

    async def post(self, request: Request) -> JSONResponse:
        """Move a virtual clock on, and do all work that falls due on the way; then answer.

        Refused with 409 (MQRC_ENVIRONMENT_ERROR) where time goes by itself, with 400
        (MQRC_OPTIONS_ERROR) for a step back.
        """
        service: Service = request.app.state.service
        visit = await service.admit(request)
        step_ms = whole_number(await read_object(request, (_ADVANCE,)), _ADVANCE)
        return JSONResponse(await run_in_threadpool(_time, visit, step_ms))


def _time(visit: Visit, step_ms: int | None) -> dict[str, Any]:
    with visit.connection() as connection:
        admin = connection.admin
        if step_ms is not None:
            admin.advance_clock(step_ms)
        now_ms = connection.now_ms()
    manager = visit.service.managers[visit.applicant.queue_manager]
    return {
        "time_ms": now_ms,
        "time": _spelled(now_ms),
        "is_virtual": isinstance(manager.engine.clock, VirtualClock),
    }


def _spelled(now_ms: int) -> str:
    moment = datetime.fromtimestamp(now_ms // SECOND_MS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{now_ms % SECOND_MS:03d}Z"
