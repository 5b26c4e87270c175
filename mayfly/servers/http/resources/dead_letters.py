"""``…/dead-letters``: messages that could not be delivered, with reasons, and their way back."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from mayfly.connection import LocalConnection, Message
from mayfly.dead_letter import (
    DeadLetterHandler,
    RuleTable,
    RuleTableError,
    dead_letter_of,
    dead_letter_queue,
    parse_patterns,
    parse_rules,
)
from mayfly.dead_letter.json_values import letter_as_json, summary_as_json
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.servers.http.bodies import read_object
from mayfly.servers.http.problems import wrong_request
from mayfly.servers.http.resources.visits import ask, number, parameters

_USUAL_LIMIT, _MOST = 20, 1_000
_BROWSE: Final = c.MQGMO_PROPERTIES_FORCE_MQRFH2


class DeadLetters(HTTPEndpoint):
    """The messages on the dead-letter queue of a queue manager, or on another such queue."""

    async def get(self, request: Request) -> JSONResponse:
        """List dead letters in the order of gets: 200.

        ``queue`` is DEADQ unless it is given; ``limit`` is 20 unless it is given, 1,000 at most.
        """
        given = parameters(request, "queue", "limit")
        limit = number(given, "limit", 1, _MOST, _USUAL_LIMIT)
        assert limit is not None
        name = given.get("queue", "")
        queue, found = await ask(request, lambda connection: _browsed(connection, name, limit))
        letters = [letter_as_json(message, dead_letter_of(message)) for message in found]
        return JSONResponse({"queue": queue, "letters": letters})

    async def post(self, request: Request) -> JSONResponse:
        """Put dead letters to the queues they were meant for, once: 200 with counts by outcome.

        ``{"action": "redrive"}``, with ``where``, the patterns of a rule as in a table of rules,
        and ``queue``. A letter whose queue refuses it stays, and is counted by its reason.
        """
        parameters(request)
        given = await read_object(request, ("action", "where", "queue"))
        if given.get("action") != "redrive":
            raise _wrong("action", given.get("action"), "redrive")
        name, table = _text(given, "queue"), _table(_text(given, "where"))
        return JSONResponse(await ask(request, lambda one: _redriven(one, table, name)))


def _browsed(connection: LocalConnection, name: str, limit: int) -> tuple[str, list[Message]]:
    queue, found = name or dead_letter_queue(connection), list[Message]()
    handle = connection.open(queue, c.MQOO_BROWSE, dynamic_name="").handle
    try:
        while len(found) < limit:
            found.append(connection.get(handle, _BROWSE | c.MQGMO_BROWSE_NEXT).message)
    except NoMessage:
        return queue, found
    return queue, found


def _redriven(connection: LocalConnection, table: RuleTable, queue: str) -> dict[str, object]:
    with DeadLetterHandler(connection, table, queue=queue) as handler:
        handler.run_once()
        return summary_as_json(handler)


def _table(where: str) -> RuleTable:
    try:
        parse_patterns(where)
        return parse_rules(f"{where.rstrip()} ACTION(RETRY)")
    except RuleTableError as error:
        raise wrong_request(HTTPStatus.BAD_REQUEST, f"where {where!r}: {error}") from error


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value


def _wrong(name: str, value: object, what: str) -> HTTPException:
    return wrong_request(HTTPStatus.BAD_REQUEST, f"{name} {value!r} is not {what}")
