"""MQGET, destructive: take the next matching messages that have not expired off their queue.

Many messages are found by one search under the engine lock. They are taken together by one call
(:func:`get_many`), or each is acknowledged separately (:func:`take_each`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.delay.staging import shown
from mayfly.engine.disposal import original_of, send_report
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.next_live import (
    DISCARD_BATCH,
    LONG_WORK,
    NO_RESULTS,
    TURN_WORK,
    SelectorProgress,
    look,
    place_for,
    work_on,
)
from mayfly.engine.finding.search import ANY, Match, PageSize, asker, in_order, merged
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.properties import View, seen_as
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import PERSISTENT, Found, LocalQueue
from mayfly.engine.remote_queues import TRANSMISSION_MARK, extended, seen_in_transit
from mayfly.engine.requester import Requester
from mayfly.engine.state import ensure_running, now_ms_of
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UncommittedPut, UnitOfWork
from mayfly.engine.waiting import SEARCH_UNLOCKED, Waiter
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.reports import Cause
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQRO_COD, MQWI_UNLIMITED
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import MAX_BYTES
from mayfly.verbs.contracts.outcomes import DetectedBy, TerminatedBy
from mayfly.verbs.messages import GetResult, HandleContent, Message

_AS_STORED: Final = View.AS_STORED


class GetRequest(NamedTuple):
    """The options of one get: which messages, how long to wait, and how to return a message.

    ``wait_ms`` 0 does not wait, MQWI_UNLIMITED (-1) waits for ever. ``max_length`` is the size of
    the buffer in bytes, None for any. ``accept_truncated`` is MQGMO_ACCEPT_TRUNCATED_MSG,
    ``persistent_only_syncpoint`` MQGMO_SYNCPOINT_IF_PERSISTENT. ``view`` says how properties are
    returned. ``extends`` is for a caller with an MQMD of version 1: group and segment fields come
    in an MQMDE before the data.
    """

    match: Match = ANY
    wait_ms: int = 0
    max_length: int | None = None
    accept_truncated: bool = False
    persistent_only_syncpoint: bool = False
    view: View = View.AS_STORED
    extends: bool = False


#: A get that takes whatever comes next and does not wait.
_NEXT: Final = GetRequest()


def obtain_prepared(core: Core, prepared: PreparedGet) -> GetResult:
    """Run a prepared get or browse, waiting if it asks for that; same errors as :func:`get`."""
    return prepared.finish(obtain(core, prepared.getter))


def get(
    core: Core,
    path: ResolvedQueue,
    request: GetRequest,
    unit_of_work: UnitOfWork | None,
    requester: Requester,
    *,
    place: SelectorProgress | None = None,
) -> GetResult:
    """Take the next matching message off its queue, and wait for one if the request says so.

    With a unit of work the get is final at its commit, else when this returns. ``place`` remembers
    which messages a selector has refused. Raises MQRC_NO_MSG_AVAILABLE, MQRC_GET_INHIBITED,
    MQRC_WAIT_INTERVAL_ERROR, MQRC_SYNCPOINT_LIMIT_REACHED. When another thread closes the session
    or handle meanwhile, raises MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR, and the message stays on its
    queue.

    Expired messages before it are discarded, with their reports, before this returns, even if the
    unit of work is backed out later (E9, E14).
    """
    if request.match.selector is not None:
        place = place_for(place, core, path.queue, request.match)
    getter = Getter(core, path, request, unit_of_work, requester, place=place)
    return obtain(core, getter)


def next_message(
    core: Core, path: ResolvedQueue, unit_of_work: UnitOfWork | None, requester: Requester
) -> Message | None:
    """Take the next message without waiting; None for an empty queue.

    Same errors as :func:`get`.
    """
    try:
        return obtain(core, Getter(core, path, _NEXT, unit_of_work, requester)).message
    except NoMessage:
        return None


def obtain(core: Core, getter: Getter, left: list[Transaction] | None = None) -> GetResult:
    """Run a get: take a message, search in parts if the search is long, wait if it asks for that.

    Raises MQRC_NO_MSG_AVAILABLE when no message came, else the errors of :func:`get`. If a list
    ``left`` is passed, it receives the transaction that makes the get final, and the caller runs
    it.
    """
    path, requester = getter.path, getter.requester
    is_over = False
    while not is_over:
        waiter = None
        with core.engine_lock:
            ensure_running(core)
            if requester.is_ended:
                raise requester.error()
            outcome = getter.take(in_parts=True)
            if (
                outcome is not None
                and outcome[1] is not None
                and core.committer.run_at_once(outcome[1])
            ):
                outcome = outcome[0], None
            is_over = not getter.is_cut
            if is_over and outcome is None and getter.may_wait():
                waiter = _enqueue(core, path.queue, getter, requester)
        if waiter is None:
            core.committer.run_deferred()
        else:
            outcome = _outcome_of(core, getter, waiter)
            is_over = outcome is not None
        if not is_over:
            getter.search_on()
    if outcome is None:
        raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, f"no message for this get on {path.name}")
    result, transaction = outcome
    if transaction is not None and left is not None:
        left.append(transaction)
    elif transaction is not None:
        core.committer.run(transaction)
    return result


def _enqueue(core: Core, queue: LocalQueue, getter: Getter, requester: Requester) -> Waiter:
    """Add a get to the waits on a queue; return its entry. Needs the engine lock."""
    waiter = Waiter(getter.attempt, getter.until_ms, requester, takes_any=getter.takes_any)
    requester.wait(queue.number, waiter)
    if getter.until_ms is not None:
        core.must_wake = True
    return waiter


def _outcome_of(
    core: Core, getter: Getter, waiter: Waiter
) -> tuple[GetResult, Transaction | None] | None:
    """Wait for the outcome of a get; return it, or None if the caller must search again.

    The outcome is the result, and the transaction that takes the message, which the caller runs, or
    None in a unit of work. Raises the error with which the wait ends, such as
    MQRC_NO_MSG_AVAILABLE, and MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR when session or handle is closed
    meanwhile. The message then goes back to its queue, as after KeyboardInterrupt; a unit of work
    that the close has committed keeps it.
    """
    requester = getter.requester
    try:
        core.committer.run_deferred()
        outcome: tuple[GetResult, Transaction | None] | None = waiter.wait(core)
        with core.engine_lock:
            if not requester.is_ended:
                return outcome
            is_taken = outcome is not None and outcome[1] is None and not getter.only_looks
            if is_taken and not requester.is_backed_out:
                return outcome
            _take_back(core, waiter)
    except MQError:
        raise
    except BaseException:
        with core.engine_lock:
            core.waits.withdraw(waiter)
            _take_back(core, waiter)
        core.committer.run_deferred()
        raise
    core.committer.run_deferred()
    raise requester.error()


def _take_back(core: Core, waiter: Waiter) -> None:
    """Return a message to its queue that a wait has taken but no program will receive.

    Does nothing if the wait has taken none. Needs the engine lock.
    """
    outcome, waiter.result = waiter.result, None
    if outcome is not None and outcome[1] is not None:
        core.committer.take_back(outcome[1])


class Getter:
    """One get: it tries to take a message at once, and again whenever a message arrives.

    It is one verb call, with the state of its search and of its wait.
    """

    def __init__(
        self,
        core: Core,
        path: ResolvedQueue,
        request: GetRequest,
        unit_of_work: UnitOfWork | None,
        requester: Requester,
        *,
        place: SelectorProgress | None = None,
        only_looks: bool = False,
    ) -> None:
        """Prepare a get on a resolved name; raises MQRC_WAIT_INTERVAL_ERROR.

        A request with a selector needs a ``place``, the progress of its search. With ``only_looks``
        the get finds the message that it would take and leaves it on the queue.
        """
        if request.wait_ms < MQWI_UNLIMITED:
            raise mq_error(rc.MQRC_WAIT_INTERVAL_ERROR, f"WaitInterval {request.wait_ms}")
        self._core = core
        self.path = path
        self._request = request
        self._unit_of_work = unit_of_work
        self.requester = requester
        self.place = place
        self.only_looks = only_looks
        self.takes_any = request.match is ANY and not only_looks
        #: A search with a selector may be long: no other thread should do it.
        self.has_selector = request.match.selector is not None
        #: Whether a get with a callback is decided: the next one may continue at its place.
        self.is_over = False
        #: Whether the last take stopped before the end of the queue, and must be repeated.
        self.is_cut = False
        #: When its wait ends, None for never or as long as it has not waited.
        self.until_ms: int | None = None
        if place is not None:
            place.begin()

    def may_wait(self) -> bool:
        """Return True if wait time is left; the WaitInterval begins with the first call."""
        wait_ms = self._request.wait_ms
        if wait_ms == MQWI_UNLIMITED or not wait_ms:
            return bool(wait_ms)
        now_ms = self._core.now_ms()
        if self.until_ms is None:
            self.until_ms = now_ms + wait_ms
        return now_ms < self.until_ms

    def attempt(self) -> object:
        """Take a message for a waiting thread; return the outcome of :meth:`take`, or None.

        Returns SEARCH_UNLOCKED when a selector makes the search too long for the lock.
        """
        outcome = self.take(in_parts=self.has_selector)
        return SEARCH_UNLOCKED if self.is_cut else outcome

    def search_on(self) -> None:
        """Evaluate the selector, without the engine lock, on rows for which a search had no time.

        The next :meth:`take` checks that the rows are still there. Does nothing without a selector.
        Raises MQRC_CONNECTION_BROKEN, and MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR once session or
        handle is closed.
        """
        if self.place is not None:
            self.place.search_ahead(self.requester)

    def checked_queue(self) -> LocalQueue:
        """Return the queue of the get; raises the error that forbids a get from it now.

        That is MQRC_GET_INHIBITED, MQRC_Q_DELETED, MQRC_OBJECT_CHANGED,
        MQRC_SYNCPOINT_LIMIT_REACHED or MQRC_HCONN_ERROR.
        """
        path, registry = self.path, self._core.registry
        if path.version != registry.version:
            path = registry.refreshed(path)
        if path.get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {path.name}")
        if self._unit_of_work is not None:
            self._unit_of_work.check_capacity()
        return path.queue

    def take(self, *, in_parts: bool = False) -> tuple[GetResult, Transaction | None] | None:
        """Take a message now, under the engine lock; return result and transaction.

        Returns None if no message matches. The caller runs the transaction without the lock, which
        makes the get final; the transaction is None where nothing is left to do. With ``in_parts``
        the search stops after DISCARD_BATCH expired messages or a long evaluation of the selector,
        and sets ``is_cut``. Raises the errors of :meth:`checked_queue`.
        """
        core, unit_of_work = self._core, self._unit_of_work
        queue, now_ms = self.checked_queue(), now_ms_of(core)
        found, own = self._next_live(queue, now_ms, in_parts=in_parts)
        if own is not None:
            return self._take_own(own, now_ms)
        if found is None:
            return None
        row, persistence = found
        result = result_for(core, self._request, queue, row, now_ms)
        # Of most both are unset, and the property is not asked.
        if self.only_looks or ((result.warning or result.failure is not None) and result.stays):
            return result, None
        if self.takes_any:
            # No message before it is visible.
            queue_state.pass_over(queue, persistence, row.k)
        if self.requester.locked is not None:
            self.requester.forget_lock(row.k)
        if not persistence and self._request.persistent_only_syncpoint:
            unit_of_work = None
        found_row = queue, row, persistence
        return result, take_row(core, found_row, unit_of_work, now_ms, self.requester.terminated_by)

    def _next_live(
        self, queue: LocalQueue, now_ms: int, *, in_parts: bool
    ) -> tuple[tuple[StoredMessage, int] | None, UncommittedPut | None]:
        """Return the next live message and None, or None and an earlier put of this unit of work.

        Both are None when no message matches or the search stopped early; with ``in_parts`` a long
        search does. Expired messages before the result are hidden now, and discarded after the lock
        is released.
        """
        core, place = self._core, self.place
        unit_of_work = self._unit_of_work
        own = None
        if unit_of_work is not None and unit_of_work.has_puts:
            own = self._own_put(unit_of_work, queue, now_ms, in_parts=in_parts)
            if place is not None and place.selector_results.unevaluated:
                self.is_cut = True
                return None, None
        before = None if own is None else own.row.k
        alive, expired, reached, self.is_cut = look(
            core,
            queue,
            self._request.match,
            queue.low if place is None else place.step_from(queue.low),
            now_ms,
            before=before,
            in_parts=in_parts,
            requester=self.requester,
            selector_results=NO_RESULTS if place is None else place.selector_results,
        )
        if self.is_cut:
            own = None
        if place is not None:
            place.reach(reached, is_end=not self.is_cut)
            # A wait that begins now only sees messages that arrive from now on.
            if place.is_behind and alive is None and own is None and self._request.wait_ms:
                self.is_cut = True
        if expired and (alive or own or core.settings.discard_on_empty):
            discard_detected(core, expired, now_ms, self.requester, passes_all=self.takes_any)
        return alive, own if alive is None else None

    def _own_put(
        self, unit_of_work: UnitOfWork, queue: LocalQueue, now_ms: int, *, in_parts: bool
    ) -> UncommittedPut | None:
        """Return the first matching uncommitted put of the get's unit of work, else None.

        With ``in_parts`` it also returns None when evaluating the selector takes long: rows are
        then left for :meth:`search_on`.
        """
        match, place = self._request.match, self.place
        selector = match.selector
        selects = None if selector is None else asker(match, self._core, queue, now_ms)
        work = 0
        for pending in unit_of_work.own_puts(queue):
            # An expired one stays until the commit: no discard and no report before it (E17).
            row = pending.row
            if not match.accepts(row) or is_expired(row.expire_at_ms, now_ms):
                continue
            if selects is None:
                return pending
            assert selector is not None
            assert place is not None
            selector_results = place.selector_results
            is_taken = selector_results.of(row)
            if is_taken is None:
                more = work_on(selector, row)
                work += more
                if in_parts and (
                    more > LONG_WORK or work > TURN_WORK or selector_results.unevaluated
                ):
                    selector_results.unevaluated.append(row)
                    continue
                is_taken = selects(row)
            if is_taken:
                return None if selector_results.unevaluated else pending
        return None

    def _take_own(self, own: UncommittedPut, now_ms: int) -> tuple[GetResult, Transaction | None]:
        """Take an uncommitted put of the get's unit of work; its record becomes "put and got".

        Returns the result and None for the transaction. A message that stays, for example because
        it is too long for the buffer, is not taken.
        """
        result = result_for(self._core, self._request, own.queue, own.row, now_ms)
        if not result.stays:
            assert self._unit_of_work is not None
            self._unit_of_work.take_own(own)
            add_cod_report(self._core, (own.queue, own.row, 0), None, self._unit_of_work, now_ms)
        return result, None


class PreparedGet(NamedTuple):
    """A get or browse that may wait and has not run; ``finish`` is called with its result.

    The caller receives the return value of ``finish``.
    """

    getter: Getter
    finish: Callable[[GetResult], GetResult]


def result_for(
    core: Core, request: GetRequest, queue: LocalQueue, row: StoredMessage, now_ms: int
) -> GetResult:
    """Return the result of a get or browse for a row that had not expired at ``now_ms`` (G5).

    It has the data as view and buffer allow, a truncation warning, or the error why properties
    cannot be returned. ``now_ms`` also gives the remaining expiry, which so is never 0 (E4).
    """
    if queue.is_staging:
        row = shown(core, row)
    if row.body.startswith(TRANSMISSION_MARK):
        row = seen_in_transit(row, now_ms)
    visible, name = row, queue.definition.name
    handed: HandleContent | None = None
    failure: MQError | None = None
    if request.view is not _AS_STORED:
        visible, taken, failure = seen_as(request.view, row)
        if taken is not None:
            handed = HandleContent(taken, Message(name, row, now_ms, row.body))
    if request.extends:
        visible = _with_extension(visible)
    length = len(visible.body)
    message = Message(name, visible, now_ms, visible.body)
    if request.max_length is None or length <= request.max_length:
        return GetResult(message, rc.MQRC_NONE, length, handed, failure)
    warning = (
        rc.MQRC_TRUNCATED_MSG_ACCEPTED if request.accept_truncated else rc.MQRC_TRUNCATED_MSG_FAILED
    )
    return GetResult(message.cut_to(request.max_length), warning, length, handed, failure)


def _with_extension(row: StoredMessage) -> StoredMessage:
    """Return a row with its group and segment fields in an MQMDE before the data.

    A row whose MsgFlags are 0 is returned unchanged.
    """
    descriptor = unpack_descriptor(row.descriptor)
    if not descriptor.msg_flags:
        return row
    announcing, extension = extended(descriptor)
    return row._replace(descriptor=pack_descriptor(announcing), body=extension + row.body)


# A message that was found is taken, and expired ones are discarded


def take_row(
    core: Core,
    found: Found,
    unit_of_work: UnitOfWork | None,
    now_ms: int,
    terminated_by: TerminatedBy,
) -> Transaction | None:
    """Take a message under the engine lock, and add the COD report that it asks for.

    With a unit of work the message becomes part of it, and the result is None. Without one, returns
    the transaction that the caller runs to make the get final.
    """
    queue, row, persistence = found
    if unit_of_work is not None:
        unit_of_work.take(queue, row, persistence, now_ms)
        transaction = None
    else:
        transaction = Transaction()
        event = queue_state.GETS[queue.is_staging]
        queue_state.end(core, transaction, found, event, now_ms, terminated_by=terminated_by)
    add_cod_report(core, found, transaction, unit_of_work, now_ms)
    return transaction


def add_cod_report(
    core: Core,
    found: Found,
    transaction: Transaction | None,
    unit_of_work: UnitOfWork | None,
    now_ms: int,
) -> None:
    """Add the COD report that a got message asks for to the unit of work, or to the transaction.

    Does nothing if the message asks for none, or is on the staging queue. Needs the engine lock.
    """
    queue, row, _persistence = found
    if row.descriptor == core.unconfirmed_descriptor:
        return
    descriptor = unpack_descriptor(row.descriptor)
    if not descriptor.report & MQRO_COD:
        core.unconfirmed_descriptor = row.descriptor
        return
    if queue.is_staging:
        return
    report = Transaction() if transaction is None else transaction
    send_report(core, report, Cause.COD, original_of(queue, row, descriptor, now_ms))
    if transaction is None and unit_of_work is not None:
        unit_of_work.adopt(report)


def take_rows(
    core: Core,
    found: Sequence[Found],
    into: UnitOfWork | Transaction,
    now_ms: int,
    requester: Requester,
) -> None:
    """Take the first visible messages of one queue under the lock; ``found`` is not empty.

    They become part of a unit of work, or of a transaction that the caller runs.
    """
    queue = found[0][0]
    last_keys = {persistence: row.k for _queue, row, persistence in found}
    for persistence, last_key in last_keys.items():
        # No message before it is visible.
        queue_state.pass_over(queue, persistence, last_key)
    if requester.locked is not None:
        for _queue, row, _persistence in found:
            requester.forget_lock(row.k)
    if isinstance(into, UnitOfWork):
        into.take_all(found, now_ms)
    else:
        event = queue_state.GETS[queue.is_staging]
        queue_state.end_all(core, into, found, event, now_ms, terminated_by=requester.terminated_by)


def discard_detected(
    core: Core,
    expired: Sequence[Found],
    now_ms: int,
    requester: Requester,
    *,
    passes_all: bool = True,
) -> None:
    """Leave expired messages that a get has passed to ``Committer.run_deferred`` to discard.

    With ``passes_all``, for a get without match options, later searches begin after them. Browse
    locks of the ``requester`` on them end. The caller calls ``run_deferred`` without the engine
    lock, which it needs here.
    """
    for queue, row, persistence in expired:
        if passes_all:
            queue_state.pass_over(queue, persistence, row.k)
        requester.forget_lock(row.k)
    core.committer.deferred.append(
        discard_expired(core, expired, now_ms, DetectedBy.GET, requester.terminated_by)
    )


#: Messages of one turn of the lock, some 2 ms, and bytes of their bodies.
_TURN_MESSAGES, _TURN_BYTES = 128, 1024 * 1024
_PLAIN: Final = GetRequest()
#: In place of a persistence: a message that the getter's own unit of work has put.
OWN: Final = -1
#: Rows that one statement reads of a queue with messages of both kinds: some are not used.
_ROWS_OF_TWO: Final = 32
#: A held message: its own unit of work, or the message itself where one hold has many.
Got: TypeAlias = UnitOfWork | Found


# One search: the next messages


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
        """Take the first message, waiting for it as the request says; it joins ``messages``.

        Raises the errors of ``get.get``, among them MQRC_NO_MSG_AVAILABLE when none comes in time.
        """
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
        """Take messages while holding the engine lock once; return True if there may be more."""
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
    """Yield what :func:`take_each` yields, for a get without match options, by a single search.

    ``getter`` has checked its handle. The other arguments, errors and limits are those of
    :func:`take_each`.
    """
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
