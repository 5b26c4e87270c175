"""Getting many messages: one search under the engine lock finds those that come next.

They are taken together by one call (:func:`get_many`), or each is acknowledged separately
(:func:`take_each`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.finding.next_live import DISCARD_BATCH
from mayfly.engine.finding.search import ANY, PageSize, in_order, merged
from mayfly.engine.get import (
    GetRequest,
    Getter,
    add_cod_report,
    discard_detected,
    obtain,
    result_for,
    take_row,
    take_rows,
)
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import PERSISTENT, Found, LocalQueue
from mayfly.engine.remote.transmission import TRANSMISSION_MARK
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UncommittedPut, UnitOfWork
from mayfly.lifetime.moments import is_expired
from mayfly.mqi.constants import MQRO_COD
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import MAX_BYTES
from mayfly.verbs.messages import GetResult, Message

#: Messages of one turn of the lock, some 2 ms, and bytes of their bodies.
_TURN_MESSAGES, _TURN_BYTES = 128, 1024 * 1024
_PLAIN: Final = GetRequest()
#: In place of a persistence: a message that the getter's own unit of work has put.
OWN: Final = -1
#: Rows that one statement reads of a queue with messages of both kinds: some are not used.
_ROWS_OF_TWO: Final = 32
#: A held message: its own unit of work, or the message itself where one hold has many.
Got: TypeAlias = UnitOfWork | Found


# One search: what comes next


class Picked(NamedTuple):
    """The messages that one search has found; nothing is taken yet.

    ``confirmed`` are those of ``alive`` that ask for a COD report. ``expired`` are those that the
    getter may discard. ``is_cut`` is True when the search ended before the last message of the
    queue.
    """

    alive: list[Found]
    confirmed: list[Found]
    expired: list[Found]
    is_cut: bool


def pick(
    core: Core,
    queue: LocalQueue,
    requester: Requester,
    own: Sequence[StoredMessage],
    now_ms: int,
    *,
    max_messages: int,
    body_bytes: int,
    stop_at_cod: bool,
) -> Picked:
    """Return up to ``max_messages`` messages that have not expired, in get order; take none.

    The bodies have about ``body_bytes`` together. ``own`` are rows that the getter's unit of work
    has put. The search also ends after DISCARD_BATCH expired messages. With ``stop_at_cod`` it ends
    after a message that asks for a COD report, since that report may arrive on this queue. Needs
    the engine lock.
    """
    alive, confirmed, expired = list[Found](), list[Found](), list[Found]()
    may_discard, met_count, left_bytes = core.settings.discard_on_empty, 0, body_bytes
    page = PageSize(
        min(max_messages, _ROWS_OF_TWO) if all(queue.present) else max_messages, body_bytes
    )
    rows = in_order(core, queue, ANY, queue.low, requester, page=page)
    if own:
        rows = merged(rows, iter([(row, OWN) for row in own]))
    for row, persistence in rows:
        if row.expire_at_ms is not None and is_expired(row.expire_at_ms, now_ms):
            expired.append((queue, row, persistence))
            if may_discard and len(expired) == DISCARD_BATCH:
                return Picked(alive, confirmed, expired, is_cut=True)
            continue
        alive.append((queue, row, persistence))
        met_count = len(expired)
        left_bytes -= len(row.body)
        owes = owes_cod_report(row.descriptor)
        if owes:
            confirmed.append(alive[-1])
        if len(alive) >= max_messages or left_bytes <= 0 or (owes and stop_at_cod):
            return Picked(alive, confirmed, expired, is_cut=True)
    # A get that may discard nothing on its own discards what is before a live message (K7).
    return Picked(alive, confirmed, expired if may_discard else expired[:met_count], is_cut=False)


@lru_cache(maxsize=1_024)
def owes_cod_report(descriptor: bytes) -> bool:
    """Return True if this packed message descriptor asks for a COD report."""
    return bool(unpack_descriptor(descriptor).report & MQRO_COD)


# Taken together by one call


def get_many(
    core: Core,
    getter: Getter,
    max_messages: int,
    unit_of_work: UnitOfWork | None,
    *,
    max_bytes: int = MAX_BYTES,
) -> list[Message]:
    """Take up to ``max_messages`` messages in get order; only the first one is waited for.

    ``getter`` must have no match options. Like a loop of single gets, it takes the present messages
    until the bodies reach ``max_bytes``, uncommitted puts of the unit of work included (P9).
    Expired messages before them are discarded and reported before this returns (E9, E14). A unit of
    work takes no more than MAXUMSGS allows.

    Without a unit of work one transaction takes them all, with their COD reports. All are gone on
    return; after a kill before that, either all or none are.

    Returns [] when no message came. When not even one was taken, raises the errors of ``get.get``.
    When the transaction fails, raises its error, and all are on the queue.
    """
    batch = _Batch(core, getter, unit_of_work, max_messages, max_bytes)
    try:
        batch.take()
        if not batch.messages and getter.may_wait():
            batch.wait()
            batch.take()
        batch.make_final()
    except NoMessage:
        return []
    except BaseException:
        batch.give_back()
        raise
    return batch.messages


class _Batch:
    """The messages that one call of :func:`get_many` has taken so far."""

    def __init__(
        self,
        core: Core,
        getter: Getter,
        unit_of_work: UnitOfWork | None,
        max_messages: int,
        max_bytes: int,
    ) -> None:
        """Begin with no message; ``max_bytes`` limits the bodies together."""
        self._core, self._getter, self._unit_of_work = core, getter, unit_of_work
        self._requester = getter.requester
        self.messages: list[Message] = []
        self._left, self._left_bytes = max_messages, max_bytes
        #: The end of their lives without a unit of work.
        self._transaction = Transaction()

    def take(self) -> None:
        """Take present messages until a limit is reached or the queue has no more."""
        while self._left > 0 and self._left_bytes > 0 and self._take_some():
            pass

    def wait(self) -> None:
        """Wait for the first message and take it; raises the errors of ``get.get``."""
        left = list[Transaction]()
        result = obtain(self._core, self._getter, left)
        self._note([result.message])
        if left:
            self._transaction = left[0]
        elif self._unit_of_work is None:
            # It was there before the wait, and its get is final already.
            self._left = 0

    def make_final(self) -> None:
        """Run the transaction that removes the messages from the queue; nothing in a unit of work.

        Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        core, transaction = self._core, self._transaction
        if not _has_work(transaction):
            return
        with core.engine_lock:
            core.check_running()
            self._transaction = Transaction()
            is_final = core.committer.run_at_once(transaction)
        if is_final:
            core.committer.run_deferred()
        else:
            core.committer.run(transaction)

    def give_back(self) -> None:
        """Return the messages to the queue, except those in a unit of work, which stay in it."""
        core = self._core
        if _has_work(self._transaction):
            with core.engine_lock:
                core.committer.take_back(self._transaction)
            core.committer.run_deferred()

    def _take_some(self) -> bool:
        """Take messages in one turn of the lock; return True if there may be more."""
        core = self._core
        with core.engine_lock:
            core.check_running()
            queue = self._ready()
            if queue is None:
                return False
            picked = self._take_next(queue, core.now_ms())
        core.committer.run_deferred()
        # Reports on expired ones may have come to this queue.
        return picked.is_cut or bool(picked.alive and picked.expired)

    def _ready(self) -> LocalQueue | None:
        """Return the queue; None if an error forbids further gets, but some messages were taken.

        Raises that error if no message was taken so far, or the unit of work was backed out.
        """
        try:
            self._requester.check()
            return self._getter.checked_queue()
        except MQError:
            if not self.messages or self._requester.is_backed_out:
                raise
            return None

    def _take_next(self, queue: LocalQueue, now_ms: int) -> Picked:
        """Take the next unexpired messages, and discard the expired ones between them."""
        core, unit_of_work, max_messages = (
            self._core,
            self._unit_of_work,
            min(self._left, _TURN_MESSAGES),
        )
        if unit_of_work is not None:
            max_messages = min(max_messages, unit_of_work.check_capacity())
        own = self._own_puts(queue, max_messages, now_ms)
        picked = pick(
            core,
            queue,
            self._requester,
            [pending.row for pending in own],
            now_ms,
            max_messages=max_messages,
            body_bytes=min(self._left_bytes, _TURN_BYTES),
            stop_at_cod=unit_of_work is not None,
        )
        visible = _seen_by(core, queue, picked.alive, now_ms)
        if picked.expired:
            discard_detected(core, picked.expired, now_ms, self._requester)
        self._end(picked, own, now_ms)
        self._note(visible)
        return picked

    def _own_puts(self, queue: LocalQueue, max_messages: int, now_ms: int) -> list[UncommittedPut]:
        """Return the unexpired puts of this unit of work on a queue, up to ``max_messages``."""
        if self._unit_of_work is None:
            return []
        # An expired one stays until the commit: no discard and no report before it (E17).
        own = self._unit_of_work.own_puts(queue)
        live = (pending for pending in own if not is_expired(pending.row.expire_at_ms, now_ms))
        return [*islice(live, max_messages)]

    def _end(self, picked: Picked, own: list[UncommittedPut], now_ms: int) -> None:
        """Take the messages into the unit of work or the transaction, and add their COD reports.

        ``own`` are the uncommitted puts of the unit of work that the search has seen.
        """
        core, unit_of_work = self._core, self._unit_of_work
        into = self._transaction if unit_of_work is None else unit_of_work
        stored = [found for found in picked.alive if found[2] != OWN] if own else picked.alive
        if stored:
            take_rows(core, stored, into, now_ms, self._requester)
        if unit_of_work is not None:
            for pending in own[: len(picked.alive) - len(stored)]:
                unit_of_work.take_own(pending)
        transaction = None if unit_of_work is not None else self._transaction
        for found in picked.confirmed:
            add_cod_report(core, found, transaction, unit_of_work, now_ms)

    def _note(self, messages: list[Message]) -> None:
        """Add messages to the result, and subtract their number and bytes from the limits."""
        self.messages += messages
        self._left -= len(messages)
        self._left_bytes -= sum([len(message.body) for message in messages])


