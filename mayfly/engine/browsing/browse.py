"""MQGET, browsing: a cursor that reads messages in their place, and the lock on one of them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mayfly.engine.browsing.marking import HandleMarks
from mayfly.engine.core import Core
from mayfly.engine.disposal import discard_expired
from mayfly.engine.finding.alive import look
from mayfly.engine.finding.search import ANY
from mayfly.engine.finding.selector_progress import SelectorProgress, place_for
from mayfly.engine.get import GetRequest, GetResult, seen, take_row
from mayfly.engine.objects.registry import Path
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.waiting import LOOK_YOURSELF, Waiter
from mayfly.lifetime.window import is_expired
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error


class _Step(NamedTuple):
    """What one browse asks for; ``marks`` are the MQGMO options about marks."""

    request: GetRequest
    first: bool
    lock: bool
    marks: int


class Cursor:
    """The place of one browsing handle on its queue, before the first message at the start (B1)."""

    def __init__(
        self, core: Core, path: Path, requester: Requester, *, co_operates: bool = False
    ) -> None:
        """Begin before the first message; what is locked or marked, ``holder`` has.

        ``co_operates`` when it was opened with MQOO_CO_OP.
        """
        self._core = core
        self._path = path
        self._holder = requester
        self._marks = HandleMarks(core, path.queue, requester, co_operates=co_operates)
        self._key: int | None = None
        #: How far the selector was asked behind the cursor.
        self._place: SelectorProgress | None = None
        #: Whether the last step has not come to the end of the queue, so that it is to be repeated.
        self._is_cut = False

    @property
    def key(self) -> int | None:
        """The key of the message it stands on; None before the first."""
        return self._key

    def move_to(self, key: int) -> None:
        """Stand on a message that was browsed by the rules of groups."""
        self._key = key

    def browse(
        self, request: GetRequest, *, first: bool, lock: bool, marks: int = c.MQGMO_NONE
    ) -> GetResult:
        """Return the next matching message, the first one with ``first``; it stays on the queue.

        ``marks`` are the MQGMO options about marks (B7). Expired messages that would have been
        returned are discarded and reported on (E8). A lock of this cursor ends with this call,
        whatever its outcome (B5).

        Raises MQRC_NO_MSG_AVAILABLE at the end, the cursor staying where it is; MQRC_GET_INHIBITED,
        MQRC_WAIT_INTERVAL_ERROR; MQRC_HCONN_ERROR, MQRC_HOBJ_ERROR when closed by another thread.
        """
        if request.wait_ms < c.MQWI_UNLIMITED:
            raise mq_error(rc.MQRC_WAIT_INTERVAL_ERROR, f"WaitInterval {request.wait_ms}")
        core = self._core
        if marks & c.MQGMO_UNMARKED_BROWSE_MSG:
            request = self._marks.narrowed(request)
        step = _Step(request, first, lock, marks)
        until_ms = None
        self._place = place_for(self._place, core, self._path.queue, request.match)
        if self._place is not None:
            self._place.begin(anew=first)
        is_over = False
        while not is_over:
            waiter = None
            with core.engine_lock:
                core.check_running()
                self._holder.check()
                self._holder.release_lock()
                self._marks.end_lapsed()
                result = self._step(step, in_parts=True)
                is_over = not self._is_cut
                if is_over and result is None and request.wait_ms:
                    until_ms = _until(core, request.wait_ms) if until_ms is None else until_ms
                    if until_ms is None or core.now_ms() < until_ms:
                        waiter = Waiter(partial(self._attempt, step), until_ms, self._holder)
                        self._holder.wait(self._path.queue.number, waiter)
                        core.must_wake = True
            if waiter is None:
                core.committer.run_deferred()
            else:
                result = self._outcome_of(waiter)
                is_over = result is not None
            if self._place is not None and not is_over:
                self._place.scout(self._holder)
        if result is None:
            raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, f"no more messages on {self._path.name}")
        if marks & c.MQGMO_UNMARK_BROWSE_CO_OP:
            self._offer()
        return result

    def browse_under_cursor(
        self, request: GetRequest, *, lock: bool, marks: int = c.MQGMO_NONE
    ) -> GetResult:
        """Read the message at the cursor again; a lock on it stays or begins with ``lock`` (B5).

        Raises MQRC_NO_MSG_UNDER_CURSOR (B4), also when it has expired: it is then discarded (E16);
        MQRC_MSG_MARKED_BROWSE_CO_OP when it is marked and asked for as unmarked.
        """
        core = self._core
        try:
            with core.engine_lock:
                core.check_running()
                self._holder.check()
                self._check_get()
                self._marks.end_lapsed()
                now_ms = core.now_ms()
                found = self._at_cursor(now_ms)
                if marks & c.MQGMO_UNMARKED_BROWSE_MSG:
                    self._marks.check_unmarked(found[1])
                result = seen(core, request, found[0], found[1], now_ms)
                if not lock:
                    self._holder.release_lock()
                elif self._holder.locked is None:
                    self._holder.lock(found)
                if marks and not result.stays:
                    self._marks.change(found, marks)
        finally:
            core.committer.run_deferred()
        if marks & c.MQGMO_UNMARK_BROWSE_CO_OP:
            self._offer()
        return result

    def get_under_cursor(self, request: GetRequest, unit_of_work: UnitOfWork | None) -> GetResult:
        """Take the message at the cursor, match options ignored (B4).

        Raises MQRC_NO_MSG_UNDER_CURSOR when there is none, or when it has expired: it is then
        discarded, with its report, by this call (E16). MQRC_MSG_MARKED_BROWSE_CO_OP when another
        handle of its co-operating set has marked it.
        """
        core = self._core
        try:
            with core.engine_lock:
                core.check_running()
                self._holder.check()
                self._check_get()
                if unit_of_work is not None:
                    unit_of_work.check_room()
                now_ms = core.now_ms()
                found = self._at_cursor(now_ms)
                self._marks.check_own(found[1].k)
                result = seen(core, request, found[0], found[1], now_ms)
                transaction: Transaction | None = None
                if not result.stays:
                    self._holder.forget_lock(found[1].k)
                    transaction = take_row(core, found, request, unit_of_work, now_ms)
        finally:
            core.committer.run_deferred()
        if transaction is not None:
            core.committer.run(transaction)
        return result

    def check_mark(self, key: int) -> None:
        """Raise MQRC_MSG_MARKED_BROWSE_CO_OP when another of its set has marked a message."""
        try:
            with self._core.engine_lock:
                self._marks.check_own(key)
        finally:
            self._core.committer.run_deferred()

    def unlock(self) -> bool:
        """Release the lock; False when nothing was locked (B6)."""
        with self._core.engine_lock:
            was_locked = self._holder.locked is not None
            self._holder.release_lock()
        self._core.committer.run_deferred()
        return was_locked

    def _outcome_of(self, waiter: Waiter) -> GetResult | None:
        """Run what is deferred, then wait; interrupted or closed, this browse locks nothing more.

        None when it is to search on its own.
        """
        try:
            self._core.committer.run_deferred()
            result: GetResult | None = waiter.wait(self._core)
            with self._core.engine_lock:
                self._holder.check()
        except MQError:
            raise
        except BaseException:
            with self._core.engine_lock:
                self._core.waits.withdraw(self._path.queue.number, waiter)
            raise
        return result

    def _attempt(self, step: _Step) -> object:
        result = self._step(step, in_parts=self._place is not None)
        return LOOK_YOURSELF if self._is_cut else result

    def _step(self, step: _Step, *, in_parts: bool) -> GetResult | None:
        core, place, request = self._core, self._place, step.request
        self._check_get()
        queue, now_ms = self._path.queue, core.now_ms()
        low = start = queue.low if step.first or self._key is None else self._key + 1
        unmarked = request.match.unmarked
        if place is not None:
            start = place.step_from(low)
        elif unmarked is not None:
            start = unmarked.start_from(low)
        alive, expired, reached, self._is_cut = look(
            core,
            queue,
            request.match,
            start,
            now_ms,
            before=None,
            in_parts=in_parts,
            requester=self._holder,
        )
        if place is not None:
            place.reach(reached, is_end=not self._is_cut)
            if place.is_behind and alive is None and request.wait_ms:
                self._is_cut = True
        if expired and (alive or core.settings.discard_on_empty):
            core.committer.deferred.append(discard_expired(core, expired, now_ms))
        if alive is None:
            return None
        row, persistence = alive
        if unmarked is not None and request.match._replace(unmarked=None) == ANY:
            unmarked.reach(low, row.k)
        result = seen(core, request, queue, row, now_ms)
        if not result.stays:
            self._key = row.k
            if step.lock:
                self._holder.lock((queue, row, persistence))
            if step.marks:
                self._marks.change((queue, row, persistence), step.marks)
        return result

    def _offer(self) -> None:
        """Tell who waits that a message is unmarked; not in a step, which may be part of that."""
        with self._core.engine_lock:
            self._core.waits.offer(self._path.queue.number)
        self._core.committer.run_deferred()

    def _check_get(self) -> None:
        self._path = self._core.registry.refreshed(self._path)
        if self._path.get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {self._path.name}")

    def _at_cursor(self, now_ms: int) -> Found:
        core, queue = self._core, self._path.queue
        found = None if self._key is None else self._row(self._key)
        hidden = queue.home.hidden
        if found is None or hidden.get(found[1].k, self._holder) is not self._holder:
            raise self._nothing_there()
        if is_expired(found[1].expire_at_ms, now_ms):
            self._holder.forget_lock(found[1].k)
            core.committer.deferred.append(discard_expired(core, [found], now_ms))
            raise self._nothing_there()
        assert found[0] is queue
        return found

    def _row(self, key: int) -> Found | None:
        queue = self._path.queue
        for persistence in (VOLATILE, PERSISTENT):
            row = queue.home.messages(persistence).row(key)
            if row is not None:
                return queue, row, persistence
        return None

    def _nothing_there(self) -> MQError:
        return mq_error(
            rc.MQRC_NO_MSG_UNDER_CURSOR, f"no message under the cursor on {self._path.name}"
        )


def _until(core: Core, wait_ms: int) -> int | None:
    return None if wait_ms == c.MQWI_UNLIMITED else core.now_ms() + wait_ms
