"""``…/messages/{id}/story``: where a message is, or what became of it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.connection.json_values import whereabouts_as_json
from mayfly.servers.http.resources.visits import ask, parameters


async def story(request: Request) -> JSONResponse:
    """Tell of the messages with a MsgId or CorrelId, in hexadecimal: 200, also when none is known.

    ``sentence`` says it in one sentence, ``steps`` in order of time; see docs/WHY.md. Raises
    MQRC_MD_ERROR (400) for what is no id.
    """
    parameters(request)
    identifier = request.path_params["id"]
    found = await ask(request, lambda connection: connection.admin.why(identifier))
    return JSONResponse(whereabouts_as_json(found))
