"""Gets and browses of one handle by groups: its position, and which messages are available."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.browse import Cursor
from mayfly.engine.core import Core
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.next_live import DISCARD_BATCH, REFUSALS, SelectorResults, is_long
from mayfly.engine.finding.search import ANY, Match, asker
from mayfly.engine.get import (
    GetRequest,
    Getter,
    PreparedGet,
    add_cod_report,
    obtain,
    obtain_prepared,
    result_for,
)
from mayfly.engine.groups.index import (
    GROUPING,
    Completeness,
    Entry,
    GroupIndex,
    extent_of,
    index_of,
    mode_of,
    needed_by,
    returned_with,
)
from mayfly.engine.groups.place import GroupProgress, Position, position_after
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor, pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import NoMessage, mq_error
from mayfly.store.keys import id_hash, may_hold_key
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import DetectedBy
from mayfly.verbs.messages import GetResult

_UNDER_CURSOR = c.MQGMO_BROWSE_MSG_UNDER_CURSOR | c.MQGMO_MSG_UNDER_CURSOR
_BROWSE_ON = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT
_BROWSE = _BROWSE_ON | c.MQGMO_BROWSE_MSG_UNDER_CURSOR


class GroupGets:
    """The position of one handle in message groups, from its first get or browse by groups on.

    It has one position for gets and one for browses. A backout of a unit of work resets the
    position of gets to where it was before that unit.
    """

    def __init__(
        self,
        core: Core,
        requester: Requester,
        unit_of_work: UnitOfWork,
        cursor: Cursor,
    ) -> None:
        """Begin at no position; ``cursor`` is the browse cursor of the handle."""
        self._core = core
        self._requester = requester
        self._unit = unit_of_work
        self._cursor = cursor
        self._index: GroupIndex | None = None
        self._got = GroupProgress(unit_of_work.on_backout)
        self._browsed: Position | None = None
        #: In logical order the place of the group that is browsed; None before the first one.
        self._place: int | None = None
        #: Whether the cursor was moved in logical order.
        self._is_logical = False

    @property
    def incomplete(self) -> int:
        """The warning for closing the handle within a group; see :class:`GroupProgress`."""
        return self._got.incomplete

    def get(
        self,
        path: ResolvedQueue,
        request: GetRequest,
        options: int,
        prepare_ungrouped: Callable[[GetRequest, int], PreparedGet],
        get_under_cursor: Callable[[GetRequest, int], GetResult],
    ) -> GetResult:
        """Get or browse with MQGMO options, and return the result.

        Where no option concerns groups, ``prepare_ungrouped`` returns the get or browse to run, and
        ``get_under_cursor`` gets or browses the message under the cursor; both take request and
        options.

        Raises MQRC_NO_MSG_AVAILABLE, MQRC_MATCH_OPTIONS_ERROR (G3), MQRC_INCONSISTENT_UOW,
        MQRC_INCONSISTENT_BROWSE, MQRC_INVALID_MSG_UNDER_CURSOR, MQRC_MSG_MARKED_BROWSE_CO_OP, and
        the errors of ``get.get``.

        Warnings, unless the message was truncated: MQRC_INCOMPLETE_GROUP and MQRC_INCOMPLETE_MSG
        for a get that leaves logical order within a group, and MQRC_INCONSISTENT_CCSIDS or
        MQRC_INCONSISTENT_ENCODINGS for segments that differ (:class:`Reassembled`).
        """
        if not options & _UNDER_CURSOR:
            return obtain_prepared(
                self._core, self.prepared(path, request, options, prepare_ungrouped)
            )
        if not self._is_by_group(path, request, options):
            result = get_under_cursor(request, options)
            if options & _BROWSE:
                return result
            return self._note_get(result, options, result.data_length, self._in_unit(options))
        return self._under_cursor(path, request, options)

    def prepared(
        self,
        path: ResolvedQueue,
        request: GetRequest,
        options: int,
        prepare_ungrouped: Callable[[GetRequest, int], PreparedGet],
    ) -> PreparedGet:
        """Return a get or browse that may wait, except one of the message under the cursor.

        ``prepare_ungrouped`` prepares it when no option concerns groups. Raises
        MQRC_MATCH_OPTIONS_ERROR when match options contradict logical order, and
        MQRC_INCONSISTENT_BROWSE.
        """
        if options & _BROWSE_ON:
            return self._prepared_browse(path, request, options, prepare_ungrouped)
        if not self._is_by_group(path, request, options):
            getter, finish = prepare_ungrouped(request, options)

            def finish_ungrouped(result: GetResult) -> GetResult:
                result = finish(result)
                in_unit = self._in_unit(options)
                return self._note_get(result, options, result.data_length, in_unit)

            return PreparedGet(getter, finish_ungrouped)
        position = self._got.position if options & c.MQGMO_LOGICAL_ORDER else None
        if options & c.MQGMO_LOGICAL_ORDER:
            request = _in_order(request, position)
        by_group = self._getter(path, request, options, Where(mode_of(options), position))

        def finish_by_group(result: GetResult) -> GetResult:
            return self._note_get(result, options, by_group.found_bytes, by_group.in_unit)

        return PreparedGet(by_group, finish_by_group)

    def _is_by_group(self, path: ResolvedQueue, request: GetRequest, options: int) -> bool:
        """Return True if options or match options concern groups.

        False on the staging queue (D9).
        """
        # A delayed message is in no group (D9).
        return bool(options & GROUPING or request.match.group_id) and not path.queue.is_staging

    def _prepared_browse(
        self,
        path: ResolvedQueue,
        request: GetRequest,
        options: int,
        prepare_ungrouped: Callable[[GetRequest, int], PreparedGet],
    ) -> PreparedGet:
        """Return a browse that moves the cursor.

        ``prepare_ungrouped`` prepares it when no option concerns groups. Raises
        MQRC_INCONSISTENT_BROWSE when BROWSE_NEXT changes to or from logical order.
        """
        is_logical = bool(options & c.MQGMO_LOGICAL_ORDER)
        is_first = bool(options & c.MQGMO_BROWSE_FIRST) or self._cursor.key is None
        if not is_first and is_logical != self._is_logical:
            raise mq_error(
                rc.MQRC_INCONSISTENT_BROWSE,
                "MQGMO_BROWSE_NEXT goes on as it began: with or without MQGMO_LOGICAL_ORDER",
            )
        if not self._is_by_group(path, request, options):
            plain, finish = prepare_ungrouped(request, options)

            def finish_ungrouped(result: GetResult) -> GetResult:
                self._is_logical = False
                return finish(result)

            return PreparedGet(plain, finish_ungrouped)
        position = None if is_first or not is_logical else self._browsed
        if is_logical:
            request = _in_order(request, position)
        last_key = self._place if is_logical else self._cursor.key
        low = path.queue.low if is_first or last_key is None else last_key + 1
        where = Where(mode_of(options), position, low=low)
        with self._core.engine_lock:
            self._core.check_running()
            self._requester.check()
            self._requester.release_lock()
        getter = self._browser(path, request, options, where)

        def finish_by_group(result: GetResult) -> GetResult:
            if not result.stays:
                self._is_logical = is_logical
                if is_logical:
                    if position is None:
                        self._place = getter.found_key
                    self._browsed = position_after(
                        result.message.descriptor,
                        getter.found_bytes,
                        in_unit=False,
                        is_logical=True,
                    )
            return result

        return PreparedGet(getter, finish_by_group)

    def _under_cursor(self, path: ResolvedQueue, request: GetRequest, options: int) -> GetResult:
        """Get or browse the message under the cursor; match options are ignored (B4).

        Raises MQRC_NO_MSG_UNDER_CURSOR, MQRC_MSG_MARKED_BROWSE_CO_OP,
        MQRC_INVALID_MSG_UNDER_CURSOR, and the MQError with which a get fails, such as
        MQRC_GET_INHIBITED.
        """
        key = self._cursor.key
        if key is None:
            raise self._nothing_there(path)
        is_browse = bool(options & c.MQGMO_BROWSE_MSG_UNDER_CURSOR)
        position = self._browsed if is_browse else self._got.position
        self._check_cursor(path, key, options, position)
        request = request._replace(match=ANY, wait_ms=0)
        where = Where(mode_of(options & ~c.MQGMO_LOGICAL_ORDER), key=key)
        try:
            if is_browse:
                return obtain(self._core, self._browser(path, request, options, where))
            self._cursor.check_mark(key)
            getter = self._getter(path, request, options, where)
            result = obtain(self._core, getter)
        except NoMessage:
            raise self._nothing_there(path) from None
        return self._note_get(result, options, getter.found_bytes, getter.in_unit)

    def _check_cursor(
        self, path: ResolvedQueue, key: int, options: int, position: Position | None
    ) -> None:
        """Raise unless the options allow a get of the message under the cursor.

        In logical order it must be the message that follows ``position``. Raises
        MQRC_INVALID_MSG_UNDER_CURSOR, and MQRC_NO_MSG_UNDER_CURSOR when no visible message is at
        the cursor.
        """
        index = self._index_of(path)
        with self._core.engine_lock:
            index.refresh(at_once=True)
            entry = index.entry(key)
            if entry is None or not index.is_there(entry, self._requester):
                raise self._nothing_there(path)
            place = entry.number, entry.offset
        is_wrong = bool(options & c.MQGMO_COMPLETE_MSG and entry.offset)
        if options & c.MQGMO_LOGICAL_ORDER:
            follows = (1, 0) if position is None else (position.msg_seq_number, position.offset)
            is_wrong |= place != follows
            if position is not None:
                group = index.group(position.group_id, position.feedback)
                is_wrong |= group is None or entry.group is not group
        if is_wrong:
            raise mq_error(
                rc.MQRC_INVALID_MSG_UNDER_CURSOR,
                f"at the cursor is MsgSeqNumber {entry.number}, Offset {entry.offset}",
            )

    def _note_get(
        self, result: GetResult, options: int, length_bytes: int, in_unit: bool
    ) -> GetResult:
        """Set the position of gets to the place after a message; return the result and any warning.

        ``options`` are the MQGMO options of the get, ``length_bytes`` the length of the message;
        ``in_unit`` says that the get belongs to a unit of work. The warning is for a get that
        leaves logical order within a group. A truncated message that stays on the queue does not
        change the position.
        """
        if result.stays:
            return result
        is_logical, left = bool(options & c.MQGMO_LOGICAL_ORDER), self._got.position
        if left is not None and left.is_logical and not (is_logical or result.warning):
            result = result.with_warning(left.incomplete)
        position = position_after(
            result.message.descriptor, length_bytes, in_unit=in_unit, is_logical=is_logical
        )
        self._got.move_to(position, in_unit=in_unit)
        return result

    def _in_unit(self, options: int) -> bool:
        """Return True if MQGMO options say syncpoint, always or for persistent messages."""
        return bool(options & (c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT))

    def _getter(
        self, path: ResolvedQueue, request: GetRequest, options: int, where: Where
    ) -> GroupGetter:
        """Return a get that searches at ``where``.

        It is in the unit of work if the options say syncpoint.
        """
        unit_of_work = self._unit if self._in_unit(options) else None
        index = self._index_of(path)
        core, requester = self._core, self._requester
        return GroupGetter(core, path, request, unit_of_work, requester, index=index, where=where)

    def _browser(
        self, path: ResolvedQueue, request: GetRequest, options: int, where: Where
    ) -> GroupBrowser:
        """Return a browse that searches at ``where``."""
        return GroupBrowser(
            self._core,
            path,
            request,
            self._cursor,
            self._requester,
            index=self._index_of(path),
            where=where,
            locks=bool(options & c.MQGMO_LOCK),
        )

    def _index_of(self, path: ResolvedQueue) -> GroupIndex:
        """Return the group index of the queue; the first call may read the whole queue."""
        if self._index is None:
            self._index = index_of(self._core, path.queue)
        return self._index

    def _nothing_there(self, path: ResolvedQueue) -> NoMessage:
        """Return MQRC_NO_MSG_UNDER_CURSOR as an exception; the caller raises it."""
        error = mq_error(rc.MQRC_NO_MSG_UNDER_CURSOR, f"no message under the cursor on {path.name}")
        assert isinstance(error, NoMessage)
        return error


def _in_order(request: GetRequest, position: Position | None) -> GetRequest:
    """Return a request without MsgSeqNumber and Offset to match, for logical order.

    ``position`` is the place of the next message in its group, None at the beginning of a group.
    Raises MQRC_MATCH_OPTIONS_ERROR when the match options name another message than the next one.
    """
    match: Match = request.match
    number, offset = (1, 0) if position is None else (position.msg_seq_number, position.offset)
    if (
        match.msg_seq_number not in (None, number)
        or match.offset not in (None, offset)
        or (position and match.group_id and match.group_id != position.group_id)
    ):
        raise mq_error(
            rc.MQRC_MATCH_OPTIONS_ERROR,
            f"next in logical order is MsgSeqNumber {number}, Offset {offset}",
        )
    return request._replace(match=match._replace(msg_seq_number=None, offset=None))


class Where(NamedTuple):
    """Where a get searches: behind a ``position``, at one ``key``, or from the key ``low`` on.

    ``mode`` is the result of :func:`~mayfly.engine.groups.index.mode_of`.
    """

    mode: int
    position: Position | None = None
    key: int | None = None
    low: int = 0


class GroupGetter(Getter):
    """One get with group options; it is tried again whenever a message arrives."""

    def __init__(
        self,
        core: Core,
        path: ResolvedQueue,
        request: GetRequest,
        unit_of_work: UnitOfWork | None,
        requester: Requester,
        *,
        index: GroupIndex,
        where: Where,
    ) -> None:
        """Prepare a get that searches at ``where``.

        ``index`` is the group index of the queue. With ``unit_of_work`` None it is outside
        syncpoint: the removal is final.
        """
        super().__init__(core, path, request, unit_of_work, requester)
        self.takes_any = False
        self._index = index
        self._where = where
        #: The key at which a search that was cut short continues.
        self._low = where.low
        self._arrival_count = 0
        self._expired: list[Found] = []
        self._selector_results = SelectorResults()
        match = request.match
        self._msg_hash = None if match.msg_id is None else id_hash(match.msg_id)
        self._correl_hash = None if match.correl_id is None else id_hash(match.correl_id)
        placed = {"group_id": None, "msg_seq_number": None, "offset": None, "selector": None}
        #: Whether the row must be read to know if it is wanted.
        self._asks_row = match is not ANY and match._replace(**placed) != ANY
        #: The key of what it found; in logical order that is the place of the group.
        self.found_key: int | None = None
        #: The length of the message on its queue; of a report, that of its original.
        self.found_bytes = 0
        #: Whether what it took is part of its unit of work.
        self.in_unit = False

    def take(self, *, in_parts: bool = False) -> tuple[GetResult, Transaction | None] | None:
        """Take an available message off the queue; return its result and a transaction to run.

        None when no message is available. The caller runs the transaction, which makes the removal
        final; it is None when the unit of work has all changes. With ``in_parts`` one call does a
        bounded amount of work, and ``is_cut`` is set when more is to do. The engine lock is held.
        """
        queue, now_ms = self.checked_queue(), self._core.now_ms()
        self.is_cut = not self._index.refresh(at_once=not in_parts)
        if self.is_cut:
            return None
        own = []
        if self._unit_of_work is not None:
            own = self._index.include(self._unit_of_work.own_puts(queue))
        try:
            parts = self._find(queue, now_ms, in_parts=in_parts)
        finally:
            for entry in own:
                self._index.remove(entry)
        self._discard(now_ms, has_found=bool(parts))
        if not parts:
            return None
        self.found_key = parts[0].key
        return self.deliver(queue, parts, now_ms)

    def search_on(self) -> None:
        """Evaluate the selector, without the lock, for the message where :meth:`take` stopped.

        Does nothing when no evaluation is left.
        """
        core = self._core
        if not self._selector_results.unevaluated:
            return
        with core.engine_lock:
            core.check_running()
            self.requester.check()
            selects = asker(self._request.match, core, self.path.queue, core.now_ms())
        self._selector_results.evaluate(selects)

    def deliver(
        self, queue: LocalQueue, parts: list[Entry], now_ms: int
    ) -> tuple[GetResult, Transaction | None] | None:
        """Take the message that consists of these segments; return its result and a transaction.

        The caller runs the transaction, which makes the removal final. The transaction is None when
        the unit of work has all changes, or a truncated message stays on the queue. The pair itself
        is never None here. Raises MQRC_INCONSISTENT_UOW when the group was begun inside a unit of
        work and this get is outside, or the reverse, and MQRC_SYNCPOINT_LIMIT_REACHED.
        """
        rows = [self._row(entry) for entry in parts]
        result, message = self.look_at(queue, parts, rows, now_ms)
        if result.stays:
            return result, None
        taken = parts[: message.row_count]
        in_unit = self._is_in_unit(taken)
        position = self._where.position
        if position is not None and position.in_unit != in_unit:
            raise mq_error(
                rc.MQRC_INCONSISTENT_UOW,
                "a group is got either in a unit of work or outside of any, not in both",
            )
        if in_unit and self._unit_of_work is not None:
            self._unit_of_work.check_capacity(len(taken))
        self.in_unit = in_unit
        transaction: Transaction | None = None
        for entry, row in zip(taken, rows, strict=False):
            if entry.pending is None:
                self._index.remove(entry)
                self.requester.forget_lock(row.k)
                transaction = self._take_row((queue, row, entry.persistence), transaction, now_ms)
            else:
                assert self._unit_of_work is not None
                self._unit_of_work.take_own(entry.pending)
        # Without a transaction all of it is the unit of work's own.
        found = queue, message.row, taken[0].persistence
        add_cod_report(self._core, found, transaction, self._unit_of_work, now_ms)
        return result, transaction

    def look_at(
        self, queue: LocalQueue, parts: list[Entry], rows: list[StoredMessage], now_ms: int
    ) -> tuple[GetResult, Reassembled]:
        """Join rows, in order of offset, to one message.

        Returns the result of the get and that message.
        """
        message = reassembled(rows)
        self.found_bytes = parts[message.row_count - 1].end - parts[0].offset
        result = result_for(self._core, self._request, queue, message.row, now_ms)
        if message.warning and not result.warning:
            result = result.with_warning(message.warning)
        return result, message

    def _take_row(
        self, found: Found, transaction: Transaction | None, now_ms: int
    ) -> Transaction | None:
        """Remove one row in the unit of work, or in a transaction.

        ``transaction`` None begins a new transaction, if one is needed. Returns the transaction, or
        None if only the unit of work has changes.
        """
        queue, row, persistence = found
        if self._unit_of_work is not None and self.in_unit:
            self._unit_of_work.take(queue, row, persistence, now_ms)
            return transaction
        transaction = transaction or Transaction()
        event, terminated_by = queue_state.GETS[queue.is_staging], self.requester.terminated_by
        queue_state.end(self._core, transaction, found, event, now_ms, terminated_by=terminated_by)
        return transaction

    def _is_in_unit(self, taken: list[Entry]) -> bool:
        """Return True if a get of these messages belongs to the unit of work.

        With MQGMO_SYNCPOINT_IF_PERSISTENT one of them must be persistent.
        """
        if self._unit_of_work is None:
            return False
        is_persistent = any(entry.persistence == PERSISTENT for entry in taken)
        return is_persistent or not self._request.persistent_only_syncpoint

    def _find(self, queue: LocalQueue, now_ms: int, *, in_parts: bool) -> list[Entry]:
        """Return the next available message as its segments, empty when none is available.

        Expired messages on the way are collected for :meth:`_discard`. With ``in_parts`` it may
        stop before the end of the queue, for example at a slow selector evaluation; it then sets
        ``is_cut``.
        """
        selector = self._request.match.selector
        selects = None
        if selector is not None:
            selects = asker(self._request.match, self._core, queue, now_ms)
        may_cut = in_parts and self._core.settings.discard_on_empty
        refused_count = 0
        if self._low == self._where.low:
            self._arrival_count = self._index.arrival_count
        for entry in self._candidates():
            needed = self._needed_by(entry, now_ms)
            if not self._are_there(needed, entry):
                continue
            is_taken = self._is_wanted(entry)
            if is_taken and selects is not None:
                assert selector is not None
                row = self._row(entry)
                is_selected = self._selector_results.of(row)
                if is_selected is None and in_parts and is_long(selector, row):
                    self._selector_results.unevaluated.append(row)
                    self.is_cut = True
                    if not may_cut:
                        # The next search finds the expired ones again, before a live one (K7).
                        self._low = self._where.low
                    return []
                is_taken = selects(row) if is_selected is None else is_selected
            if not is_taken:
                refused_count += 1
                self._low = entry.key + 1
            elif self._are_alive(needed, entry, queue, now_ms):
                self._low = self._where.low
                return returned_with(entry, self._mode_at())
            if may_cut and (refused_count >= REFUSALS or len(self._expired) >= DISCARD_BATCH):
                self.is_cut = True
                return []
        # A wait that begins now is offered only messages that arrive from now on.
        self.is_cut = in_parts and self._arrival_count != self._index.arrival_count
        self._low = self._where.low
        return []

    def _needed_by(self, entry: Entry, now_ms: int) -> list[Entry]:
        """Return the messages of a group that must be looked for before an entry is returned.

        Empty when the last search has found them all, and nothing has changed since.
        """
        group, mode = entry.group, self._mode_at()
        seen = None if group is None else group.seen.get(extent_of(entry, mode))
        if seen is None or seen.at != self._index.moment or is_expired(seen.dies_ms, now_ms):
            return needed_by(entry, mode)
        return []

    def _note_seen(self, entry: Entry, needed: list[Entry]) -> None:
        """Remember that all needed messages were visible, so that the next get need not look again.

        Not remembered while the requester has a locked message, which it alone sees.
        """
        if entry.group is None or len(needed) < 2 or self.requester.locked is not None:
            return
        ends = [each.expire_at_ms for each in needed if each.expire_at_ms is not None]
        seen = Completeness(self._index.moment, min(ends, default=None))
        entry.group.seen[extent_of(entry, self._mode_at())] = seen

    def _mode_at(self) -> int:
        """Return the group options (MQGMO) that apply at the position of this get.

        A group that was begun need not be complete; within a segmented message none apply.
        """
        mode, position = self._where.mode, self._where.position
        if position is None:
            return mode
        if position.in_message:
            return 0
        return mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_SEGMENTS_AVAILABLE)

    def _candidates(self) -> Iterator[Entry]:
        """Yield the messages with which the get may begin, in order.

        The index may change after each.
        """
        index, where = self._index, self._where
        if where.position is not None:
            yield from self._following(where.position)
        elif where.key is not None:
            entry = index.entry(where.key)
            group = None if entry is None else entry.group
            if entry is not None and (group is None or entry in group.available(where.mode)):
                yield entry
        else:
            match = self._request.match
            while (following := index.next(where.mode, self._low, match)) is not None:
                yield following

    def _following(self, position: Position) -> list[Entry]:
        """Return the messages that may follow a position in logical order; empty without one."""
        group = self._index.group(position.group_id, position.feedback)
        if group is None:
            return []
        number = position.msg_seq_number
        if self._mode_at():
            return group.message(number)[:1]
        return group.segments_at(number, position.offset)

    def _are_there(self, needed: list[Entry], candidate: Entry) -> bool:
        """Return True if all needed messages are visible to the requester.

        ``candidate`` is the message with which the get would begin. Needed messages that have left
        the queue, or that a unit of work hides, are removed from the index.
        """
        queue_owner = self._index.owner
        hidden = queue_owner.hidden
        stored: tuple[list[Entry], list[Entry]] = ([], [])
        are_there = True
        for entry in needed:
            hider = hidden.get(entry.key, self.requester)
            if hider is self.requester:
                if entry.pending is None:
                    stored[entry.persistence].append(entry)
                continue
            are_there = False
            if isinstance(hider, Requester):
                # Locked by a browse: its holder can see it, by this very index.
                self._low = candidate.key + 1
            else:
                self._index.remove(entry)
        for persistence in (VOLATILE, PERSISTENT):
            if stored[persistence]:
                keys = [entry.key for entry in stored[persistence]]
                here = queue_owner.messages(persistence).present(keys)
                for entry in stored[persistence]:
                    if entry.key not in here:
                        are_there = False
                        self._index.remove(entry)
        if are_there:
            self._note_seen(candidate, needed)
        return are_there

    def _is_wanted(self, entry: Entry) -> bool:
        """Return True if a message satisfies the match options; the selector is not evaluated.

        Within a group in logical order it raises MQRC_MATCH_OPTIONS_ERROR instead of returning
        False.
        """
        match = self._request.match
        if (
            match.msg_seq_number not in (None, entry.number)
            or match.offset not in (None, entry.offset)
            or not self._may_have_id(entry)
            or self._correl_hash not in (None, entry.correl_hash)
        ):
            return self._refuse()
        return not self._asks_row or match.accepts(self._row(entry)) or self._refuse()

    def _may_have_id(self, entry: Entry) -> bool:
        """Return True if a message may have the MsgId to match, by its hash."""
        if self._msg_hash is None:
            return True
        if entry.msg_hash is None:
            return may_hold_key(self._msg_hash, entry.key)
        return entry.msg_hash == self._msg_hash

    def _refuse(self) -> bool:
        """Refuse match options within a group in logical order: raise MQRC_MATCH_OPTIONS_ERROR.

        Returns False elsewhere.
        """
        if self._where.position is not None:
            raise mq_error(
                rc.MQRC_MATCH_OPTIONS_ERROR, "the next message in logical order is another one"
            )
        return False

    def _are_alive(self, needed: list[Entry], entry: Entry, queue: LocalQueue, now_ms: int) -> bool:
        """Return True if no needed message has expired.

        Otherwise the search continues. The expired messages are discarded by :meth:`_discard` if
        this get would have returned all of them, and none is an uncommitted put. Else they stay on
        the queue, and the index notes those that this get would not have returned.
        """
        dead = [e for e in needed if is_expired(e.expire_at_ms, now_ms)]
        if not dead:
            return True
        returned = returned_with(entry, self._mode_at())
        others = [e for e in dead if e not in returned]
        for e in others:
            self._index.spoil(e)
        if others or any(e.pending for e in dead):
            # An own put stays until its commit (E17).
            self._low = entry.key + 1
            return False
        for e in dead:
            self._expired.append((queue, self._row(e), e.persistence))
            self._index.remove(e)
        return False

    def _discard(self, now_ms: int, *, has_found: bool) -> None:
        """Discard the expired messages that were found, or put them back into the index.

        They go back when ``has_found`` is False and the setting ``discard_on_empty`` is off.
        """
        expired, self._expired = self._expired, []
        if not expired:
            return
        if has_found or self._core.settings.discard_on_empty:
            for _queue, row, _persistence in expired:
                self.requester.forget_lock(row.k)
            detected_by = DetectedBy.BROWSE if self.only_looks else DetectedBy.GET
            self._core.committer.deferred.append(
                discard_expired(
                    self._core, expired, now_ms, detected_by, self.requester.terminated_by
                )
            )
        else:
            for _queue, row, _persistence in expired:
                self._index.lower(row.k)

    def _row(self, entry: Entry) -> StoredMessage:
        """Return the stored row of a message in the index; its put may be uncommitted."""
        if entry.pending is not None:
            return entry.pending.row
        row = self._index.owner.messages(entry.persistence).row(entry.key)
        assert row is not None
        return row


class GroupBrowser(GroupGetter):
    """One browse with group options; it moves the cursor to the message that it finds."""

    def __init__(
        self,
        core: Core,
        path: ResolvedQueue,
        request: GetRequest,
        cursor: Cursor,
        requester: Requester,
        *,
        index: GroupIndex,
        where: Where,
        locks: bool,
    ) -> None:
        """Prepare a browse that searches at ``where`` and moves ``cursor``.

        ``index`` is the group index of the queue. With ``locks`` (MQGMO_LOCK) the message is
        locked.
        """
        super().__init__(core, path, request, None, requester, index=index, where=where)
        self.only_looks = True
        self._cursor = cursor
        self._locks = locks

    def deliver(
        self, queue: LocalQueue, parts: list[Entry], now_ms: int
    ) -> tuple[GetResult, Transaction | None] | None:
        """Move the cursor to the message and return its result; the transaction is always None.

        With MQGMO_LOCK the message is locked. A message that is too long, when truncation is not
        accepted, does not move the cursor.
        """
        rows = [self._row(entry) for entry in parts]
        result, _message = self.look_at(queue, parts, rows, now_ms)
        if not result.stays:
            self._cursor.key = parts[0].key
            if self._locks:
                self.requester.lock((queue, rows[0], parts[0].persistence))
        return result, None


class Reassembled(NamedTuple):
    """A message of several rows as one row; the first ``row_count`` rows are in it.

    ``warning`` is 0, or MQRC_INCONSISTENT_CCSIDS or MQRC_INCONSISTENT_ENCODINGS when later rows
    differ from the first in character set or encoding, and so are left out.
    """

    row: StoredMessage
    row_count: int
    warning: int


def reassembled(rows: Sequence[StoredMessage]) -> Reassembled:
    """Join the segments of a message, ``rows`` in order of offset, to one row.

    Its descriptor is that of the first segment, marked as the last one too. It expires with the
    segment that expires first. Segments from the first with another CCSID or encoding on are left
    out.
    """
    if len(rows) == 1:
        return Reassembled(rows[0], 1, rc.MQRC_NONE)
    parts = [unpack_descriptor(row.descriptor) for row in rows]
    count, warning = _alike(parts)
    rows, parts = rows[:count], parts[:count]
    first, last = parts[0], parts[-1]
    flags = first.msg_flags | c.MQMF_SEGMENT
    if not warning:
        flags |= c.MQMF_LAST_SEGMENT
    descriptor = first._replace(msg_flags=flags)
    if first.msg_type == c.MQMT_REPORT:
        descriptor = descriptor._replace(original_length=last.offset + last.original_length)
    deadlines = [row.expire_at_ms for row in rows if row.expire_at_ms is not None]
    row = rows[0]._replace(
        descriptor=pack_descriptor(descriptor),
        body=_data(rows, parts),
        expire_at_ms=min(deadlines, default=None),
    )
    return Reassembled(row, count, warning)


def _alike(parts: Sequence[Descriptor]) -> tuple[int, int]:
    """Return how many segments have the CCSID and encoding of the first, and a warning.

    MQRC_NONE: all have. Else MQRC_INCONSISTENT_CCSIDS or MQRC_INCONSISTENT_ENCODINGS.
    """
    first = parts[0]
    for count, part in enumerate(parts):
        if part.coded_char_set_id != first.coded_char_set_id:
            return count, rc.MQRC_INCONSISTENT_CCSIDS
        if part.encoding != first.encoding:
            return count, rc.MQRC_INCONSISTENT_ENCODINGS
    return len(parts), rc.MQRC_NONE


def _data(rows: Sequence[StoredMessage], parts: Sequence[Descriptor]) -> bytes:
    """Return the joined data of segments, each at its offset.

    Gaps are filled with zeros: a report contains only a part of the data of its original.
    """
    data = bytearray()
    for row, part in zip(rows, parts, strict=True):
        if row.body:
            data += bytes(max(part.offset - len(data), 0))
            data += row.body
    return bytes(data)
