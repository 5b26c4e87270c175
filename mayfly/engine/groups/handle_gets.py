"""Gets and browses of one handle by groups: where it stands in a group, and what that allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mayfly.engine.browse import Cursor
from mayfly.engine.core import Core
from mayfly.engine.finding.search import ANY, Match
from mayfly.engine.get import GetRequest, Prepared, obtain, obtained
from mayfly.engine.groups.getter import GroupBrowser, GroupGetter, Where
from mayfly.engine.groups.index import GROUPING, GroupIndex, index_of, mode_of
from mayfly.engine.groups.place import Position, position_after
from mayfly.engine.objects.registry import Path
from mayfly.engine.requester import Requester
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NoMessage, mq_error
from mayfly.verbs.messages import GetResult

_UNDER_CURSOR = c.MQGMO_BROWSE_MSG_UNDER_CURSOR | c.MQGMO_MSG_UNDER_CURSOR
_BROWSE_ON = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT
_BROWSE = _BROWSE_ON | c.MQGMO_BROWSE_MSG_UNDER_CURSOR


class GroupGets:
    """The groups of one handle, from its first get or browse on that has asked for them.

    It keeps apart the position of its gets and that of its browses; a backout of the unit of work
    in which its gets went on takes them back to where they stood before it.
    """

    def __init__(
        self,
        core: Core,
        requester: Requester,
        unit_of_work: UnitOfWork,
        cursor: Cursor,
    ) -> None:
        self._core = core
        self._holder = requester
        self._unit = unit_of_work
        self._cursor = cursor
        self._index: GroupIndex | None = None
        self._got: Position | None = None
        self._browsed: Position | None = None
        #: In logical order the place of the group that is browsed; None before the first one.
        self._place: int | None = None
        #: Whether the cursor was moved in logical order.
        self._is_logical = False

    @property
    def incomplete(self) -> int:
        """The reason code of closing it within a group that it got in logical order, else 0."""
        got = self._got
        return rc.MQRC_NONE if got is None or not got.is_logical else got.incomplete

    def get(
        self,
        path: Path,
        request: GetRequest,
        options: int,
        plainly: Callable[[GetRequest, int], Prepared],
        at_cursor: Callable[[GetRequest, int], GetResult],
    ) -> GetResult:
        """Get or browse with MQGMO options; the two calls do so without regard to groups.

        Raises MQRC_NO_MSG_AVAILABLE, MQRC_MATCH_OPTIONS_ERROR (G3), MQRC_INCONSISTENT_UOW,
        MQRC_INCONSISTENT_BROWSE, MQRC_INVALID_MSG_UNDER_CURSOR, MQRC_MSG_MARKED_BROWSE_CO_OP, and
        what ``get.get`` raises.
        Warnings, unless the message was cut: MQRC_INCOMPLETE_GROUP, MQRC_INCOMPLETE_MSG for a get
        that leaves logical order within a group, and MQRC_INCONSISTENT_CCSIDS,
        MQRC_INCONSISTENT_ENCODINGS (``reassembly.Whole``).
        """
        if not options & _UNDER_CURSOR:
            return obtained(self._core, self.prepared(path, request, options, plainly))
        if not self._is_by_group(path, request, options):
            result = at_cursor(request, options)
            if options & _BROWSE:
                return result
            return self._note_get(result, options, result.data_length, self._in_unit(options))
        return self._under_cursor(path, request, options)

    def prepared(
        self,
        path: Path,
        request: GetRequest,
        options: int,
        plainly: Callable[[GetRequest, int], Prepared],
    ) -> Prepared:
        """Return a get or browse that is not under the cursor and may wait; raises as ``get``."""
        if options & _BROWSE_ON:
            return self._prepared_browse(path, request, options, plainly)
        if not self._is_by_group(path, request, options):
            getter, finish = plainly(request, options)

            def finish_plainly(result: GetResult) -> GetResult:
                result = finish(result)
                in_unit = self._in_unit(options)
                return self._note_get(result, options, result.data_length, in_unit)

            return Prepared(getter, finish_plainly)
        position = self._got if options & c.MQGMO_LOGICAL_ORDER else None
        if options & c.MQGMO_LOGICAL_ORDER:
            request = _in_order(request, position)
        by_group = self._getter(path, request, options, Where(mode_of(options), position))

        def finish_by_group(result: GetResult) -> GetResult:
            return self._note_get(result, options, by_group.found_bytes, by_group.in_unit)

        return Prepared(by_group, finish_by_group)

    def _is_by_group(self, path: Path, request: GetRequest, options: int) -> bool:
        # A delayed message is in no group (D9).
        return bool(options & GROUPING or request.match.group_id) and not path.queue.is_staging

    def _prepared_browse(
        self,
        path: Path,
        request: GetRequest,
        options: int,
        plainly: Callable[[GetRequest, int], Prepared],
    ) -> Prepared:
        is_logical = bool(options & c.MQGMO_LOGICAL_ORDER)
        is_first = bool(options & c.MQGMO_BROWSE_FIRST) or self._cursor.key is None
        if not is_first and is_logical != self._is_logical:
            raise mq_error(
                rc.MQRC_INCONSISTENT_BROWSE,
                "MQGMO_BROWSE_NEXT goes on as it began: with or without MQGMO_LOGICAL_ORDER",
            )
        if not self._is_by_group(path, request, options):
            plain, finish = plainly(request, options)

            def finish_plainly(result: GetResult) -> GetResult:
                self._is_logical = False
                return finish(result)

            return Prepared(plain, finish_plainly)
        position = None if is_first or not is_logical else self._browsed
        if is_logical:
            request = _in_order(request, position)
        last_key = self._place if is_logical else self._cursor.key
        low = path.queue.low if is_first or last_key is None else last_key + 1
        where = Where(mode_of(options), position, low=low)
        with self._core.engine_lock:
            self._core.check_running()
            self._holder.check()
            self._holder.release_lock()
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

        return Prepared(getter, finish_by_group)

    def _under_cursor(self, path: Path, request: GetRequest, options: int) -> GetResult:
        """Get or browse the message at the cursor, match options ignored (B4).

        Raises as ``Cursor.get_under_cursor``, and MQRC_INVALID_MSG_UNDER_CURSOR.
        """
        key = self._cursor.key
        if key is None:
            raise self._nothing_there(path)
        is_browse = bool(options & c.MQGMO_BROWSE_MSG_UNDER_CURSOR)
        self._check_cursor(path, key, options, self._browsed if is_browse else self._got)
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

    def _check_cursor(self, path: Path, key: int, options: int, position: Position | None) -> None:
        index = self._index_of(path)
        with self._core.engine_lock:
            index.refresh(at_once=True)
            entry = index.entry(key)
            if entry is None or not index.is_there(entry, self._holder):
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
        """Stand behind what was got; a get out of logical order is warned of what it leaves."""
        if result.stays:
            return result
        is_logical, left = bool(options & c.MQGMO_LOGICAL_ORDER), self._got
        if left is not None and left.is_logical and not (is_logical or result.warning):
            result = result.with_warning(left.incomplete)
        position = position_after(
            result.message.descriptor, length_bytes, in_unit=in_unit, is_logical=is_logical
        )
        if in_unit and position != left:
            self._unit.on_backout(self, partial(self._go_back, left))
        self._got = position
        return result

    def _go_back(self, position: Position | None) -> None:
        self._got = position

    def _in_unit(self, options: int) -> bool:
        return bool(options & (c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT))

    def _getter(self, path: Path, request: GetRequest, options: int, where: Where) -> GroupGetter:
        unit_of_work = self._unit if self._in_unit(options) else None
        index = self._index_of(path)
        core, requester = self._core, self._holder
        return GroupGetter(core, path, request, unit_of_work, requester, index=index, where=where)

    def _browser(self, path: Path, request: GetRequest, options: int, where: Where) -> GroupBrowser:
        return GroupBrowser(
            self._core,
            path,
            request,
            self._cursor,
            self._holder,
            index=self._index_of(path),
            where=where,
            locks=bool(options & c.MQGMO_LOCK),
        )

    def _index_of(self, path: Path) -> GroupIndex:
        if self._index is None:
            self._index = index_of(self._core, path.queue)
        return self._index

    def _nothing_there(self, path: Path) -> NoMessage:
        error = mq_error(rc.MQRC_NO_MSG_UNDER_CURSOR, f"no message under the cursor on {path.name}")
        assert isinstance(error, NoMessage)
        return error


def _in_order(request: GetRequest, position: Position | None) -> GetRequest:
    """Return a request in logical order; its match options may only name what comes next (G3)."""
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
