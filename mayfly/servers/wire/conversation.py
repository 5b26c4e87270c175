"""One conversation of a program: its verbs on a queue manager, in the order of their requests.

A request of :data:`AT_ONCE` neither waits nor syncs: it is carried out in the loop of the server.
One of :data:`BEGUN` may wait or sync, and tells its answer. All others run on a thread that may
block. The functions that do it are in ``connection.local``.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.client.connection import LocalConnection
from mayfly.client.connection.interface import UnderWay
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.servers.wire.link import ClientLink, answered, failed
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_max_messages
from mayfly.verbs.contracts.wire import (
    MAX_GOT_BYTES,
    MAX_GOT_IN_FRAME,
    MAX_REQUESTS,
    MET,
    WrongFrame,
    decoded,
    packed,
)
from mayfly.verbs.messages import PutResult
from mayfly.verbs.rows import FORMS, FailedPut, PutsRow, row_of_put

_LOG = logging.getLogger("mayfly.wire")
#: Requests whose answers are long.
_GETTING = frozenset({ask.Get, ask.GetAny, ask.GetMany, ask.TakeHeld})
#: The requests whose options may have FAIL_IF_QUIESCING, the same bit in all of them.
_FAIL_IF_QUIESCING = frozenset({*_GETTING, ask.Open, ask.Put, ask.Put1, ask.Puts, ask.Subscribe})
#: Requests that may wait behind one that blocks; then no more are read.
_LONG_QUEUE = 64
#: MsgIds for one request: they are made in the loop.
_MAX_IDS: Final = 256
#: A page is one frame, of half a megabyte at most.
MAX_LEDGER_ROWS: Final = 1_000
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


class ProgramConversation:
    """A connection of this process that a remote client uses.

    Its code runs in the loop of the server, with two exceptions: verbs that may block run on other
    threads, and callbacks come from any thread. While a blocking verb runs, later requests queue
    up.
    """

    __slots__ = (
        "_connected_ms",
        "_exchange",
        "_is_blocked",
        "_link",
        "_queued",
        "_refusal",
        "_request_count",
        "_suspended",
        "_under_way",
        "_unit_of_work_ms",
        "_waits",
        "admitted",
        "applicant",
        "connection",
        "is_ended",
        "number",
    )

    def __init__(
        self,
        link: ClientLink,
        number: int,
        connection: LocalConnection,
        applicant: Applicant,
        admitted: Admitted,
    ) -> None:
        self._link, self.number, self.connection = link, number, connection
        self._exchange = link.exchange
        self.applicant, self.admitted = applicant, admitted
        self.is_ended = False
        self._connected_ms = connection.now_ms()
        self._unit_of_work_ms: int | None = None
        self._request_count = 0
        #: Verbs that were begun and are not answered, by the number of their request.
        self._under_way: dict[int, UnderWay | None] = {}
        #: Those of them that wait for a message, with the end of the wait, None for never.
        self._waits: dict[int, tuple[ask.Get | ask.GetAny, int | None]] = {}
        #: Those of the waiting verbs that are cancelled for as long as the client does not read.
        self._suspended: set[int] = set()
        #: Requests that came while a verb blocks.
        self._queued: deque[tuple[int, ask.Request[Any]]] = deque()
        self._is_blocked = False
        #: The error of verbs with FAIL_IF_QUIESCING while the server drains, else None.
        self._refusal: MQError | None = None

    def take(self, request: int, payload: bytes) -> None:
        """Take a request; raises WrongFrame for one that cannot be answered."""
        self._request_count += 1
        if request in self._under_way:
            raise WrongFrame(f"request: {request} is under way already")
        try:
            asked = ask.request_of(payload)
        except ask.WrongRequest as wrong:
            self._fail(request, mq_error(wrong.reason, str(wrong)))
            return
        if type(asked) is ask.Cancel:
            self._cancel(request, asked.request)
        elif self._is_blocked:
            self._queued.append((request, asked))
            if self.has_queue:
                self._link.regulate()
        elif self._refusal is not None and _fails_if_quiescing(asked):
            self._fail(request, self._refusal)
        else:
            self._run(request, asked)

    @property
    def has_queue(self) -> bool:
        """True while the requests behind one that blocks are too many to read more."""
        return len(self._queued) >= _LONG_QUEUE

    def suspend(self) -> None:
        """Take no messages for gets that wait: the client does not read its answers."""
        for request in list(self._waits):
            under_way = self._under_way.get(request)
            if under_way is not None and under_way.cancel():
                self._suspended.add(request)
                self._under_way[request] = None

    def resume(self) -> None:
        """Let gets wait again, for the rest of their time."""
        suspended, self._suspended = sorted(self._suspended), set()
        for request in suspended:
            asked, until_ms = self._waits[request]
            if until_ms is not None:
                asked = replace(asked, wait_ms=max(0, until_ms - self.connection.now_ms()))
            self._run(request, asked)

    @property
    def queue_manager(self) -> str:
        return self.connection.name

    @property
    def connection_number(self) -> int:
        return self.connection.number

    def status(self) -> ClientConnection:
        connection, applicant = self.connection, self.applicant
        return ClientConnection(
            connection.number,
            self._link.number,
            connection.name,
            applicant.channel,
            self.admitted.user,
            applicant.address,
            applicant.application,
            applicant.has_tls,
            self._connected_ms,
            self._request_count,
            self._link.heartbeat_ms,
            self._link.sent_bytes,
            self._link.received_bytes,
            unit_of_work_ms=self._unit_of_work_ms,
            open_handles=connection.holdings.handle_count,
            is_running=bool(self._under_way) or self._is_blocked,
        )

    def quiesce(self, refusal: MQError) -> bool:
        """End its gets that wait with an error; return True when no work is left.

        Verbs with FAIL_IF_QUIESCING have the same error from now on. Work is an open unit of work,
        a delivery that is not settled, and a verb under way.
        """
        self._refusal = refusal
        for request, under_way in list(self._under_way.items()):
            if under_way is not None and under_way.cancel():
                self._forget(request)
                self._fail(request, refusal)
        has_verbs = self._under_way or self._is_blocked or self._queued
        is_open = self._unit_of_work_ms is not None or self.connection.holdings.delivery_count
        return not (has_verbs or is_open)

    def end(self) -> None:
        """Back out the unit of work, and close everything; on a thread that may block."""
        self.is_ended = True
        self._queued.clear()
        self.connection.close(commit=False)

    def _run(self, request: int, asked: ask.Request[Any]) -> None:
        kind = type(asked)
        if kind in _GETTING and self._exchange.budget.is_used_up:
            self._is_blocked = True
            self._link.when_room(partial(self._run_later, request, asked))
            return
        self._note_unit(asked)
        try:
            if _is_begun(asked):
                self._begin(request, asked)
            elif kind in AT_ONCE:
                self._answer(request, _carried_out(self.connection, asked))
            else:
                self._is_blocked = True
                self._exchange.run_blocking(partial(self._blocked, request, asked))
        except MQError as error:
            self._fail(request, error)
        except WrongFrame as wrong:
            self._fail(request, _refused(kind, wrong))

    def _note_unit(self, asked: ask.Request[Any]) -> None:
        """Note when the unit of work has begun, or that the next one has not."""
        if isinstance(asked, ask.Commit | ask.Backout):
            self._unit_of_work_ms = None
        elif self._unit_of_work_ms is None and asked.in_unit:
            self._unit_of_work_ms = self.connection.now_ms()

    def _begin(self, request: int, asked: ask.Request[Any]) -> None:
        if (
            isinstance(asked, ask.Settle)
            and asked.within
            and not self._link.has_conversation(asked.within)
        ):
            # The unit of work of a conversation of another user's connection.
            said = f"conversation {asked.within} is not on this connection"
            raise mq_error(rc.MQRC_UOW_NOT_AVAILABLE, said)
        if len(self._under_way) >= MAX_REQUESTS:
            said = f"{MAX_REQUESTS} requests of this conversation are under way"
            raise mq_error(rc.MQRC_RESOURCE_PROBLEM, said)
        if (
            isinstance(asked, ask.Get | ask.GetAny)
            and asked.options & c.MQGMO_WAIT
            and request not in self._waits
        ):
            wait_ms = asked.wait_ms
            until_ms = None if wait_ms < 0 else self.connection.now_ms() + wait_ms
            self._waits[request] = asked, until_ms
        told = _Told(self, request)
        try:
            outcome = _begun(self.connection, asked, told)
        except (MQError, WrongFrame):
            self._forget(request)
            raise
        if isinstance(outcome, tuple):
            if request in self._waits:
                self._forget(request)
            self._answer(request, outcome[0])
        elif not told.is_over:
            self._under_way[request] = outcome

    def met(self, request: int, handle: int, error: MQError) -> None:
        """Tell the client that a get under way cannot get from a queue; any thread calls it."""
        payload = packed([MET, request, handle, failure_of(error)])
        self._exchange.call_soon(partial(self._link.tell, 0, MET, payload))

    def done(self, request: int, outcome: Any) -> None:
        """Answer a request that was begun; any thread calls it."""
        if self._exchange.is_in_loop():
            self._finish(request, outcome)
        else:
            # The thread has commits to make: the answer is packed by the loop.
            self._exchange.call_soon(partial(self._finish, request, outcome))

    def _finish(self, request: int, outcome: Any) -> None:
        self._forget(request)
        if isinstance(outcome, MQError):
            self._fail(request, outcome)
        else:
            self._answer(request, outcome)

    def _forget(self, request: int) -> None:
        self._under_way.pop(request, None)
        self._waits.pop(request, None)

    def _cancel(self, request: int, cancelled: int) -> None:
        under_way = self._under_way.get(cancelled)
        is_cancelled = cancelled in self._suspended
        if is_cancelled:
            self._suspended.discard(cancelled)
        elif under_way is not None:
            is_cancelled = under_way.cancel()
        if is_cancelled:
            self._forget(cancelled)
        self._answer(request, is_cancelled)

    def _blocked(self, request: int, asked: ask.Request[Any]) -> None:
        """Carry out a request that blocks, on a thread that may."""
        kind = type(asked)
        try:
            if isinstance(asked, ask.Disconnect):
                self._disconnect(asked.commit)
                payload = answered(None)
            else:
                payload = answered(_carried_out(self.connection, asked))
        except MQError as error:
            payload = failed(error)
        except WrongFrame as wrong:
            payload = failed(_refused(kind, wrong))
        except Exception as error:  # noqa: BLE001 - a mistake here must not let the client wait
            _LOG.exception("a verb of conversation %d has failed", self.connection.number)
            payload = failed(mq_error(rc.MQRC_UNEXPECTED_ERROR, type(error).__name__))
        self._exchange.call_soon(partial(self._unblock, request, payload))

    def _disconnect(self, commit: bool) -> None:
        self.is_ended = True
        try:
            self.connection.close(commit=commit)
        finally:
            self._exchange.call_soon(partial(self._link.forget, self.number))

    def _unblock(self, request: int, payload: bytes) -> None:
        self._link.tell(self.number, request, payload)
        self._go_on()

    def _run_later(self, request: int, asked: ask.Request[Any]) -> None:
        self._queued.appendleft((request, asked))
        self._go_on()

    def _go_on(self) -> None:
        """Run what has queued up, up to the next verb that blocks."""
        self._is_blocked = False
        had_queue = self.has_queue
        while self._queued and not self._is_blocked and not self.is_ended:
            self._run(*self._queued.popleft())
        if had_queue:
            self._link.regulate()

    def _answer(self, request: int, value: Any) -> None:
        self._link.tell(self.number, request, answered(value))

    def _fail(self, request: int, error: MQError) -> None:
        self._link.tell(self.number, request, failed(error))


def _refused(kind: type[ask.Request[Any]], wrong: WrongFrame) -> MQError:
    """Return the error of a field that has a form of its own, as a descriptor has."""
    return mq_error(ask.reason_of(kind, wrong.field), f"{ask.verb_name(kind)}.{wrong}")


def _fails_if_quiescing(asked: ask.Request[Any]) -> bool:
    if type(asked) not in _FAIL_IF_QUIESCING:
        return False
    options: int = asked.options  # type: ignore[attr-defined]  # all of these have options
    return bool(options & c.MQGMO_FAIL_IF_QUIESCING)


class _Told:
    """Takes the outcome of one request that was begun, and hands it to the conversation."""

    __slots__ = ("_conversation", "_request", "is_over")

    def __init__(self, conversation: ProgramConversation, request: int) -> None:
        self._conversation, self._request = conversation, request
        #: Whether the request is answered, or its answer is left to the loop.
        self.is_over = False

    def __call__(self, outcome: Any) -> None:
        self.is_over = True
        self._conversation.done(self._request, outcome)

    def refused(self, handle: int, error: MQError) -> None:
        self._conversation.met(self._request, handle, error)


def _is_begun(asked: ask.Request[Any]) -> bool:
    """Return True for a request that tells its answer."""
    if isinstance(asked, ask.Get) and asked.options & _UNDER_CURSOR:
        return False
    return type(asked) in BEGUN


def _carried_out(connection: LocalConnection, asked: ask.Request[Any]) -> Any:
    """Carry a request out and return its answer as it travels; raises MQError, WrongFrame."""
    return _travelling(type(asked), connection.call(_bounded(asked)))


def _begun(
    connection: LocalConnection, asked: ask.Request[Any], tell: _Told
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
            check_max_messages(asked.max_messages)
        max_bytes = min(asked.max_bytes, MAX_GOT_BYTES)
        return replace(
            asked, max_messages=min(asked.max_messages, MAX_GOT_IN_FRAME), max_bytes=max_bytes
        )
    if isinstance(asked, ask.NewIds):
        return replace(asked, count=min(max(asked.count, 1), _MAX_IDS))
    if isinstance(asked, ask.ReadLedger):
        if asked.max_rows < 1:
            said = f"max_rows: {asked.max_rows} is less than 1"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, said)
        return replace(asked, max_rows=min(asked.max_rows, MAX_LEDGER_ROWS))
    return asked


def _begin_puts(
    connection: LocalConnection, puts: ask.Puts, tell: _Told
) -> tuple[PutsRow] | UnderWay:
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
