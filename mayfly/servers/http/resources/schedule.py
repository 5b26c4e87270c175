"""``…/schedule``: delayed messages are listed, cancelled, rescheduled and released."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.connection import LocalConnection
from mayfly.connection.json_values import audit_as_json, scheduled_as_json
from mayfly.connection.values import Receipt, ScheduleFilter
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.servers.http.bodies import read_object, whole_number
from mayfly.servers.http.problems import problem, wrong_request
from mayfly.servers.http.resources.visits import ask, number, parameters

_USUAL_LIMIT, _MOST = 20, 1_000
#: Positions have 64 bits.
_LAST_POSITION: Final = 2**63 - 1
_FILTERS: Final = ("queue", "sender", "due_from_ms", "due_before_ms", "properties")
#: The times that one message may be given.
_TIMES: Final = ("delay_ms", "deliver_at_ms")


class _Action(NamedTuple):
    """An operation on delayed messages, and the receipt that means success.

    The verbs take the schedule, an id or a filter, and the times that a request may give.
    """

    receipt: Receipt
    one: Callable[..., Receipt]
    many: Callable[..., Iterator[int]]
    times: tuple[str, ...] = ()


#: By the word in the path.
ACTIONS: Final = {
    "cancel": _Action(
        Receipt.CANCELLED,
        lambda verbs, msg_id: verbs.cancel(msg_id),
        lambda verbs, where: verbs.cancel_all(where),
    ),
    "release": _Action(
        Receipt.RELEASED,
        lambda verbs, msg_id: verbs.release(msg_id),
        lambda verbs, where: verbs.release_all(where),
    ),
    "reschedule": _Action(
        Receipt.RESCHEDULED,
        lambda verbs, msg_id, **time: verbs.reschedule(msg_id, **time),
        lambda verbs, where, **time: verbs.reschedule_all(where, **time),
        ("delay_ms", "deliver_at_ms", "by_ms"),
    ),
}


class Schedule(HTTPEndpoint):
    """All delayed messages of a queue manager."""

    async def get(self, request: Request) -> JSONResponse:
        """List delayed messages by delivery time: 200.

        Filters are ``queue``, ``sender``, ``due_from_ms`` and ``due_before_ms``. ``limit`` is 20
        unless it is given, 1,000 at most; ``next`` is the value of ``after`` for the next page,
        null at the end.
        """
        return await _listed(request)

    async def post(self, request: Request) -> JSONResponse:
        """Cancel, release or reschedule all messages that a filter finds: 200 with their number.

        The body has ``action``, ``where`` with filters, and for ``reschedule`` one of
        ``delay_ms``, ``deliver_at_ms`` and ``by_ms``. An empty ``where`` is refused without
        ``"all": true``. With ``"dry_run": true`` nothing is changed, and the number is that of
        what would be.
        """
        return await _changed_many(request)


async def _listed(request: Request) -> JSONResponse:
    given = parameters(request, *_FILTERS[:-1], "limit", "after")
    where = ScheduleFilter(
        given.get("queue"),
        given.get("sender"),
        due_from_ms=number(given, "due_from_ms", 0, LATEST_DUE_MS),
        due_before_ms=number(given, "due_before_ms", 0, LATEST_DUE_MS),
    )
    limit = number(given, "limit", 1, _MOST, _USUAL_LIMIT)
    after = _position(given.get("after"))
    assert limit is not None
    page = await ask(request, lambda c: c.schedule.list(where, limit=limit, after=after))
    following = str(page[-1].position) if len(page) == limit else None
    return JSONResponse({"messages": [scheduled_as_json(one) for one in page], "next": following})


async def shown(request: Request) -> JSONResponse:
    """Show one delayed message by the MsgId of its sender: 200, or 404 when none waits."""
    parameters(request)
    msg_id = request.path_params["id"]
    found = await ask(request, lambda c: c.schedule.show(msg_id))
    if found is None:
        return problem(HTTPStatus.NOT_FOUND, f"no message {msg_id} waits for its delivery time")
    return JSONResponse(scheduled_as_json(found))


async def audited(request: Request) -> JSONResponse:
    """List the latest changes of the schedule, the newest first: 200."""
    given = parameters(request, "limit")
    limit = number(given, "limit", 1, _MOST, _USUAL_LIMIT)
    assert limit is not None
    entries = await ask(request, lambda c: c.schedule.audit(limit))
    return JSONResponse({"changes": [audit_as_json(entry) for entry in entries]})


async def changed(word: str, request: Request) -> JSONResponse:
    """Cancel, release or reschedule one delayed message.

    200 with the receipt when that is done, 404 for a message that is not known, 409 with the
    receipt for one that has left, or that an open unit of work has. ``reschedule`` takes a body
    with ``delay_ms`` or ``deliver_at_ms``.
    """
    parameters(request)
    action, msg_id = ACTIONS[word], request.path_params["id"]
    times = dict[str, int]()
    if action.times:
        times = _times(await read_object(request, _TIMES), _TIMES)
    receipt = await ask(request, partial(_change_one, action, msg_id, times))
    if receipt is action.receipt:
        return JSONResponse({"msg_id": msg_id, "receipt": receipt})
    is_known = receipt is not Receipt.UNKNOWN
    status = HTTPStatus.CONFLICT if is_known else HTTPStatus.NOT_FOUND
    return problem(status, f"message {msg_id}: {receipt}", msg_id=msg_id, receipt=receipt)


async def _changed_many(request: Request) -> JSONResponse:
    parameters(request)
    keys = ("action", "where", "all", "dry_run", *ACTIONS["reschedule"].times)
    given = await read_object(request, keys)
    action = ACTIONS.get(str(given.get("action")))
    if action is None:
        raise _wrong("action", given.get("action"), " or ".join(ACTIONS))
    where = _where(given.get("where"))
    is_dry, is_all = _flag(given, "dry_run"), _flag(given, "all")
    if where == ScheduleFilter() and not is_all:
        raise wrong_request(
            HTTPStatus.BAD_REQUEST, 'where is empty: {"all": true} means all delayed messages'
        )
    times = _times(given, action.times)
    if not action.times and any(name in given for name in ACTIONS["reschedule"].times):
        raise _wrong("action", given["action"], "reschedule, and a time is given")
    do = partial(_count, where) if is_dry else partial(_change_many, action, where, times)
    count = await ask(request, do)
    return JSONResponse({"receipt": action.receipt, "message_count": count, "dry_run": is_dry})


def _change_one(
    action: _Action, msg_id: str, times: Mapping[str, int], connection: LocalConnection
) -> Receipt:
    receipt = action.one(connection.schedule, msg_id, **times)
    if receipt is Receipt.RELEASED:
        # It can be got when the answer comes.
        connection.admin.run_due()
    return receipt


def _change_many(
    action: _Action,
    where: ScheduleFilter,
    times: Mapping[str, int],
    connection: LocalConnection,
) -> int:
    counts = list(action.many(connection.schedule, where, **times))
    if action.receipt is Receipt.RELEASED:
        connection.admin.run_due()
    return counts[-1] if counts else 0


def _count(where: ScheduleFilter, connection: LocalConnection) -> int:
    count, after = 0, None
    while page := connection.schedule.list(where, limit=_MOST, after=after):
        count, after = count + len(page), page[-1].position
    return count


def _where(given: object) -> ScheduleFilter:
    if not isinstance(given, dict):
        raise _wrong("where", given, "an object")
    for name in given:
        if name not in _FILTERS:
            raise _wrong("where", name, f"one of {', '.join(_FILTERS)}")
    properties = given.get("properties", {})
    if not isinstance(properties, dict) or not _are_texts(properties.values()):
        raise _wrong("where.properties", properties, "an object of texts")
    if not _are_texts(given[name] for name in _FILTERS[:2] if name in given):
        raise _wrong("where", given, "a filter: queue and sender are texts")
    return ScheduleFilter(
        given.get("queue"),
        given.get("sender"),
        tuple(properties.items()),
        *(_moment(given, name) for name in _FILTERS[2:4]),
    )


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _moment(given: dict[str, Any], name: str) -> int | None:
    return whole_number(given, name) if name in given else None


def _times(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, int]:
    """Return the one time that a body gives; raises HTTPException (400) for none or several."""
    found = {name: whole_number(given, name) for name in names if name in given}
    if names and len(found) != 1:
        raise wrong_request(HTTPStatus.BAD_REQUEST, f"the body has not one of {', '.join(names)}")
    return found


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def _position(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        position = int(text)
    except ValueError:
        raise _wrong("after", text, "a position of the schedule") from None
    if abs(position) > _LAST_POSITION:
        raise _wrong("after", text, "a position of the schedule")
    return position


def _wrong(name: str, value: object, what: str) -> HTTPException:
    return wrong_request(HTTPStatus.BAD_REQUEST, f"{name} {value!r} is not {what}")
