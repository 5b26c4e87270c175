"""Handles of open queues: the handle of MQOPEN with its verbs."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import NamedTuple, SupportsIndex

from mayfly.engine.authority import words
from mayfly.engine.authority.checks import UserAuthority
from mayfly.engine.browse import Cursor
from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.descriptors import Context
from mayfly.engine.events.messages import report_failure
from mayfly.engine.finding.next_live import SelectorProgress, place_for
from mayfly.engine.get import GetRequest, Getter, PreparedGet, obtain, obtain_prepared
from mayfly.engine.groups.gets import GroupGets
from mayfly.engine.groups.index import GROUPING
from mayfly.engine.groups.puts import PutOrder
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.open_handles import OpenQueue, OpenQueues, drop_ownerless
from mayfly.engine.pending import OnGot, PendingGet
from mayfly.engine.properties import OPTIONS as PROPERTY_OPTIONS
from mayfly.engine.properties import View, view_of
from mayfly.engine.put import PutRequest, is_asynchronous, put, put_unique
from mayfly.engine.queues import LocalQueue
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.verb_options import (
    BROWSE,
    CHANGES_PUT,
    INPUT,
    MARKS,
    PASSES,
    SYNCPOINT,
    check_get_options,
    check_put_options,
    checked_get,
    not_open,
    quiescing_error,
    with_options,
    with_passed_context,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import (
    ConnectionBroken,
    InhibitedError,
    MQError,
    ObjectError,
    ResourceError,
    mq_error,
)
from mayfly.store.keys import key_of_token
from mayfly.verbs.messages import GetResult, PutResult
from mayfly.verbs.properties.selectors.selector import Selector
from mayfly.verbs.schedule import REPLACES, UNIQUE

_PROPERTIES = sum(PROPERTY_OPTIONS)
#: The options that a get with a callback may have.
_WITH_CALLBACK = (
    c.MQGMO_WAIT
    | c.MQGMO_NO_SYNCPOINT
    | c.MQGMO_SYNCPOINT
    | c.MQGMO_BROWSE_FIRST
    | c.MQGMO_FAIL_IF_QUIESCING
    | c.MQGMO_ACCEPT_TRUNCATED_MSG
    | c.MQGMO_CONVERT
    | _PROPERTIES
)
_UNDER_CURSOR = c.MQGMO_MSG_UNDER_CURSOR | c.MQGMO_BROWSE_MSG_UNDER_CURSOR


class HandleSession(NamedTuple):
    """The parts of a session that a handle uses: context, unit of work, authority, close function.

    It has no reference to the session itself, which can so be collected while handles exist.
    """

    context: Context
    unit_of_work: UnitOfWork
    close_handle: Callable[[Handle, int], None]
    opens: OpenQueues
    authority: UserAuthority | None


class Handle:
    """One open queue of one session; closed by :meth:`close` or with its session.

    With a selector, it gets and browses only messages that the selector accepts and the match
    options match. The message under the cursor is not selected again.
    """

    def __init__(
        self,
        core: Core,
        path: ResolvedQueue,
        opened: OpenQueue,
        owner: HandleSession,
        *,
        selector: Selector | None = None,
    ) -> None:
        """Make the handle of a queue that ``Session.open`` has opened after checks.

        ``path`` is the queue's name as it resolves, ``opened`` the entry among the open handles of
        the session, ``owner`` that session. ``selector`` limits all its gets and browses, None does
        not.
        """
        self._core = core
        self._owner = owner
        self._path = path
        self.opened = opened
        #: MQHOBJ.
        self.number = opened.number
        self.options = opened.options
        self._selector = selector
        #: The response of puts as the queue has it: MQPMO_ASYNC_RESPONSE, or 0 for DEFPRESP(SYNC).
        self.default_response = c.MQPMO_ASYNC_RESPONSE if path.answers_later else c.MQPMO_NONE
        asks = self.options & c.MQOO_READ_AHEAD or (
            path.reads_ahead and not self.options & c.MQOO_NO_READ_AHEAD
        )
        #: Whether nonpersistent messages may be handed to a client before it asks for them.
        self.reads_ahead = bool(
            asks
            and self.options & INPUT
            and not self.options & c.MQOO_SAVE_ALL_CONTEXT
            and selector is None
            and path.remote is None
            and not path.forbids_read_ahead
        )
        #: The order of its puts, and of its gets, in groups; made by the first of them.
        self._put_order: PutOrder | None = None
        self._groups: GroupGets | None = None
        #: The last message for which gets have evaluated the selector.
        self._place: SelectorProgress | None = None
        #: The last get with a callback.
        self._standing: Getter | None = None
        self._cursor = Cursor(
            core, path, opened.requester, co_operates=bool(self.options & c.MQOO_CO_OP)
        )

    @property
    def is_open(self) -> bool:
        """True until the handle or its session is closed."""
        return self.opened.is_open

    @property
    def owns_queue(self) -> bool:
        """True if the open of this handle has created a dynamic queue."""
        return self.opened.owns_queue

    @property
    def queue_name(self) -> str:
        """The name of the local queue behind the handle."""
        return self._path.queue.name

    @property
    def queue(self) -> LocalQueue:
        """The local queue behind the handle, even after its definition was deleted."""
        return self._path.queue

    @property
    def path(self) -> ResolvedQueue:
        """The resolved name of the handle, with the definitions of this moment.

        Raises MQRC_Q_DELETED when queue or alias was deleted, MQRC_OBJECT_CHANGED when an alias
        leads to another queue by now.
        """
        if self._path.version != self._core.registry.version:
            self._path = self._core.registry.refreshed(self._path)
        return self._path

    def _last_path(self) -> ResolvedQueue:
        """Return :attr:`path`, or the last valid one where :attr:`path` would raise."""
        try:
            return self.path
        except ObjectError:
            return self._path

    def __index__(self) -> int:
        """Return the number of the handle, MQHOBJ."""
        return self.number

    def put(
        self,
        body: bytes,
        request: PutRequest,
        options: int = c.MQPMO_NONE,
        context: SupportsIndex = c.MQHO_NONE,
        *,
        completion: Completion | None = None,
    ) -> PutResult:
        """Put a message (MQPUT) with MQPMO options; raises the errors of ``Session.put``.

        Also raises MQRC_NOT_OPEN_FOR_OUTPUT (C8), MQRC_OPTIONS_ERROR (P10), MQRC_HOBJ_ERROR when
        closed, and for context options MQRC_NOT_OPEN_FOR_SET_ALL and its like,
        MQRC_CONTEXT_HANDLE_ERROR, MQRC_CONTEXT_NOT_AVAILABLE (P6).

        ``context`` is PMO.Context: the handle, or its number, whose last got message gives the
        context that MQPMO_PASS_IDENTITY_CONTEXT or MQPMO_PASS_ALL_CONTEXT passes on. With a
        ``completion`` a persistent message outside of syncpoint, and of no group, is not durable on
        return: the caller runs the transaction that the completion has then.
        """
        self._check_open()
        if not self.options & c.MQOO_OUTPUT:
            raise not_open(rc.MQRC_NOT_OPEN_FOR_OUTPUT, "MQOO_OUTPUT")
        check_put_options(options)
        if request.delay_ms and self._owner.authority is not None:
            # The put opens the staging queue, which asks for the target once more (D13).
            self._owner.authority.check_queue(self._path.name, words.PUT)
        if options & UNIQUE:
            unit_of_work = self._owner.unit_of_work if options & c.MQPMO_SYNCPOINT else None
            return put_unique(
                self._core,
                self.path,
                body,
                request,
                context=self._owner.context,
                unit_of_work=unit_of_work,
                replaces=bool(options & REPLACES),
                completion=completion,
            )
        if options & CHANGES_PUT or request.context_option:
            request = with_options(self._core, request, self.options, options)
        if options & PASSES:
            request = with_passed_context(request, self._owner.opens.saved_message(index(context)))
        if request.descriptor.msg_flags or options & c.MQPMO_LOGICAL_ORDER or self._put_order:
            if self._put_order is None:
                owner = self._owner
                self._put_order = PutOrder(self._core, owner.context, owner.unit_of_work)
            return self._put_order.put(self.path, body, request, options)
        return put(
            self._core,
            self.path,
            body,
            request,
            context=self._owner.context,
            unit_of_work=self._owner.unit_of_work if options & c.MQPMO_SYNCPOINT else None,
            completion=completion,
        )

    def put_async(
        self,
        body: bytes,
        request: PutRequest,
        options: int = c.MQPMO_NONE,
        context: SupportsIndex = c.MQHO_NONE,
        *,
        completion: Completion | None = None,
    ) -> PutResult | None:
        """Put a message with MQPMO_ASYNC_RESPONSE; return None when the queue refuses it (P13).

        ``Session.status`` then has the reason, and counts warnings, which the result does not have.
        ``context`` and ``completion`` are those of :meth:`put`. A unit of work that lacks the
        message cannot be committed. A wrong call raises the error of :meth:`put`, and a persistent
        message outside of syncpoint is put synchronously.
        """
        try:
            result = self.put(body, request, options, context, completion=completion)
        except (InhibitedError, ObjectError, ResourceError) as error:
            if not is_asynchronous(self._path, request, options):
                raise
            self._owner.opens.async_puts.failed(self._path, error)
            if options & c.MQPMO_SYNCPOINT:
                self._owner.unit_of_work.failure = error
            return None
        if not is_asynchronous(self._path, request, options):
            return result
        self._owner.opens.async_puts.done(self._path, result)
        return result._replace(warning=rc.MQRC_NONE) if result.warning else result

    def get(self, request: GetRequest, options: int = c.MQGMO_NONE) -> GetResult:
        """Get or browse a message (MQGET), as the MQGMO options say.

        A message that the handle's browse has locked can be got, which ends the lock (B5).
        Raises MQRC_NOT_OPEN_FOR_INPUT or MQRC_NOT_OPEN_FOR_BROWSE (C8), MQRC_OPTIONS_ERROR (B8),
        MQRC_NO_MSG_AVAILABLE, MQRC_NO_MSG_UNDER_CURSOR, MQRC_GET_INHIBITED,
        MQRC_SYNCPOINT_LIMIT_REACHED, MQRC_HOBJ_ERROR when closed, and an error when the properties
        cannot be returned in the requested form.
        """
        self._check_open()
        request = checked_get(request, options, self.options, self._selector)
        token, groups = request.match.token, self._groups
        try:
            if token is not None and not options & (BROWSE | c.MQGMO_MSG_UNDER_CURSOR):
                self._cursor.check_mark(key_of_token(token))
            if groups is None and (options & GROUPING or request.match.group_id is not None):
                groups = self._with_groups()
            if groups is not None:
                path = self.path
                result = groups.get(path, request, options, self._prepared, self._at_cursor)
            elif options & _UNDER_CURSOR:
                result = self._at_cursor(request, options)
            elif options & BROWSE:
                result = obtain_prepared(self._core, self._prepared(request, options))
            else:
                result = obtain(self._core, self._getter(request, options))
        except ConnectionBroken as error:
            raise quiescing_error(error, options) from None
        except InhibitedError as error:
            report_failure(self._core, self._owner.context, error, self._path.name)
            raise
        if result.failure is not None or self.options & c.MQOO_SAVE_ALL_CONTEXT:
            self._note(result, options)
        return result

    def begin_get(self, request: GetRequest, options: int, on_got: OnGot) -> PendingGet:
        """Return a get that ends by a callback; its ``begin`` starts it, and no call waits.

        ``on_got`` receives the result or the error, and must not raise. A wrong call raises the
        error of :meth:`get`, and MQRC_OPTIONS_ERROR for a get under the cursor, which never waits.
        Begin the next get of this kind on a handle after the last one has ended.
        """
        self._check_open()
        if options & _UNDER_CURSOR:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} with a callback")
        request = checked_get(request, options, self.options, self._selector)
        token, groups = request.match.token, self._groups
        if token is not None and not options & BROWSE:
            self._cursor.check_mark(key_of_token(token))
        if groups is None and (options & GROUPING or request.match.group_id is not None):
            groups = self._with_groups()
        getter, finish = (
            self._prepared(request, options)
            if groups is None
            else groups.prepared(self.path, request, options, self._prepared)
        )

        def finished(outcome: GetResult | MQError) -> GetResult | MQError:
            if isinstance(outcome, ConnectionBroken):
                return quiescing_error(outcome, options)
            if isinstance(outcome, InhibitedError):
                report_failure(self._core, self._owner.context, outcome, self._path.name)
            if isinstance(outcome, MQError):
                return outcome
            try:
                outcome = finish(outcome)
                self._note(outcome, options)
            except MQError as error:
                return error
            return outcome

        return PendingGet(self._core, [getter], on_got, lambda *_taken: None, finish=finished)

    def _note(self, result: GetResult, options: int) -> None:
        """Save a got message for its context (MQOO_SAVE_ALL_CONTEXT).

        A browse deletes the saved one.
        Raises the failure of the result, if any.
        """
        if result.failure is not None:
            raise result.failure
        if self.options & c.MQOO_SAVE_ALL_CONTEXT and not result.stays:
            self.opened.saved = None if options & BROWSE else result.message

    def view(self, options: int, *, has_handle: bool) -> View:
        """Return the form in which a get with these MQGMO options returns properties.

        ``has_handle`` is True for a get with a message handle. PROPCTL is that of the opened name:
        of an alias, not of its target.
        """
        if options & _PROPERTIES:
            # An option of the get overrides PROPCTL of the queue.
            return view_of(options, c.MQPROP_COMPATIBILITY, has_handle=has_handle)
        return view_of(options, self._last_path().property_control, has_handle=has_handle)

    def _with_groups(self) -> GroupGets:
        """Create and return the state of this handle's gets in groups."""
        owner, requester = self._owner, self.opened.requester
        self._groups = GroupGets(self._core, requester, owner.unit_of_work, self._cursor)
        return self._groups

    def _prepared(self, request: GetRequest, options: int) -> PreparedGet:
        """Return a get or browse that may wait and has not run; group options are ignored."""
        if options & BROWSE:
            return self._cursor.prepared(
                request,
                first=bool(options & c.MQGMO_BROWSE_FIRST),
                lock=bool(options & c.MQGMO_LOCK),
                marks=options & MARKS,
            )
        return PreparedGet(self._getter(request, options), _unchanged)

    def _getter(self, request: GetRequest, options: int) -> Getter:
        """Return a destructive get that has not run; group and cursor options are ignored."""
        unit_of_work = self._owner.unit_of_work if options & SYNCPOINT else None
        path, requester = self.path, self.opened.requester
        self._place = place = place_for(self._place, self._core, path.queue, request.match)
        return Getter(self._core, path, request, unit_of_work, requester, place=place)

    def _at_cursor(self, request: GetRequest, options: int) -> GetResult:
        """Get or browse the message under the cursor; group options are ignored."""
        if options & c.MQGMO_BROWSE_MSG_UNDER_CURSOR:
            lock, marks = bool(options & c.MQGMO_LOCK), options & MARKS
            return self._cursor.browse_under_cursor(request, lock=lock, marks=marks)
        unit_of_work = self._owner.unit_of_work if options & SYNCPOINT else None
        return self._cursor.get_under_cursor(request, unit_of_work)

    def getter(self, request: GetRequest, options: int, unit_of_work: UnitOfWork | None) -> Getter:
        """Return a get for a wait that ends by a callback.

        With a unit of work it is under syncpoint. With MQGMO_BROWSE_FIRST it leaves the message on
        the queue, and searches from the start. Raises MQRC_OPTIONS_ERROR for a browse with a
        cursor, a get of groups or under a cursor, and MQRC_NOT_OPEN_FOR_INPUT or
        MQRC_NOT_OPEN_FOR_BROWSE, MQRC_HOBJ_ERROR when closed.
        """
        self._check_open()
        if options & ~_WITH_CALLBACK or request.match.group_id is not None:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} with a callback")
        check_get_options(options)
        looks = bool(options & c.MQGMO_BROWSE_FIRST)
        if looks and not self.options & c.MQOO_BROWSE:
            raise not_open(rc.MQRC_NOT_OPEN_FOR_BROWSE, "MQOO_BROWSE")
        if not looks and not self.options & INPUT:
            raise not_open(rc.MQRC_NOT_OPEN_FOR_INPUT, "MQOO_INPUT_*")
        match, selector = request.match, self._selector
        request = request._replace(
            match=match if selector is None else match.narrowed(selector),
            wait_ms=request.wait_ms if options & c.MQGMO_WAIT else 0,
            accept_truncated=bool(options & c.MQGMO_ACCEPT_TRUNCATED_MSG),
        )
        # Several gets may wait on one handle, each with its own place.
        path, requester, last = self._last_path(), self.opened.requester, self._standing
        place = last.place if last is not None and last.is_over else None
        place = place_for(place, self._core, path.queue, request.match)
        self._standing = Getter(
            self._core, path, request, unit_of_work, requester, place=place, only_looks=looks
        )
        return self._standing

    def unlock(self) -> int:
        """Release the browse lock (MQGMO_UNLOCK).

        Returns 0, or MQRC_NO_MSG_LOCKED without a lock (B6).
        Raises MQRC_NOT_OPEN_FOR_BROWSE, MQRC_HOBJ_ERROR when closed.
        """
        self._check_open()
        if not self.options & c.MQOO_BROWSE:
            raise not_open(rc.MQRC_NOT_OPEN_FOR_BROWSE, "MQOO_BROWSE")
        return rc.MQRC_NONE if self._cursor.unlock() else rc.MQRC_NO_MSG_LOCKED

    def close(self, options: int = c.MQCO_NONE) -> int:
        """Close the handle (MQCLOSE) and end its browse lock.

        A temporary dynamic queue that this handle has created is deleted with its messages (C9).
        MQCO_DELETE and MQCO_DELETE_PURGE delete a permanent dynamic queue. Returns 0, or
        MQRC_INCOMPLETE_MSG or MQRC_INCOMPLETE_GROUP when its puts or gets in logical order stopped
        within a message or group. Raises MQRC_HOBJ_ERROR when closed already, and the errors of
        ``Session.close_handle``.
        """
        self._check_open()
        self._owner.close_handle(self, options)
        left = {order.incomplete for order in (self._put_order, self._groups) if order is not None}
        # Of both the higher number comes first: the message that lacks segments.
        return max(left, default=rc.MQRC_NONE)

    def _check_open(self) -> None:
        """Raise MQRC_HOBJ_ERROR for a closed handle.

        Also closes objects that programs have dropped unclosed.
        """
        if not self.opened.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of {self._path.name} is closed")
        if self._core.left_behind.queues:
            drop_ownerless(self._core)


def _unchanged(result: GetResult) -> GetResult:
    """Return the result itself, for a get whose result needs no further step."""
    return result
