"""``…/messages/{id}/story``: where a message is, or what became of it."""

from __future__ import annotations

from typing import Final

from mayfly.connection.json_values import WhereaboutsJson, whereabouts_as_json
from mayfly.security.roles import Role
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation


def story(call: Call[NoQuery, None]) -> WhereaboutsJson:
    """Tell of the messages with a MsgId or CorrelId, in hexadecimal, also when none is known.

    ``sentence`` says it in one sentence, ``steps`` in order of time; see docs/WHY.md. Raises
    MQRC_MD_ERROR (400) for what is no id.
    """
    with call.connection() as connection:
        return whereabouts_as_json(connection.admin.why(call.names["id"]))


OPERATIONS: Final = (Operation("GET", f"{OF_MANAGER}/messages/{{id}}/story", story, Role.LOOK),)
