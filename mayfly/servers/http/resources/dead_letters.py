"""``…/dead-letters``: messages that could not be delivered, why, and their redrive."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.client.connection import LocalConnection
from mayfly.engine.api.operating import audit
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.mqi.reasons import reason_text
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, Next, NoQuery, Operation
from mayfly.services.dead_letter import (
    DeadLetterHandler,
    RuleTable,
    RuleTableError,
    dead_letter_of,
    dead_letter_queue,
    parse_patterns,
    parse_rules,
    preview,
    redrive_letters,
)
from mayfly.services.dead_letter.dead_letters import LetterJson, letter_as_json
from mayfly.services.dead_letter.handler import RedrivenJson, SummaryJson, summary_as_json
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Message, token_of

_BROWSE: Final = c.MQGMO_PROPERTIES_FORCE_MQRFH2
_QUEUE: Final = "a dead-letter queue; DEADQ of the queue manager unless it is given"


class DeadLetterListing(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of dead letters."""

    queue: Annotated[str, Meta(description=_QUEUE)] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="the most letters of a page")] = 20
    after: Annotated[
        str,
        Meta(
            pattern="^([0-9a-f]{32})?$",
            title="a place on a queue",
            description="letters behind this one: ``next`` of the page before",
        ),
    ] = ""


class PlacedLetterJson(LetterJson):
    """A dead letter with its place on its queue, and what its reason means, null without one."""

    place: str
    reason_text: str | None


class Letters(Struct):
    """Dead letters in the order of gets."""

    queue: Annotated[str, Meta(description="the queue that they are on")]
    letters: list[PlacedLetterJson]
    next: Next


class Redrive(Struct, forbid_unknown_fields=True):
    """Body of a redrive: which dead letters are put again to the queues they were meant for."""

    action: Literal["redrive"]
    where: Annotated[
        str,
        Meta(description="patterns as in a table of rules, DESTQ(ORDERS); all letters if empty"),
    ] = ""
    queue: Annotated[str, Meta(description=_QUEUE)] = ""
    places: Annotated[
        list[Annotated[str, Meta(pattern="^[0-9a-f]{32}$", title="a place of a letter")]],
        Meta(max_length=1_000, description="these letters alone; all that match if empty"),
    ] = []
    dry_run: Annotated[bool, Meta(description="letters are counted, and stay")] = False


def listed(call: Call[DeadLetterListing, None]) -> Letters:
    """List the messages of a dead-letter queue in the order of gets; they stay there.

    A message without a dead-letter header has null for all that the header would say. 404 if no
    such queue exists.
    """
    asked = call.query
    with call.connection() as connection:
        queue = asked.queue or dead_letter_queue(connection)
        found = list(islice(_browsed(connection, queue, bytes.fromhex(asked.after)), asked.limit))
    letters = [_placed(message) for message in found]
    is_full = len(found) == asked.limit
    return Letters(queue, letters, token_of(found[-1]).hex() if is_full else None)


def redriven(call: Call[NoQuery, Redrive]) -> RedrivenJson:
    """Put dead letters to the queues that they were meant for, once.

    The answer counts the letters by outcome. A letter whose queue refuses it stays, and is counted
    by its reason code. With ``dry_run`` nothing is put, and the answer counts the letters that
    would be tried. 400 for wrong patterns, 404 for an unknown queue.
    """
    table, queue, dry_run = _table(call.body.where), call.body.queue, call.body.dry_run
    places = [bytes.fromhex(place) for place in call.body.places]
    with call.connection() as connection:
        if places:
            chosen = redrive_letters(connection, table, queue, places, dry_run=dry_run)
            summary = summary_as_json(*chosen)
        elif dry_run:
            summary = summary_as_json(preview(connection, table, queue), Counter())
        else:
            # It closes its connection.
            with call.connection() as own, DeadLetterHandler(own, table, queue=queue) as handler:
                handler.run_once()
            summary = summary_as_json(handler.counts, handler.failures)
        if not dry_run:
            _audit(connection, queue or dead_letter_queue(connection), summary)
    return {**summary, "dry_run": dry_run}


def _audit(connection: LocalConnection, queue: str, summary: SummaryJson) -> None:
    """Write a redrive into the audit, with the numbers of letters by outcome."""
    counts = {name: count for name, count in summary.items() if isinstance(count, int) and count}
    receipt = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
    audit(connection.session, "redrive", b"", f"on {queue}", receipt, summary["redriven"])


def _placed(message: Message) -> PlacedLetterJson:
    """Return a message of a dead-letter queue as the API shows it."""
    letter = letter_as_json(message, dead_letter_of(message))
    text = None if letter["reason"] is None else reason_text(letter["reason"])
    return {**letter, "place": token_of(message).hex(), "reason_text": text}


def _browsed(connection: LocalConnection, queue: str, after: bytes) -> Iterator[Message]:
    """Yield the messages of a queue in get order, behind the message with the token ``after``.

    An empty token yields all. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown queue.
    """
    handle = connection.call(ask.Open(queue, c.MQOO_BROWSE, dynamic_name="")).handle
    with contextlib.suppress(NoMessage):
        while True:
            message = connection.get(handle, _BROWSE | c.MQGMO_BROWSE_NEXT).message
            if token_of(message) > after:
                yield message


def _table(where: str) -> RuleTable:
    """Return a rule table that retries the dead letters that match ``where``; empty matches all.

    Raises HttpError (400) for wrong patterns.
    """
    try:
        parse_patterns(where)
        return parse_rules(f"{where.rstrip()} ACTION(RETRY)")
    except RuleTableError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"where {where!r}: {error}") from error


_PROBLEMS: Final = {HTTPStatus.NOT_FOUND: "there is no such queue, or no DEADQ"}
OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/dead-letters", listed, Role.LOOK, problems=_PROBLEMS),
    Operation("POST", f"{OF_MANAGER}/dead-letters", redriven, Role.OPERATE, problems=_PROBLEMS),
)
