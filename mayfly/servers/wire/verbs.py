"""Requests of clients: how a server carries them out, and what it bounds in them.

A request of :data:`AT_ONCE` neither waits nor syncs: it is carried out in the loop of the server.
One of :data:`BEGUN` may wait or sync, and tells its answer. All others run on a thread that may
block. The functions that do it are in ``connection.local``.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from mayfly.client.connection import LocalConnection
from mayfly.client.connection.interface import UnderWay
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_most
from mayfly.verbs.contracts.wire import MOST_GOT_BYTES, MOST_GOT_IN_FRAME, WrongFrame, decoded
from mayfly.verbs.messages import PutResult
from mayfly.verbs.rows import FORMS, FailedPut, PutsRow, row_of_put

#: MsgIds for one request: they are made in the loop.
_MOST_IDS: Final = 256
#: A page is one frame, of half a megabyte at most.
MOST_LEDGER_ROWS: Final = 1_000
#: A get with one of these never waits, and may sync: it has no form with a callback.
_UNDER_CURSOR: Final = c.MQGMO_BROWSE_MSG_UNDER_CURSOR | c.MQGMO_MSG_UNDER_CURSOR

AT_ONCE: Final = frozenset(
    {
        ask.Unlock,
        ask.AskStatus,
        ask.Inquire,
        ask.AskLivesFromRelease,
        ask.AskBackoutRule,
        ask.AskCommandLevel,
        ask.NewIds,
        ask.Now,
    }
)
BEGUN: Final = frozenset(
    {
        ask.Put,
        ask.Puts,
        ask.Get,
        ask.GetAny,
        ask.WaitUntil,
        ask.AwaitDefinitions,
        ask.Commit,
        ask.Settle,
    }
)


class Tell(Protocol):
    """Takes the outcome of a request that was begun; any thread calls it."""

    def __call__(self, outcome: Any, /) -> object:
        """Take the outcome, once: the answer as it travels, or MQError."""

    def refused(self, handle: int, error: MQError) -> object:
        """Take the refusal of a queue that the request cannot get from; it goes on."""


def is_begun(asked: ask.Request[Any]) -> bool:
    """Return True for a request that tells its answer."""
    if isinstance(asked, ask.Get) and asked.options & _UNDER_CURSOR:
        return False
    return type(asked) in BEGUN


def carried_out(connection: LocalConnection, asked: ask.Request[Any]) -> Any:
    """Carry a request out and return its answer as it travels; raises MQError, WrongFrame."""
    return _travelling(type(asked), connection.call(_bounded(asked)))


def begun(
    connection: LocalConnection, asked: ask.Request[Any], tell: Tell
) -> tuple[Any] | UnderWay:
    """Begin a request.

    Returns its answer, alone in a tuple, or what is under way, whose outcome ``tell`` will take.
    Raises MQError, WrongFrame.
    """
    if isinstance(asked, ask.Puts):
        return _begin_puts(connection, asked, tell)
    kind = type(asked)

    def told(outcome: Any) -> None:
        tell(outcome if isinstance(outcome, MQError) else _travelling(kind, outcome))

    outcome = connection.begin_here(asked, told, tell.refused)
    return (_travelling(kind, outcome[0]),) if isinstance(outcome, tuple) else outcome


def _travelling(kind: type[ask.Request[Any]], answer: Any) -> Any:
    form = FORMS.get(ask.answer_type(kind))
    return answer if form is None else form.of_answer(answer)


def _bounded(asked: ask.Request[Any]) -> ask.Request[Any]:
    """Return a request for no more than one answer may hold."""
    if isinstance(asked, ask.GetMany | ask.TakeHeld):
        if isinstance(asked, ask.GetMany):
            check_most(asked.most)
        most_bytes = min(asked.most_bytes, MOST_GOT_BYTES)
        return replace(asked, most=min(asked.most, MOST_GOT_IN_FRAME), most_bytes=most_bytes)
    if isinstance(asked, ask.NewIds):
        return replace(asked, count=min(max(asked.count, 1), _MOST_IDS))
    if isinstance(asked, ask.ReadLedger):
        if asked.max_rows < 1:
            said = f"max_rows: {asked.max_rows} is less than 1"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, said)
        return replace(asked, max_rows=min(asked.max_rows, MOST_LEDGER_ROWS))
    return asked


def _begin_puts(
    connection: LocalConnection, puts: ask.Puts, tell: Tell
) -> tuple[PutsRow] | UnderWay:
    """Begin to put several messages to one object."""
    has_results = not puts.options & c.MQPMO_ASYNC_RESPONSE
    outcomes = connection.begin_puts(
        (_one_of(puts, message) for message in puts.messages),
        lambda outcomes: tell(_row_of_puts(outcomes, has_results)),
    )
    return (_row_of_puts(outcomes, has_results),) if isinstance(outcomes, list) else outcomes


def _one_of(puts: ask.Puts, message: msgspec.Raw) -> ask.Put | MQError:
    """Return one of several puts, or the error of a field that is wrong."""
    try:
        new = decoded(ask.NewMessage, bytes(message), "put.message")
    except WrongFrame as wrong:
        return mq_error(ask.reason_of(ask.Put, wrong.field), str(wrong))
    return ask.Put(puts.descriptor, puts.options, puts.handle, puts.context, new)


def _row_of_puts(outcomes: list[PutResult | MQError | None], has_results: bool) -> PutsRow:
    failed = [
        FailedPut(place, failure_of(outcome))
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, MQError)
    ]
    results = [
        None if isinstance(outcome, MQError) else row_of_put(outcome)
        for outcome in (outcomes if has_results else ())
    ]
    return PutsRow(results, failed)
