"""MQGET, destructive: the next matching message that is alive, taken off its queue."""

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
    NO_VERDICTS,
    TURN_WORK,
    SelectorProgress,
    place_for,
    work_on,
)
from mayfly.engine.objects.registry import Path
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
from mayfly.verbs.contracts.outcomes import MetBy, TerminatedBy
from mayfly.verbs.messages import GetResult, Handed, Message

_AS_STORED: Final = View.AS_STORED


class GetRequest(NamedTuple):
    """The request of a getter; ``max_length`` None takes a body of any length.

    ``wait_ms`` 0 does not wait, MQWI_UNLIMITED (-1) waits for ever; ``persistent_only_syncpoint``
    is MQGMO_SYNCPOINT_IF_PERSISTENT; ``view`` says how the message's properties are returned.
    ``extends`` is for a caller with an MQMD of version 1: fields that it lacks, of a member of a
    group, a segment, or a message that may be cut, come in an MQMDE before the data.
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
    """Let a get take its message, waiting for it if asked to; raises as :func:`get`."""
    return prepared.finish(obtain(core, prepared.getter))


def get(
    core: Core,
    path: Path,
    request: GetRequest,
    unit_of_work: UnitOfWork | None,
    requester: Requester,
    *,
    place: SelectorProgress | None = None,
) -> GetResult:
    """Take the next message, waiting for it if asked to; in a unit of work until its commit.

    A ``place`` lets a selector go on where the last get with it ended. Raises
    MQRC_NO_MSG_AVAILABLE, MQRC_GET_INHIBITED, MQRC_WAIT_INTERVAL_ERROR,
    MQRC_SYNCPOINT_LIMIT_REACHED, and MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR when another thread closes
    the session or handle, the ``requester``, meanwhile: the message is on its queue then.

    Expired messages met on the way are discarded and reported on before this returns, whether the
    unit of work is committed or backed out (E9, E14).
    """
    if request.match.selector is not None:
        place = place_for(place, core, path.queue, request.match)
    getter = Getter(core, path, request, unit_of_work, requester, place=place)
    return obtain(core, getter)


def next_message(
    core: Core, path: Path, unit_of_work: UnitOfWork | None, requester: Requester
) -> Message | None:
    """Take whatever comes next, without a wait; None for an empty queue; raises as :func:`get`."""
    try:
        return obtain(core, Getter(core, path, _NEXT, unit_of_work, requester)).message
    except NoMessage:
        return None


def obtain(core: Core, getter: Getter, left: list[Transaction] | None = None) -> GetResult:
    """Let a getter take its message, waiting for it if asked to; raises as :func:`get`.

    With a list the work that makes the get final is left there for the caller to run.
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
    waiter = Waiter(getter.attempt, getter.until_ms, requester, takes_any=getter.takes_any)
    requester.wait(queue.number, waiter)
    if getter.until_ms is not None:
        core.must_wake = True
    return waiter


