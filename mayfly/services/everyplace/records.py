"""Rows of queues, messages and exchanges, written from their present state in memory."""

from __future__ import annotations

import json
from typing import Any, Protocol

from mayfly.services.everyplace import tables
from mayfly.services.everyplace.exchanges import Begun, Exchange, Finished
from mayfly.services.everyplace.held import Held
from mayfly.services.everyplace.journal import Journal
from mayfly.services.everyplace.mq_body import fields_as_body
from mayfly.services.everyplace.rules import QueueRule, class_of
from mayfly.services.everyplace.tables import Statement

#: Kinds of queues in the table ``queue``.
LOCAL, ASYNCHRONOUS, SYNCHRONOUS = "local", "asynchronous", "synchronous"


class Definition(Protocol):
    """A queue as its definition says it; ``partner`` is empty for a local one."""

    kind: str
    name: str
    partner: str
    rule: QueueRule
    awaited_rule: str

    def limits(self) -> dict[str, int | None]:
        """Return its attributes by name."""


class Holder(Definition, Protocol):
    """A queue that holds messages here."""

    def is_here(self, held: Held) -> bool:
        """Return True if the queue still holds this very message."""


def save_message(journal: Journal, queue: Holder, held: Held) -> list[Statement]:
    """Return what writes a message of a queue: all of it, or what may change, or that it is gone.

    The fields of a message that is on a queue never change.
    """
    row_id = held.row_id
    if not queue.is_here(held):
        held.row_id = 0
        return [(tables.FORGET_MESSAGE, (row_id,))] if row_id else []
    exchange = None if held.exchange is None else exchange_text(held.exchange)
    changing = (held.state, held.confirm_id, exchange, held.is_acknowledged, *held.place)
    if row_id:
        return [(tables.CHANGE_MESSAGE, (*changing, row_id))]
    held.row_id = journal.new_id()
    fixed = (queue.name, queue.partner, fields_as_body(held.message), held.arrived_ms)
    return [(tables.ADD_MESSAGE, (held.row_id, *fixed, *changing))]


def save_queue(queue: Definition, *, is_known: bool) -> list[Statement]:
    """Return what writes a definition, or that it is gone."""
    if not is_known:
        return [(tables.FORGET_QUEUE, (queue.name, queue.partner))]
    rule = queue.awaited_rule or class_of(queue.rule)
    row = (queue.name, queue.partner, queue.kind, json.dumps(queue.limits()), rule)
    return [(tables.SAVE_QUEUE, row)]


def save_home(
    name: str, partner: str, asked: Exchange | None, stored: list[Exchange]
) -> list[Statement]:
    """Return what writes the definition of a home-server queue and how far its pull has come."""
    text = None if asked is None else exchange_text(asked)
    return [(tables.SAVE_HOME, (name, partner, text, json.dumps(stored)))]


def forget_home(name: str) -> list[Statement]:
    """Return what writes that a home-server queue is gone."""
    return [(tables.FORGET_HOME, (name,))]


def save_withdrawn(queue: Definition, exchange: Exchange, is_open: bool) -> list[Statement]:
    """Return what writes that the other side has yet to be told of a withdrawal, or has been."""
    text = exchange_text(exchange)
    if is_open:
        return [(tables.SAVE_WITHDRAWN, (queue.name, queue.partner, text))]
    return [(tables.FORGET_WITHDRAWN, (text,))]


def save_begun(partner: str, begun: Begun) -> list[Statement]:
    """Return what writes which numbers have been given."""
    return [(tables.SAVE_BEGUN, (partner, begun.next_number))]


def save_finished(beginner: str, finished: Finished) -> list[Statement]:
    """Return what writes below which number all is over."""
    return [
        (tables.SAVE_FINISHED, (beginner, finished.era, finished.below)),
        (tables.FORGET_NUMBERS, (beginner, finished.below)),
    ]


def save_new_finished(beginner: str, finished: Finished) -> list[Statement]:
    """Return what writes that another one has the name now, of which nothing is over yet."""
    return [(tables.FORGET_ALL_NUMBERS, (beginner,)), *save_finished(beginner, finished)]


def save_number(beginner: str, finished: Finished, number: int) -> list[Statement]:
    """Return what writes that one number is over, unless all around it are."""
    if number not in finished.numbers:
        return []
    return [(tables.SAVE_NUMBER, (beginner, number))]


def exchange_text(exchange: Exchange) -> str:
    """Return an exchange as the tables hold it."""
    return json.dumps(exchange)


def exchange_of(text: str) -> Exchange:
    """Return the exchange that a text of the tables says."""
    told: list[Any] = json.loads(text)
    return Exchange(*told)