def _has_work(transaction: Transaction) -> bool:
    """Return True if a transaction removes messages, from this store or another."""
    return bool(transaction.departures or transaction.parts)


def _seen_by(core: Core, queue: LocalQueue, found: list[Found], now_ms: int) -> list[Message]:
    """Return messages as a getter receives them: mostly as stored.

    Messages on the staging queue and on transmission queues are shown with their remaining expiry.
    """
    name, is_staging = queue.definition.name, queue.is_staging
    return [
        result_for(core, _PLAIN, queue, row, now_ms).message
        if is_staging or row.body.startswith(TRANSMISSION_MARK)
        else Message(name, row, now_ms, row.body)
        for _queue, row, _persistence in found
    ]


# Taken one by one, each to be settled alone


def take_each(
    core: Core,
    request: GetRequest,
    getter_into: Callable[[UnitOfWork], Getter],
    holder: Hold,
    *,
    max_messages: int,
    max_bytes: int,
    only_volatile: bool,
) -> Iterator[tuple[Got, GetResult]]:
    """Yield up to ``max_messages`` present messages with their results, each held separately.

    Each can then be acknowledged or given back alone. A message is held by ``holder`` (the first
    item is the message), or by a unit of work for it alone (the first item is that unit of work).
    The second is used with match options, for a message that asks for a COD report, and on a queue
    of the queue-sharing group.

    The search stops when the bodies reach ``max_bytes``, and earlier where a selector makes it
    long. ``getter_into`` returns a getter that takes into a unit of work. A message that does not
    fit the buffer stays on its queue and is the last item. With ``only_volatile`` a persistent
    message ends the search, and a getter with match options takes nothing. Consume it under the
    engine lock. Raises the errors of ``get.get``.
    """
    assert core.engine_lock.is_held()
    held = UnitOfWork(core, holder.terminated_by)
    getter = getter_into(held)
    getter.is_over = True
    getter.requester.check()
    if getter.takes_any:
        yield from _take_each_next(
            core,
            request,
            getter,
            holder,
            max_messages=max_messages,
            max_bytes=max_bytes,
            only_volatile=only_volatile,
        )
        return
    if only_volatile:
        return
    left_bytes, count = max_bytes, 0
    while count < max_messages and left_bytes > 0:
        outcome = getter.take(in_parts=True)
        if outcome is None:
            return
        result = outcome[0]
        yield held, result
        if result.stays:
            return
        count += 1
        left_bytes -= len(result.message.body)
        held = UnitOfWork(core, holder.terminated_by)
        getter = getter_into(held)
        getter.is_over = True


