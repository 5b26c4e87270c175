"""Many messages by one call: puts, none of which waits for the one before it, and gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias, Unpack

from mayfly.client.connection import Connection
from mayfly.client.connection.interface import OnDone
from mayfly.client.open_objects import OUTDATED
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import LostAnswer, MQError, NoMessage, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import MOST_BYTES, check_most
from mayfly.verbs.messages import Message, PutResult

#: So many are on their way at a time.
MOST_UNDER_WAY = 1_000
Outcome: TypeAlias = PutResult | MQError | None


def put_all(
    connection: Connection,
    handle: int,
    bodies: Sequence[bytes],
    descriptor: Descriptor,
    options: int,
    **more: Unpack[ask.MessageMore],
) -> list[Outcome]:
    """Put bodies in their order and return what became of each; the rest as of ``put``.

    Raises the error of all of them when the object is not what it was, and nothing was put.
    """

    def begin(body: bytes, on_done: OnDone[PutResult | None]) -> object:
        return connection.begin(ask.Put.of(handle, body, descriptor, options, **more), on_done)

    outcomes: list[Outcome] = []
    left = iter(bodies)
    while part := list(islice(left, MOST_UNDER_WAY)):
        outcomes += _put_part(connection, part, begin)
    errors = [outcome for outcome in outcomes if isinstance(outcome, MQError)]
    if errors and len(errors) == len(outcomes) and errors[0].reason in OUTDATED:
        raise errors[0]
    return outcomes


def msg_ids_of(outcomes: Sequence[Outcome]) -> list[bytes]:
    """Return the MsgIds of messages that are all put.

    Raises the first error with its reason code; the text says which message it is about, and how
    many of them are put. LostAnswer stays LostAnswer.
    """
    found = [outcome.msg_id for outcome in outcomes if isinstance(outcome, PutResult)]
    for number, outcome in enumerate(outcomes, 1):
        if isinstance(outcome, LostAnswer):
            raise outcome
        if isinstance(outcome, MQError):
            said = f"message {number} of {len(outcomes)} is refused, {len(found)} are put"
            raise mq_error(outcome.reason, f"{said}: {outcome.detail}") from outcome
    return found


def get_all(
    connection: Connection, handle: int, options: int, most: int, wait_ms: int
) -> list[Message]:
    """Get messages that are there; only the first one is waited for."""
    check_most(most)
    found = connection.call(ask.GetMany(handle, options, most, MOST_BYTES))
    if found or not wait_ms:
        return found
    try:
        first = connection.get(handle, options | c.MQGMO_WAIT, wait_ms=wait_ms).message
    except NoMessage:
        return []
    if most == 1:
        return [first]
    try:
        return [first, *connection.call(ask.GetMany(handle, options, most - 1, MOST_BYTES))]
    except MQError:
        # The first one is got, whatever becomes of others.
        return [first]


def _put_part(
    connection: Connection,
    bodies: Sequence[bytes],
    begin: Callable[[bytes, OnDone[PutResult | None]], object],
) -> list[Outcome]:
    outcomes: list[Outcome] = [None] * len(bodies)
    told = 0
    is_done = connection.runtime.event()

    def done(place: int, outcome: Outcome) -> None:
        # Callbacks of a queue manager come one at a time.
        nonlocal told
        outcomes[place] = outcome
        told += 1
        if told == len(bodies):
            is_done.set()

    with connection.together():
        for place, body in enumerate(bodies):
            begin(body, lambda outcome, place=place: done(place, outcome))  # type: ignore[misc]  # bound here
    is_done.wait()
    return outcomes
