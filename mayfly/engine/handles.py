"""An open queue: what MQOPEN gave and what may be done through it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from mayfly.engine.authority import words
from mayfly.engine.authority.checks import UserAuthority
from mayfly.engine.browse import Cursor
from mayfly.engine.core import Core
from mayfly.engine.delivery import new_id
from mayfly.engine.descriptors import Context
from mayfly.engine.get import GetRequest, GetResult, Getter, get
from mayfly.engine.objects import Path
from mayfly.engine.opened import OpenQueue, drop_ownerless
from mayfly.engine.places import Place, place_for
from mayfly.engine.properties.views import OPTIONS as _PROPERTY_OPTIONS
from mayfly.engine.properties.views import View, view_of
from mayfly.engine.put import PutRequest, PutResult, put
from mayfly.engine.queues import LocalQueue
from mayfly.engine.search import ANY
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.watch import Source
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.selectors import Selector

_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE
_BROWSE = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR
_SYNCPOINT = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
#: Get options this queue manager knows; any other bit is MQRC_OPTIONS_ERROR.
_KNOWN_GET = (
    c.MQGMO_WAIT
    | c.MQGMO_FAIL_IF_QUIESCING
    | c.MQGMO_NO_SYNCPOINT
    | _SYNCPOINT
    | _BROWSE
    | c.MQGMO_MSG_UNDER_CURSOR
    | c.MQGMO_LOCK
    | c.MQGMO_UNLOCK
    | c.MQGMO_ACCEPT_TRUNCATED_MSG
    | c.MQGMO_CONVERT
    | sum(_PROPERTY_OPTIONS)
)
_KNOWN_PUT = (
    c.MQPMO_SYNCPOINT
    | c.MQPMO_NO_SYNCPOINT
    | c.MQPMO_NEW_MSG_ID
    | c.MQPMO_NEW_CORREL_ID
    | c.MQPMO_DEFAULT_CONTEXT
    | c.MQPMO_NO_CONTEXT
    | c.MQPMO_SET_IDENTITY_CONTEXT
    | c.MQPMO_SET_ALL_CONTEXT
    | c.MQPMO_FAIL_IF_QUIESCING
    | c.MQPMO_ASYNC_RESPONSE
    | c.MQPMO_SYNC_RESPONSE
    | c.MQPMO_RESOLVE_LOCAL_Q
    | c.MQPMO_MD_FOR_OUTPUT_ONLY
)
_KNOWN_PUBLISH = (
    _KNOWN_PUT
    | c.MQPMO_RETAIN
    | c.MQPMO_WARN_IF_NO_SUBS_MATCHED
    | c.MQPMO_NOT_OWN_SUBS
    | c.MQPMO_SUPPRESS_REPLYTO
    | c.MQPMO_SCOPE_QMGR
)
_CONTEXTS = (
    c.MQPMO_DEFAULT_CONTEXT,
    c.MQPMO_NO_CONTEXT,
    c.MQPMO_SET_IDENTITY_CONTEXT,
    c.MQPMO_SET_ALL_CONTEXT,
)


class Owner(NamedTuple):
    """What a handle has from its session."""

    context: Context
    unit_of_work: UnitOfWork
    close_handle: Callable[[Handle, int], None]
    authority: UserAuthority | None


class Handle:
    """One open queue of one session; closed by :meth:`close` or with its session.

    With a selector, it gets and browses only what that takes; match options come on top. What is
    under the cursor was taken before and is not asked again.
    """

    def __init__(
        self,
        core: Core,
        path: Path,
        opened: OpenQueue,
        owner: Owner,
        *,
        selector: Selector | None = None,
    ) -> None:
        """Take what the session has opened; Session.open checks and counts."""
        self._core = core
        self._owner = owner
        self._path = path
        self.opened = opened
        self.options = opened.options
        self._selector = selector
        #: How far the selector was asked by gets.
        self._place: Place | None = None
        self._cursor = Cursor(core, path, opened.holder)

    @property
    def is_open(self) -> bool:
        """Whether neither the handle nor its session has been closed."""
        return self.opened.is_open

    @property
    def owns_queue(self) -> bool:
        """Whether opening it has made a dynamic queue."""
        return self.opened.owns_queue

    @property
    def queue_name(self) -> str:
        """The name of the local queue behind the handle."""
        return self._path.queue.name

    @property
    def queue(self) -> LocalQueue:
        """The local queue behind the handle, even when its definition is gone."""
        return self._path.queue

    @property
    def path(self) -> Path:
        """What the name resolves to, with its definitions as they stand now."""
        self._path = self._core.registry.refreshed(self._path)
        return self._path

    def put(self, body: bytes, request: PutRequest, options: int = c.MQPMO_NONE) -> PutResult:
        """MQPUT with MQPMO options; raises the reason codes of ``put.put`` and C8, P10."""
        self._check_open()
        if not self.options & c.MQOO_OUTPUT:
            raise _not_open(rc.MQRC_NOT_OPEN_FOR_OUTPUT, "MQOO_OUTPUT")
        check_put_options(options)
        if request.delay_ms and self._owner.authority is not None:
            # The put opens the staging queue, which asks for the target once more (D13).
            self._owner.authority.check_queue(self._path.name, words.PUT)
        return put(
            self._core,
            self.path,
            body,
            with_options(self._core, request, self.options, options),
            context=self._owner.context,
            unit_of_work=self._owner.unit_of_work if options & c.MQPMO_SYNCPOINT else None,
        )

    def get(self, request: GetRequest, options: int = c.MQGMO_NONE) -> GetResult:
        """MQGET, destructive or browsing by its MQGMO options; raises C8, B8 and ``get.get``'s.

        What this handle has locked by a browse it may get: that ends the lock (B5).
        """
        self._check_open()
        check_get_options(options)
        if options & c.MQGMO_UNLOCK:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, "MQGMO_UNLOCK gets nothing; call unlock()")
        if options & (_BROWSE | c.MQGMO_MSG_UNDER_CURSOR) and not self.options & c.MQOO_BROWSE:
            raise _not_open(rc.MQRC_NOT_OPEN_FOR_BROWSE, "MQOO_BROWSE")
        if not options & _BROWSE and not self.options & _INPUT:
            raise _not_open(rc.MQRC_NOT_OPEN_FOR_INPUT, "MQOO_INPUT_*")
        match, selector = request.match, self._selector
        request = GetRequest(
            match if selector is None else match.narrowed(selector),
            request.wait_ms if options & c.MQGMO_WAIT else 0,
            request.max_length,
            bool(options & c.MQGMO_ACCEPT_TRUNCATED_MSG),
            bool(options & c.MQGMO_SYNCPOINT_IF_PERSISTENT),
            request.view,
        )
        result = self._get(request, options)
        if result.failure is not None:
            raise result.failure
        return result

    def view(self, options: int, *, has_handle: bool) -> View:
        """Return how a get with MQGMO options, perhaps with a message handle, sees properties.

        PROPCTL is that of the name that was opened: of an alias, not of its target.
        """
        self._check_open()
        return view_of(options, self.path.property_control, has_handle=has_handle)

    def _get(self, request: GetRequest, options: int) -> GetResult:
        if options & c.MQGMO_BROWSE_MSG_UNDER_CURSOR:
            return self._cursor.browse_under_cursor(request, lock=bool(options & c.MQGMO_LOCK))
        if options & _BROWSE:
            return self._cursor.browse(
                request,
                first=bool(options & c.MQGMO_BROWSE_FIRST),
                lock=bool(options & c.MQGMO_LOCK),
            )
        unit_of_work = self._owner.unit_of_work if options & _SYNCPOINT else None
        if options & c.MQGMO_MSG_UNDER_CURSOR:
            return self._cursor.get_under_cursor(request, unit_of_work)
        path, holder = self.path, self.opened.holder
        self._place = place_for(self._place, self._core, path.queue, request.match)
        return get(self._core, path, request, unit_of_work, holder, place=self._place)

    def source(self) -> Source:
        """Return the queue for a wait on several at once; it is got from under syncpoint."""
        self._check_open()
        match = ANY if self._selector is None else ANY.narrowed(self._selector)
        path, holder, unit_of_work = self.path, self.opened.holder, self._owner.unit_of_work
        self._place = place = place_for(self._place, self._core, path.queue, match)
        request = GetRequest(match, c.MQWI_UNLIMITED)
        getter = Getter(self._core, path, request, unit_of_work, holder, place=place)
        return Source(self._core, getter, holder, place)

    def unlock(self) -> int:
        """MQGMO_UNLOCK: release the browse lock; returns MQRC_NO_MSG_LOCKED or 0 (B6)."""
        self._check_open()
        if not self.options & c.MQOO_BROWSE:
            raise _not_open(rc.MQRC_NOT_OPEN_FOR_BROWSE, "MQOO_BROWSE")
        return rc.MQRC_NONE if self._cursor.unlock() else rc.MQRC_NO_MSG_LOCKED

    def close(self, options: int = c.MQCO_NONE) -> None:
        """MQCLOSE; releases the lock and, for a dynamic queue, deletes as asked (C9)."""
        self._check_open()
        self._owner.close_handle(self, options)

    def _check_open(self) -> None:
        if not self.opened.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of {self._path.name} is closed")
        if self._core.ownerless:
            drop_ownerless(self._core)


def with_options(core: Core, request: PutRequest, open_options: int, options: int) -> PutRequest:
    """Return a request as MQPMO options want it: new ids, and a context it was opened for.

    Raises MQRC_NOT_OPEN_FOR_SET_ALL, MQRC_NOT_OPEN_FOR_SET_IDENT.
    """
    if options & c.MQPMO_SET_ALL_CONTEXT and not open_options & c.MQOO_SET_ALL_CONTEXT:
        raise _not_open(rc.MQRC_NOT_OPEN_FOR_SET_ALL, "MQOO_SET_ALL_CONTEXT")
    allowed = c.MQOO_SET_IDENTITY_CONTEXT | c.MQOO_SET_ALL_CONTEXT
    if options & c.MQPMO_SET_IDENTITY_CONTEXT and not open_options & allowed:
        raise _not_open(rc.MQRC_NOT_OPEN_FOR_SET_IDENT, "MQOO_SET_IDENTITY_CONTEXT")
    if options & c.MQPMO_NEW_MSG_ID:
        request = request._replace(msg_id=b"")
    if options & c.MQPMO_NEW_CORREL_ID:
        with core.latch:
            request = request._replace(correl_id=new_id(core))
    return request._replace(context_option=_context_of(options))


@lru_cache(maxsize=256)
def check_get_options(options: int) -> None:
    """Raise MQRC_OPTIONS_ERROR for unknown or mutually exclusive MQGMO bits (B8)."""
    browse = options & _BROWSE
    wrong = (
        options & ~_KNOWN_GET
        or browse & (browse - 1)
        or (browse and options & (_SYNCPOINT | c.MQGMO_UNLOCK | c.MQGMO_MSG_UNDER_CURSOR))
        or (options & c.MQGMO_LOCK and not browse)
        or (options & c.MQGMO_UNLOCK and options & ~(c.MQGMO_UNLOCK | c.MQGMO_NO_SYNCPOINT))
        or (options & _SYNCPOINT and options & c.MQGMO_NO_SYNCPOINT)
        or options & _SYNCPOINT == _SYNCPOINT
        or sum(1 for bit in _PROPERTY_OPTIONS if options & bit) > 1
    )
    if wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x}")


@lru_cache(maxsize=256)
def check_put_options(options: int, *, publishes: bool = False) -> None:
    """Raise MQRC_OPTIONS_ERROR for unknown or mutually exclusive MQPMO bits (P10).

    A put that ``publishes`` knows those of publications, too.
    """
    both = c.MQPMO_SYNCPOINT | c.MQPMO_NO_SYNCPOINT
    contexts = sum(1 for bit in _CONTEXTS if options & bit)
    known = _KNOWN_PUBLISH if publishes else _KNOWN_PUT
    if options & ~known or options & both == both or contexts > 1:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"PMO.Options {options:#x}")


@lru_cache(maxsize=256)
def _context_of(options: int) -> int:
    for bit in _CONTEXTS:
        if options & bit:
            return bit
    return c.MQPMO_NONE


def _not_open(reason: int, option: str) -> MQError:
    return mq_error(reason, f"the queue was not opened with {option}")