def _outcome_of(
    core: Core, getter: Getter, waiter: Waiter
) -> tuple[GetResult, Transaction | None] | None:
    """Run what is deferred, then wait; interrupted or closed meanwhile, this get takes no message.

    Except in a unit of work that is open or committed by the close. None: search on your own.
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
    outcome, waiter.result = waiter.result, None
    if outcome is not None and outcome[1] is not None:
        core.committer.take_back(outcome[1])


class Getter:
    """One get: tries to take a message, at once and again whenever one arrives."""

    def __init__(
        self,
        core: Core,
        path: Path,
        request: GetRequest,
        unit_of_work: UnitOfWork | None,
        requester: Requester,
        *,
        place: SelectorProgress | None = None,
        only_looks: bool = False,
    ) -> None:
        """Prepare a get on what a name resolved to; with a selector it has a place.

        One that ``only_looks`` finds what a get would take, and leaves it where it is.
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
        #: A search with a selector may be long: nobody else is to do it.
        self.has_selector = request.match.selector is not None
        #: Whether a get with a callback is decided, so that the next one may have its place.
        self.is_over = False
        #: Whether the last take has not come to the end of the queue, so that it is to be repeated.
        self.is_cut = False
        #: When its wait ends, None for never or as long as it has not waited.
        self.until_ms: int | None = None
        if place is not None:
            place.begin()

    def may_wait(self) -> bool:
        """Return True if there is time left to wait; the time begins with the first call."""
        wait_ms = self._request.wait_ms
        if wait_ms == MQWI_UNLIMITED or not wait_ms:
            return bool(wait_ms)
        now_ms = self._core.now_ms()
        if self.until_ms is None:
            self.until_ms = now_ms + wait_ms
        return now_ms < self.until_ms

    def attempt(self) -> object:
        """Take a message for a waiting thread; SEARCH_UNLOCKED when it is a long search."""
        outcome = self.take(in_parts=self.has_selector)
        return SEARCH_UNLOCKED if self.is_cut else outcome

    def search_on(self) -> None:
        """Go on with a search that was cut, without the lock, for the next take.

        The selector is asked; whether what it takes is still there, the take sees. Raises
        MQRC_CONNECTION_BROKEN, and the error of a holder that has ended.
        """
        if self.place is not None:
            self.place.scout(self.requester)

    def ready(self) -> LocalQueue:
        """Return the queue, from which nothing hinders a get now; raises what does."""
        path, registry = self.path, self._core.registry
        if path.version != registry.version:
            path = registry.refreshed(path)
        if path.get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {path.name}")
        if self._unit_of_work is not None:
            self._unit_of_work.check_capacity()
        return path.queue

    def take(self, *, in_parts: bool = False) -> tuple[GetResult, Transaction | None] | None:
        """Take a message now, under the lock; None when there is none.

        The work, if any, makes the get final and must be run by the getter without the lock.
        ``in_parts`` lets the lock go after DISCARD_BATCH expired messages (``is_cut``).
        """
        core, unit_of_work = self._core, self._unit_of_work
        queue, now_ms = self.ready(), now_ms_of(core)
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
            # All before it was looked at, and is hidden.
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
        """Return the next live message, or the own uncommitted put that comes before it."""
        core, place = self._core, self.place
        unit_of_work = self._unit_of_work
        own = None
        if unit_of_work is not None and unit_of_work.has_puts:
            own = self._own_put(unit_of_work, queue, now_ms, in_parts=in_parts)
            if place is not None and place.verdicts.unasked:
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
            verdicts=NO_VERDICTS if place is None else place.verdicts,
        )
        if self.is_cut:
            own = None
        if place is not None:
            place.reach(reached, is_end=not self.is_cut)
            # A wait that begins now hears only of messages that come from now on.
            if place.is_behind and alive is None and own is None and self._request.wait_ms:
                self.is_cut = True
        if expired and (alive or own or core.settings.discard_on_empty):
            for _queue, row, persistence in expired:
                if self.takes_any:
                    queue_state.pass_over(queue, persistence, row.k)
                self.requester.forget_lock(row.k)
            core.committer.deferred.append(
                discard_expired(core, expired, now_ms, MetBy.GET, self.requester.terminated_by)
            )
        return alive, own if alive is None else None

    def _own_put(
        self, unit_of_work: UnitOfWork, queue: LocalQueue, now_ms: int, *, in_parts: bool
    ) -> UncommittedPut | None:
        """Return the first own put that matches, None when there is none.

        None as well when rows are left to be asked about without the lock.
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
            verdicts = place.verdicts
            is_taken = verdicts.of(row)
            if is_taken is None:
                more = work_on(selector, row)
                work += more
                if in_parts and (more > LONG_WORK or work > TURN_WORK or verdicts.unasked):
                    verdicts.unasked.append(row)
                    continue
                is_taken = selects(row)
            if is_taken:
                return None if verdicts.unasked else pending
        return None

    def _take_own(self, own: UncommittedPut, now_ms: int) -> tuple[GetResult, Transaction | None]:
        result = result_for(self._core, self._request, own.queue, own.row, now_ms)
        if not result.stays:
            assert self._unit_of_work is not None
            self._unit_of_work.take_own(own)
            add_cod_report(self._core, (own.queue, own.row, 0), None, self._unit_of_work, now_ms)
        return result, None


class PreparedGet(NamedTuple):
    """A get that may wait, and what is done with its result before anybody sees that."""

    getter: Getter
    finish: Callable[[GetResult], GetResult]


def result_for(
    core: Core, request: GetRequest, queue: LocalQueue, row: StoredMessage, now_ms: int
) -> GetResult:
    """Return what a getter or browser with this buffer sees of a row now (G5).

    Now is when it was found to be alive: the clock has gone on, and 0 is never left (E4).
    """
    if queue.is_staging:
        row = shown(core, row)
    if row.body.startswith(TRANSMISSION_MARK):
        row = seen_in_transit(row, now_ms)
    visible, name = row, queue.definition.name
    handed: Handed | None = None
    failure: MQError | None = None
    if request.view is not _AS_STORED:
        visible, taken, failure = seen_as(request.view, row)
        if taken is not None:
            handed = Handed(taken, Message(name, row, now_ms, row.body))
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
    descriptor = unpack_descriptor(row.descriptor)
    if not descriptor.msg_flags:
        return row
    announcing, extension = extended(descriptor)
    return row._replace(descriptor=pack_descriptor(announcing), body=extension + row.body)


# A message that was found is taken, and expired ones that were met are discarded


def take_row(
    core: Core,
    found: Found,
    unit_of_work: UnitOfWork | None,
    now_ms: int,
    terminated_by: TerminatedBy,
) -> Transaction | None:
    """Take a row under the lock: into the unit of work, or without one by a transaction to be run.

    The transaction has the ``terminated_by`` of the getter.
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
    """Add the COD report, which is part of the getter's unit of work."""
    queue, row, _side = found
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
    """Take rows of one queue under the lock that are the next ones of all.

    They go into a unit of work, or into a transaction to be run.
    """
    queue = found[0][0]
    last_keys = {persistence: row.k for _queue, row, persistence in found}
    for persistence, last_key in last_keys.items():
        # All before it was looked at, and is hidden.
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
    core: Core, expired: Sequence[Found], now_ms: int, requester: Requester
) -> None:
    """Discard expired messages under the lock that a get of whatever comes next has met.

    The caller runs what is deferred.
    """
    for queue, row, persistence in expired:
        queue_state.pass_over(queue, persistence, row.k)
        requester.forget_lock(row.k)
    core.committer.deferred.append(
        discard_expired(core, expired, now_ms, MetBy.GET, requester.terminated_by)
    )
