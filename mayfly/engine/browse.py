"""Browse cursors of MQGET, which leave messages on the queue, and the lock on one of them."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.next_live import NO_RESULTS, SelectorProgress, look, place_for
from mayfly.engine.finding.search import ANY
from mayfly.engine.get import GetRequest, Getter, PreparedGet, obtain_prepared, result_for, take_row
from mayfly.engine.marks import Marks, Unmarked
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.waiting import SEARCH_UNLOCKED
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMMBI_UNLIMITED
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.contracts.outcomes import DetectedBy
from mayfly.verbs.messages import GetResult


class _Step(NamedTuple):
    """The options of one browse: from the first message or the cursor; with a lock or marks."""

    request: GetRequest
    first: bool
    lock: bool
    marks: int


class Cursor:
    """The browse cursor of one handle; at the start it is before the first message (B1)."""

    def __init__(
        self, core: Core, path: ResolvedQueue, requester: Requester, *, co_operates: bool = False
    ) -> None:
        """Begin before the first message of the queue that ``path`` leads to.

        ``requester`` owns the locks and marks; ``co_operates`` is True for a handle with
        MQOO_CO_OP.
        """
        self.core = core
        self.path = path
        self.requester = requester
        #: The marks of all handles; those of this one are ``requester``'s.
        self._marks = marks_of(path.queue)
        self._co_operates = co_operates
        #: Made for the first browse of unmarked messages.
        self._unmarked: Unmarked | None = None
        #: The key of the message under the cursor; None before the first.
        self.key: int | None = None
        #: The last message behind the cursor for which the selector was evaluated.
        self._place: SelectorProgress | None = None

    def browse(self, request: GetRequest) -> GetResult:
        """Return the next matching message after the cursor and move the cursor there.

        Waits for one if the request says so. Expired messages before it are discarded and reported
        (E8). The lock of the last browse ends, whatever the outcome (B5). Raises
        MQRC_NO_MSG_AVAILABLE when none came, without moving the cursor; MQRC_GET_INHIBITED,
        MQRC_WAIT_INTERVAL_ERROR; MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR when another thread closes
        session or handle.
        """
        return obtain_prepared(self.core, self.prepared(request, first=False, lock=False))

    def prepared(
        self, request: GetRequest, *, first: bool, lock: bool, marks: int = c.MQGMO_NONE
    ) -> PreparedGet:
        """Return a browse that has not run yet; ``obtain_prepared`` runs it and may wait.

        With ``first`` it starts at the first message of the queue, else after the message under the
        cursor. ``lock`` locks the message found, ``marks`` are the MQGMO options of marks (B7).
        Raises MQRC_WAIT_INTERVAL_ERROR.
        """
        if marks & c.MQGMO_UNMARKED_BROWSE_MSG:
            with self.core.engine_lock:
                unmarked = self._not_marked()
            request = request._replace(match=request.match._replace(unmarked=unmarked))
        self._place = place_for(self._place, self.core, self.path.queue, request.match)
        browser = _Browser(self, _Step(request, first, lock, marks), self._place)

        def finish(result: GetResult) -> GetResult:
            if marks & c.MQGMO_UNMARK_BROWSE_CO_OP:
                self._offer()
            return result

        return PreparedGet(browser, finish)

    def begin_step(self) -> None:
        """Release the lock of the last browse, and end marks whose MARKINT is over.

        Needs the engine lock.
        """
        assert self.core.engine_lock.is_held()
        self.requester.release_lock()
        self._end_expired_leases()

    def browse_under_cursor(
        self, request: GetRequest, *, lock: bool, marks: int = c.MQGMO_NONE
    ) -> GetResult:
        """Return the message under the cursor again; ``lock`` locks it, else its lock ends (B5).

        ``marks`` are the MQGMO options of marks. Raises MQRC_NO_MSG_UNDER_CURSOR when the cursor
        has no message (B4), or the message has expired, which discards it (E16). Raises
        MQRC_MSG_MARKED_BROWSE_CO_OP when the message is marked and the options ask for unmarked
        messages. Raises MQRC_GET_INHIBITED.
        """
        core = self.core
        try:
            with core.engine_lock:
                core.check_running()
                self.requester.check()
                self._check_get()
                self._end_expired_leases()
                now_ms = core.now_ms()
                found = self._at_cursor(now_ms, DetectedBy.BROWSE)
                if marks & c.MQGMO_UNMARKED_BROWSE_MSG and self._not_marked().hides(found[1]):
                    raise mq_error(rc.MQRC_MSG_MARKED_BROWSE_CO_OP, "the message is marked")
                result = result_for(core, request, found[0], found[1], now_ms)
                if not lock:
                    self.requester.release_lock()
                elif self.requester.locked is None:
                    self.requester.lock(found)
                if marks and not result.stays:
                    self._change_marks(found, marks)
        finally:
            core.committer.run_deferred()
        if marks & c.MQGMO_UNMARK_BROWSE_CO_OP:
            self._offer()
        return result

    def get_under_cursor(self, request: GetRequest, unit_of_work: UnitOfWork | None) -> GetResult:
        """Take the message under the cursor off the queue; match options are ignored (B4).

        Without a unit of work the get is final on return. Raises MQRC_NO_MSG_UNDER_CURSOR when the
        cursor has no message, or the message has expired, which discards and reports it (E16).
        Raises MQRC_MSG_MARKED_BROWSE_CO_OP when another handle of the co-operating set has marked
        it. Raises MQRC_GET_INHIBITED.
        """
        core = self.core
        try:
            with core.engine_lock:
                core.check_running()
                self.requester.check()
                self._check_get()
                if unit_of_work is not None:
                    unit_of_work.check_capacity()
                now_ms = core.now_ms()
                found = self._at_cursor(now_ms, DetectedBy.GET)
                self._check_own_mark(found[1].k)
                result = result_for(core, request, found[0], found[1], now_ms)
                transaction: Transaction | None = None
                if not result.stays:
                    self.requester.forget_lock(found[1].k)
                    is_in_unit = found[2] or not request.persistent_only_syncpoint
                    unit = unit_of_work if is_in_unit else None
                    transaction = take_row(core, found, unit, now_ms, self.requester.terminated_by)
        finally:
            core.committer.run_deferred()
        if transaction is not None:
            core.committer.run(transaction)
        return result

    def check_mark(self, key: int) -> None:
        """Raise MQRC_MSG_MARKED_BROWSE_CO_OP if another handle has marked this message for its set.

        The set is the handles of the queue with MQOO_CO_OP. Does nothing for a handle without
        MQOO_CO_OP.
        """
        try:
            with self.core.engine_lock:
                self._check_own_mark(key)
        finally:
            self.core.committer.run_deferred()

    def unlock(self) -> bool:
        """Release the browse lock; return False when nothing was locked (B6)."""
        with self.core.engine_lock:
            was_locked = self.requester.locked is not None
            self.requester.release_lock()
        self.core.committer.run_deferred()
        return was_locked

    def step(self, step: _Step, *, in_parts: bool) -> tuple[GetResult | None, bool]:
        """Search once for the next message, and move the cursor to it.

        ``step`` has the request, and says whether to start at the first message of the queue.
        Returns the result, or None if no message matches, and True if the search stopped early.
        With ``in_parts`` a long search stops early, and the caller goes on later. Needs the engine
        lock. Raises MQRC_GET_INHIBITED.
        """
        assert self.core.engine_lock.is_held()
        core, place, request = self.core, self._place, step.request
        self._check_get()
        queue, now_ms = self.path.queue, core.now_ms()
        low = start = queue.low if step.first or self.key is None else self.key + 1
        unmarked = request.match.unmarked
        if place is not None:
            start = place.step_from(low)
        elif unmarked is not None:
            start = unmarked.start_from(low)
        alive, expired, reached, is_cut = look(
            core,
            queue,
            request.match,
            start,
            now_ms,
            before=None,
            in_parts=in_parts,
            requester=self.requester,
            selector_results=NO_RESULTS if place is None else place.selector_results,
        )
        if place is not None:
            place.reach(reached, is_end=not is_cut)
            if place.is_behind and alive is None and request.wait_ms:
                is_cut = True
        if expired and (alive or core.settings.discard_on_empty):
            core.committer.deferred.append(
                discard_expired(
                    core, expired, now_ms, DetectedBy.BROWSE, self.requester.terminated_by
                )
            )
        if alive is None:
            return None, is_cut
        row, persistence = alive
        if unmarked is not None and request.match._replace(unmarked=None) == ANY:
            unmarked.reach(low, row.k)
        result = result_for(core, request, queue, row, now_ms)
        if not result.stays:
            self.key = row.k
            if step.lock:
                self.requester.lock((queue, row, persistence))
            if step.marks:
                self._change_marks((queue, row, persistence), step.marks)
        return result, is_cut

    def _change_marks(self, found: Found, options: int) -> None:
        """Mark or unmark a browsed message as the MQGMO options say.

        A mark for the co-operating set lasts for MARKINT, or without end if that is unlimited.
        """
        core, marks, requester = self.core, self._marks, self.requester
        if options & c.MQGMO_MARK_BROWSE_HANDLE:
            marks.mark(found, requester)
        if options & c.MQGMO_MARK_BROWSE_CO_OP:
            interval_ms = core.registry.queue_manager.markint
            is_unlimited = interval_ms == MQMMBI_UNLIMITED
            until_ms = None if is_unlimited else core.now_ms() + interval_ms
            marks.mark_for_set(found, requester, until_ms)
            # A browse may wait already for the end of the mark.
            core.must_wake = True
        if options & c.MQGMO_UNMARK_BROWSE_HANDLE:
            marks.unmark(found[1].k, requester)
        if options & c.MQGMO_UNMARK_BROWSE_CO_OP:
            marks.unmark_for_set(found[1].k)

    def _end_expired_leases(self) -> None:
        """End the marks of co-operating sets whose MARKINT is over; waiting browses try again."""
        if self._marks.marked:
            self._marks.end_expired_leases(self.core.now_ms(), self.core.waits.offer)

    def _check_own_mark(self, key: int) -> None:
        """Raise MQRC_MSG_MARKED_BROWSE_CO_OP as :meth:`check_mark` does; needs the engine lock."""
        if self._co_operates:
            self._end_expired_leases()
            if self._marks.is_of_another(key, self.requester):
                raise mq_error(
                    rc.MQRC_MSG_MARKED_BROWSE_CO_OP, "another handle of the set has marked it"
                )

    def _not_marked(self) -> Unmarked:
        """Return the object that knows the queue's unmarked messages; the first call makes it."""
        if self._unmarked is None:
            self._unmarked = Unmarked(
                self._marks,
                self.path.queue,
                self.requester,
                self.core.now_ms,
                co_operates=self._co_operates,
            )
        return self._unmarked

    def _offer(self) -> None:
        """Let waiting browses of the queue try again, because a mark was removed.

        Takes the engine lock.
        """
        with self.core.engine_lock:
            self.core.waits.offer(self.path.queue.number)
        self.core.committer.run_deferred()

    def _check_get(self) -> None:
        """Resolve the queue name again; raise MQRC_GET_INHIBITED if GET(DISABLED) applies to it."""
        self.path = self.core.registry.refreshed(self.path)
        if self.path.get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {self.path.name}")

    def _at_cursor(self, now_ms: int, detected_by: DetectedBy) -> Found:
        """Return the message under the cursor, with its queue and persistence.

        Raises MQRC_NO_MSG_UNDER_CURSOR if it is gone, hidden by another program, or expired; an
        expired message is discarded. ``detected_by`` says whether a get or a browse detected it.
        """
        core, queue = self.core, self.path.queue
        found = None if self.key is None else self._row(self.key)
        hidden = queue.owner.hidden
        if found is None or hidden.get(found[1].k, self.requester) is not self.requester:
            raise self._nothing_there()
        if is_expired(found[1].expire_at_ms, now_ms):
            self.requester.forget_lock(found[1].k)
            core.committer.deferred.append(
                discard_expired(core, [found], now_ms, detected_by, self.requester.terminated_by)
            )
            raise self._nothing_there()
        assert found[0] is queue
        return found

    def _row(self, key: int) -> Found | None:
        """Return the message with this key, its queue and persistence; None if it has left."""
        queue = self.path.queue
        for persistence in (VOLATILE, PERSISTENT):
            row = queue.owner.messages(persistence).row(key)
            if row is not None:
                return queue, row, persistence
        return None

    def _nothing_there(self) -> MQError:
        """Return the error MQRC_NO_MSG_UNDER_CURSOR for this cursor."""
        return mq_error(
            rc.MQRC_NO_MSG_UNDER_CURSOR, f"no message under the cursor on {self.path.name}"
        )


