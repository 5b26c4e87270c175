"""Verb options of MQOPEN, MQGET and MQPUT: which are allowed, and how they change a request."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mayfly.engine.core import Core
from mayfly.engine.delivery import new_id
from mayfly.engine.get import GetRequest
from mayfly.engine.groups.index import GROUPING
from mayfly.engine.properties import OPTIONS as _PROPERTY_OPTIONS
from mayfly.engine.put import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.selectors.selector import Selector
from mayfly.verbs.schedule import REPLACES, UNIQUE

# MQOPEN


INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE
_FOR_OUTPUT = (
    c.MQOO_PASS_IDENTITY_CONTEXT
    | c.MQOO_PASS_ALL_CONTEXT
    | c.MQOO_SET_IDENTITY_CONTEXT
    | c.MQOO_SET_ALL_CONTEXT
)
_KNOWN_OPEN = (
    INPUT
    | c.MQOO_BROWSE
    | c.MQOO_OUTPUT
    | c.MQOO_INQUIRE
    | c.MQOO_SET
    | c.MQOO_SAVE_ALL_CONTEXT
    | _FOR_OUTPUT
    | c.MQOO_ALTERNATE_USER_AUTHORITY
    | c.MQOO_FAIL_IF_QUIESCING
    | c.MQOO_BIND_ON_OPEN
    | c.MQOO_BIND_NOT_FIXED
    | c.MQOO_BIND_ON_GROUP
    | c.MQOO_NO_READ_AHEAD
    | c.MQOO_READ_AHEAD
    | c.MQOO_RESOLVE_LOCAL_Q
    | c.MQOO_CO_OP
)


def check_open_options(name: str, options: int) -> None:
    """Raise MQRC_OPTIONS_ERROR for unknown or contradictory MQOO options of a queue (C8)."""
    inputs = options & INPUT
    if (
        not options
        or options & ~_KNOWN_OPEN
        or inputs & (inputs - 1)
        or (options & c.MQOO_CO_OP and not options & c.MQOO_BROWSE)
        # Saving context needs an open for input; passing it on, or setting it, one for output.
        or (options & c.MQOO_SAVE_ALL_CONTEXT and not inputs)
        or (options & _FOR_OUTPUT and not options & c.MQOO_OUTPUT)
    ):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"open options {options:#x} for {name}")


def not_open(reason: int, option: str) -> MQError:
    """Return the error ``reason`` of a verb on a handle that was opened without ``option`` (C8).

    ``reason`` is an MQRC_NOT_OPEN_FOR_*, ``option`` the name of the MQOO option.
    """
    return mq_error(reason, f"the queue was not opened with {option}")


# MQGET


_UNDER_CURSOR = c.MQGMO_MSG_UNDER_CURSOR | c.MQGMO_BROWSE_MSG_UNDER_CURSOR
BROWSE = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR
#: Options of browse marks (B7), and those of them for a co-operating set.
CO_OP_MARKS = c.MQGMO_MARK_BROWSE_CO_OP | c.MQGMO_UNMARK_BROWSE_CO_OP
MARKS = (
    CO_OP_MARKS
    | c.MQGMO_MARK_BROWSE_HANDLE
    | c.MQGMO_UNMARK_BROWSE_HANDLE
    | c.MQGMO_UNMARKED_BROWSE_MSG
)
_NOT_WITH_MARKS = (
    c.MQGMO_LOCK
    | c.MQGMO_LOGICAL_ORDER
    | c.MQGMO_COMPLETE_MSG
    | c.MQGMO_ALL_MSGS_AVAILABLE
    | c.MQGMO_ALL_SEGMENTS_AVAILABLE
)
#: Pairs of which a browse may have one at most.
_CONTRADICTIONS = (
    (c.MQGMO_MARK_BROWSE_HANDLE, c.MQGMO_UNMARK_BROWSE_HANDLE),
    (c.MQGMO_MARK_BROWSE_CO_OP, c.MQGMO_UNMARK_BROWSE_CO_OP),
    (c.MQGMO_UNMARKED_BROWSE_MSG, c.MQGMO_UNMARK_BROWSE_HANDLE),
    (c.MQGMO_UNMARKED_BROWSE_MSG, c.MQGMO_UNMARK_BROWSE_CO_OP),
)
SYNCPOINT = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
#: The options of a get that change its request; MQGMO_WAIT does so if it has a WaitInterval.
_CHANGES_GET = c.MQGMO_ACCEPT_TRUNCATED_MSG | c.MQGMO_SYNCPOINT_IF_PERSISTENT
#: Get options this queue manager knows; any other bit is MQRC_OPTIONS_ERROR.
_KNOWN_GET = (
    c.MQGMO_WAIT
    | c.MQGMO_FAIL_IF_QUIESCING
    | c.MQGMO_NO_SYNCPOINT
    | SYNCPOINT
    | BROWSE
    | c.MQGMO_MSG_UNDER_CURSOR
    | c.MQGMO_LOCK
    | c.MQGMO_UNLOCK
    | c.MQGMO_ACCEPT_TRUNCATED_MSG
    | c.MQGMO_CONVERT
    | MARKS
    | GROUPING
    | sum(_PROPERTY_OPTIONS)
)


@lru_cache(maxsize=256)
def check_get_options(options: int) -> None:
    """Raise MQRC_OPTIONS_ERROR for unknown or contradictory MQGMO options (B8)."""
    browse = options & BROWSE
    wrong = (
        options & ~_KNOWN_GET
        or browse & (browse - 1)
        or (browse and options & (SYNCPOINT | c.MQGMO_UNLOCK | c.MQGMO_MSG_UNDER_CURSOR))
        or (options & c.MQGMO_LOCK and (not browse or options & c.MQGMO_COMPLETE_MSG))
        or (options & c.MQGMO_UNLOCK and options & ~(c.MQGMO_UNLOCK | c.MQGMO_NO_SYNCPOINT))
        or (options & SYNCPOINT and options & c.MQGMO_NO_SYNCPOINT)
        or options & SYNCPOINT == SYNCPOINT
        or sum(1 for bit in _PROPERTY_OPTIONS if options & bit) > 1
        or (options & MARKS and (not browse or options & _NOT_WITH_MARKS))
        or any(options & one and options & other for one, other in _CONTRADICTIONS)
    )
    if wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x}")


def checked_get(
    request: GetRequest, options: int, opened_with: int, selector: Selector | None
) -> GetRequest:
    """Check the MQGMO options of a get on a handle, and return its request changed by them.

    ``opened_with`` are the MQOO options of the handle, ``selector`` its selector, None without.
    Raises MQRC_NOT_OPEN_FOR_INPUT, MQRC_NOT_OPEN_FOR_BROWSE (C8), MQRC_OPTIONS_ERROR (B8), and
    MQRC_MSG_TOKEN_ERROR for a MsgToken with MQGMO_WAIT.
    """
    _check_get(options, opened_with)
    match = request.match
    if not (
        options & _CHANGES_GET
        or request.wait_ms
        or selector is not None
        or match.token is not None
        or request.accept_truncated
        or request.persistent_only_syncpoint
    ):
        # The options change nothing.
        return request
    if match.token is not None and options & c.MQGMO_WAIT and not options & _UNDER_CURSOR:
        raise mq_error(rc.MQRC_MSG_TOKEN_ERROR, "MQMO_MATCH_MSG_TOKEN with MQGMO_WAIT")
    return GetRequest(
        match if selector is None else match.narrowed(selector),
        request.wait_ms if options & c.MQGMO_WAIT else 0,
        request.max_length,
        bool(options & c.MQGMO_ACCEPT_TRUNCATED_MSG),
        bool(options & c.MQGMO_SYNCPOINT_IF_PERSISTENT),
        request.view,
        request.extends,
    )


@lru_cache(maxsize=1024)
def _check_get(options: int, opened_with: int) -> None:
    """Raise an error if MQGMO options are wrong, or do not fit the MQOO options of the handle.

    MQRC_OPTIONS_ERROR, MQRC_NOT_OPEN_FOR_BROWSE or MQRC_NOT_OPEN_FOR_INPUT.
    """
    check_get_options(options)
    if options & c.MQGMO_UNLOCK:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "MQGMO_UNLOCK gets nothing; call unlock()")
    if options & (BROWSE | c.MQGMO_MSG_UNDER_CURSOR) and not opened_with & c.MQOO_BROWSE:
        raise not_open(rc.MQRC_NOT_OPEN_FOR_BROWSE, "MQOO_BROWSE")
    if options & CO_OP_MARKS and not opened_with & c.MQOO_CO_OP:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{options:#x}: not opened with MQOO_CO_OP")
    if not options & BROWSE and not opened_with & INPUT:
        raise not_open(rc.MQRC_NOT_OPEN_FOR_INPUT, "MQOO_INPUT_*")


def quiescing_error(error: MQError, options: int) -> MQError:
    """Return the error for a get that ends because the queue manager closes.

    MQGMO_FAIL_IF_QUIESCING turns MQRC_Q_MGR_STOPPING into MQRC_Q_MGR_QUIESCING (G4, G11); other
    errors are returned unchanged.
    """
    if error.reason == rc.MQRC_Q_MGR_STOPPING and options & c.MQGMO_FAIL_IF_QUIESCING:
        return mq_error(rc.MQRC_Q_MGR_QUIESCING, error.detail)
    return error


# MQPUT, with the context of a message: its origin, set by the putter or passed on (P6)


#: Put options that take their context from a message that was got.
PASSES: Final = c.MQPMO_PASS_IDENTITY_CONTEXT | c.MQPMO_PASS_ALL_CONTEXT
_KNOWN_PUT = (
    c.MQPMO_SYNCPOINT
    | c.MQPMO_NO_SYNCPOINT
    | c.MQPMO_NEW_MSG_ID
    | c.MQPMO_NEW_CORREL_ID
    | c.MQPMO_DEFAULT_CONTEXT
    | c.MQPMO_NO_CONTEXT
    | PASSES
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
    c.MQPMO_PASS_IDENTITY_CONTEXT,
    c.MQPMO_PASS_ALL_CONTEXT,
    c.MQPMO_SET_IDENTITY_CONTEXT,
    c.MQPMO_SET_ALL_CONTEXT,
)
#: The options of a put that change its request, see ``with_options``.
CHANGES_PUT = sum(_CONTEXTS) | c.MQPMO_NEW_MSG_ID | c.MQPMO_NEW_CORREL_ID
#: Put option -> the open options one of which it needs, and the reason code without.
_NEEDED: Final = {
    c.MQPMO_PASS_IDENTITY_CONTEXT: (
        c.MQOO_PASS_IDENTITY_CONTEXT
        | c.MQOO_PASS_ALL_CONTEXT
        | c.MQOO_SET_IDENTITY_CONTEXT
        | c.MQOO_SET_ALL_CONTEXT,
        rc.MQRC_NOT_OPEN_FOR_PASS_IDENT,
        "MQOO_PASS_IDENTITY_CONTEXT",
    ),
    c.MQPMO_PASS_ALL_CONTEXT: (
        c.MQOO_PASS_ALL_CONTEXT | c.MQOO_SET_ALL_CONTEXT,
        rc.MQRC_NOT_OPEN_FOR_PASS_ALL,
        "MQOO_PASS_ALL_CONTEXT",
    ),
    c.MQPMO_SET_IDENTITY_CONTEXT: (
        c.MQOO_SET_IDENTITY_CONTEXT | c.MQOO_SET_ALL_CONTEXT,
        rc.MQRC_NOT_OPEN_FOR_SET_IDENT,
        "MQOO_SET_IDENTITY_CONTEXT",
    ),
    c.MQPMO_SET_ALL_CONTEXT: (
        c.MQOO_SET_ALL_CONTEXT,
        rc.MQRC_NOT_OPEN_FOR_SET_ALL,
        "MQOO_SET_ALL_CONTEXT",
    ),
}


@lru_cache(maxsize=256)
def check_put_options(options: int, *, publishes: bool = False) -> None:
    """Raise MQRC_OPTIONS_ERROR for unknown or contradictory MQPMO options (P10).

    With ``publishes`` the options of publications are known too.
    """
    both = c.MQPMO_SYNCPOINT | c.MQPMO_NO_SYNCPOINT
    responses = c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNC_RESPONSE
    contexts = sum(1 for bit in _CONTEXTS if options & bit)
    known = _KNOWN_PUBLISH if publishes else _KNOWN_PUT | c.MQPMO_LOGICAL_ORDER | UNIQUE | REPLACES
    excluded = options & both == both or options & responses == responses or contexts > 1
    if options & ~known or excluded:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"PMO.Options {options:#x}")


def with_options(core: Core, request: PutRequest, open_options: int, options: int) -> PutRequest:
    """Return the request of a put changed by its MQPMO options: new ids, another context.

    Raises MQRC_NOT_OPEN_FOR_PASS_ALL, _PASS_IDENT, _SET_ALL or _SET_IDENT when ``open_options`` do
    not allow the context option.
    """
    context_option = _context_of(options)
    if context_option:
        check_context_opened(open_options, context_option)
    if options & c.MQPMO_NEW_MSG_ID:
        request = request._replace(msg_id=b"")
    if options & c.MQPMO_NEW_CORREL_ID:
        with core.engine_lock:
            request = request._replace(correl_id=new_id(core))
    if context_option == request.context_option:
        return request
    return request._replace(context_option=context_option)


@lru_cache(maxsize=256)
def _context_of(options: int) -> int:
    """Return the context option in these MQPMO options, MQPMO_NONE without one."""
    return next((bit for bit in _CONTEXTS if options & bit), c.MQPMO_NONE)


def check_context_opened(open_options: int, context_option: int) -> None:
    """Raise an error if ``open_options`` do not allow a context option of a put.

    MQRC_NOT_OPEN_FOR_PASS_ALL, _PASS_IDENT, _SET_ALL or _SET_IDENT.
    """
    needed = _NEEDED.get(context_option)
    if needed is not None and not open_options & needed[0]:
        raise mq_error(needed[1], f"the queue was not opened with {needed[2]}")


def with_passed_context(request: PutRequest, got: Message) -> PutRequest:
    """Return a put with the context of a message that was got: all of it, or its identity only.

    ``request.context_option`` decides, and becomes the MQPMO_SET_* option. The other fields of the
    descriptor, such as Expiry, do not change.
    """
    source = got.descriptor
    descriptor = request.descriptor._replace(
        user_identifier=source.user_identifier,
        accounting_token=source.accounting_token,
        appl_identity_data=source.appl_identity_data,
    )
    if request.context_option == c.MQPMO_PASS_IDENTITY_CONTEXT:
        return request._replace(descriptor=descriptor, context_option=c.MQPMO_SET_IDENTITY_CONTEXT)
    descriptor = descriptor._replace(
        put_appl_type=source.put_appl_type,
        put_appl_name=source.put_appl_name,
        appl_origin_data=source.appl_origin_data,
        # Blank, not empty: empty is the moment of the put.
        put_date=got.put_date or " ",
        put_time=got.put_time or " ",
    )
    return request._replace(descriptor=descriptor, context_option=c.MQPMO_SET_ALL_CONTEXT)