def _take_each_next(
    core: Core,
    request: GetRequest,
    getter: Getter,
    holder: Hold,
    *,
    max_messages: int,
    max_bytes: int,
    only_volatile: bool,
) -> Iterator[tuple[Got, GetResult]]:
    """Yield the messages of :func:`take_each` for a get without match options, by one search."""
    queue, now_ms, requester = getter.checked_queue(), core.now_ms(), getter.requester
    if max_messages <= 0 or max_bytes <= 0:
        return
    picked = pick(
        core,
        queue,
        requester,
        (),
        now_ms,
        max_messages=max_messages,
        body_bytes=max_bytes,
        stop_at_cod=False,
    )
    expired = picked.expired
    for got in picked.alive:
        _queue, row, persistence = got
        if only_volatile and persistence == PERSISTENT:
            # It and what is behind it are still visible, as below.
            expired = [found for found in expired if found[1].k < row.k]
            break
        result = result_for(core, request, queue, row, now_ms)
        if result.stays:
            # Messages behind it are still visible, and the next search finds them again.
            expired = [found for found in expired if found[1].k < row.k]
            yield got, result
            break
        # No message before it is visible after this turn.
        queue_state.pass_over(queue, persistence, row.k)
        requester.forget_lock(row.k)
        if queue.owner is not core or result.message.descriptor.report & MQRO_COD:
            held = UnitOfWork(core, holder.terminated_by)
            take_row(core, got, held, now_ms, holder.terminated_by)
            yield held, result
        else:
            queue_state.hold_got(got, holder)
            if core.on_departure:
                # Given back, it comes back unmarked.
                core.note_departure((row.k,))
            yield got, result
    if expired:
        discard_detected(core, expired, now_ms, requester)
