"""MQGET, destructive: take the next matching message that has not expired off its queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.delay.staging import shown
from mayfly.engine.disposal import original_of, send_report
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.next_live import look
from mayfly.engine.finding.search import ANY, Match, asker
from mayfly.engine.finding.selecting import (
    LONG_WORK,
    NO_RESULTS,
    TURN_WORK,
    SelectorProgress,
    place_for,
    work_on,
)
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.properties import View, seen_as
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.remote.transmission import TRANSMISSION_MARK, extended, seen_in_transit
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