class _Browser(Getter):
    """A browse that can wait: it searches at once, and again whenever a message arrives."""

    def __init__(self, cursor: Cursor, step: _Step, place: SelectorProgress | None) -> None:
        """Prepare a browse of a cursor.

        ``step`` has its request and options. ``place`` is the progress of its selector, None
        without one.
        """
        super().__init__(
            cursor.core, cursor.path, step.request, None, cursor.requester, only_looks=True
        )
        self.place = place
        if place is not None:
            place.begin(from_start=step.first)
        self._cursor, self._step = cursor, step

    def take(self, *, in_parts: bool = False) -> tuple[GetResult, Transaction | None] | None:
        """Browse once, at the start of a verb, after ending the lock of the last browse.

        Returns the result and None for the transaction, or None without a message. With
        ``in_parts`` a long search stops early and sets ``is_cut``.
        """
        self._cursor.begin_step()
        return self._look(in_parts=in_parts)

    def attempt(self) -> object:
        """Browse for a waiting thread.

        Returns the result, None without a message, or SEARCH_UNLOCKED.
        SEARCH_UNLOCKED means that a selector makes the search too long for the engine lock.
        """
        outcome = self._look(in_parts=self.has_selector)
        return SEARCH_UNLOCKED if self.is_cut else outcome

    def _look(self, *, in_parts: bool) -> tuple[GetResult, Transaction | None] | None:
        """Search once; return the result and None for the transaction, or None without a message.

        Sets ``is_cut`` to True if the search stopped early. With ``in_parts`` a long search stops
        early.
        """
        result, self.is_cut = self._cursor.step(self._step, in_parts=in_parts)
        return None if result is None else (result, None)


def marks_of(queue: LocalQueue) -> Marks:
    """Return the browse marks of a queue; members of a group share those of a shared queue."""
    assert isinstance(queue.owner, Core)
    return queue.owner.marks
