"""``…/messages/{id}/story``: where a message is, or what became of it."""

from __future__ import annotations

from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from mayfly.connection.json_values import WhereaboutsJson, whereabouts_as_json
from mayfly.mqi.errors import MQError
from mayfly.security.roles import Role, check_role
from mayfly.servers.http.problems import Unauthorized
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation


async def story(call: Call[NoQuery, None]) -> WhereaboutsJson:
    """Tell of the messages with a MsgId or CorrelId, in hexadecimal, also when none is known.

    ``sentence`` says it in one sentence, ``steps`` in order of time; see docs/WHY.md. All queue
    managers of the server are asked at which the user may look; ``notes`` name the others. Raises
    MQRC_MD_ERROR (400) for what is no id.
    """
    among = await _may_look_at(call)
    not_asked = sorted(call.service.managers.keys() - among - {call.manager.name})
    stories = call.manager.stories
    found = await run_in_threadpool(stories.of, call.names["id"], among=among, not_asked=not_asked)
    return whereabouts_as_json(found)


async def _may_look_at(call: Call[Any, Any]) -> set[str]:
    """Return the other queue managers of the server that let the user in, to look at them."""
    found = set()
    for name in call.service.managers.keys() - {call.manager.name}:
        try:
            visit = await call.service.admit(call.request, manager=name)
            check_role(call.service.managers[name].engine, visit.admitted, Role.LOOK)
        except (MQError, Unauthorized, HTTPException):
            continue
        found.add(name)
    return found


OPERATIONS: Final = (Operation("GET", f"{OF_MANAGER}/messages/{{id}}/story", story, Role.LOOK),)
