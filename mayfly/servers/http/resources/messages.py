"""``…/messages/{id}/trace`` and ``…/traces``: where messages are, or how they ended."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from mayfly.admin.security.roles import Role, check_role
from mayfly.client.connection.json_values import (
    MessageTraceJson,
    TracesJson,
    trace_as_json,
    traces_as_json,
)
from mayfly.mqi.errors import MQError
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation
from mayfly.servers.http.service import AuthenticatedUser
from mayfly.verbs.facts import MAX_TRACES, PropertyQuestion, TracesFound


async def trace(call: Call[NoQuery, None]) -> MessageTraceJson:
    """Trace the messages with a MsgId or CorrelId, in hexadecimal.

    ``sentence`` gives the result in one sentence, also when no message is known; ``steps`` has the
    details in order of time (docs/WHY.md). The search covers all queue managers of the server at
    which the user may look; ``notes`` names the others. Raises MQRC_MD_ERROR (400) if the id is not
    valid.
    """
    among, not_asked = await _asked(call)
    found = await run_in_threadpool(
        call.manager.traces.of, call.names["id"], among=among.keys(), not_asked=not_asked
    )
    return trace_as_json(found)


_Moment = Annotated[int, Meta(ge=0)]


class WithProperty(Struct, forbid_unknown_fields=True, rename={"name": "property"}):
    """Query parameters of a trace: a property, and a range of put times."""

    name: Annotated[str, Meta(min_length=1, description="the name of a message property")]
    value: Annotated[str, Meta(description="its value as text, a truth value as true or false")]
    from_ms: Annotated[_Moment | None, Meta(description="put at this time or later")] = None
    before_ms: Annotated[_Moment | None, Meta(description="put before this time")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_TRACES, description="the most traces")] = 20


async def traces(call: Call[WithProperty, None]) -> TracesJson:
    """Trace the messages on this server that have a property, the last put first.

    Times are in ms since 1970. Messages that have ended are not found, because the ledger keeps no
    properties; ``notes`` says so. It searches in contents: messages on queues that the user may not
    browse are left out, and the search is audited. Raises MQRC_OPTIONS_ERROR (400) for an empty
    range of time.
    """
    asked = call.query
    question = PropertyQuestion(
        asked.name, asked.value, asked.from_ms, asked.before_ms, asked.limit
    )
    among, not_asked = await _asked(call)
    users = {call.manager.name: call.authenticated} | among

    def search() -> TracesFound:
        with ExitStack() as stack:
            sessions = {
                name: stack.enter_context(user.connection()).session for name, user in users.items()
            }
            return call.manager.traces.with_property(
                question, among=among.keys(), not_asked=not_asked, sessions=sessions
            )

    return traces_as_json(await run_in_threadpool(search))


async def _asked(call: Call[Any, Any]) -> tuple[dict[str, AuthenticatedUser], list[str]]:
    """Return the other queue managers of the service that a search may use, and the rest.

    The first value has, by name, the user of the request at each queue manager where it has the
    role Role.LOOK. The second has the names of those where it does not, or where authentication
    fails. The queue manager in the path is in neither.
    """
    others = call.service.managers.keys() - {call.manager.name}
    among = dict[str, AuthenticatedUser]()
    for name in others:
        with suppress(MQError, Unauthorized, HttpError):
            authenticated = await call.service.admit(call.request, manager=name)
            check_role(call.service.managers[name].engine, authenticated.admitted, Role.LOOK)
            among[name] = authenticated
    return among, sorted(others - among.keys())


OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/messages/{{id}}/trace", trace, Role.LOOK),
    Operation("GET", f"{OF_MANAGER}/traces", traces, Role.LOOK),
)
