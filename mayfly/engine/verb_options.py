"""Which MQGMO and MQPMO options there are, which go together, and what they make of a request."""

from __future__ import annotations

from functools import lru_cache

from mayfly.engine.core import Core
from mayfly.engine.delivery import new_id
from mayfly.engine.properties.views import OPTIONS as _PROPERTY_OPTIONS
from mayfly.engine.put import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

BROWSE = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR
SYNCPOINT = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
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


def with_options(core: Core, request: PutRequest, open_options: int, options: int) -> PutRequest:
    """Return a request as MQPMO options want it: new ids, and a context it was opened for.

    Raises MQRC_NOT_OPEN_FOR_SET_ALL, MQRC_NOT_OPEN_FOR_SET_IDENT.
    """
    if options & c.MQPMO_SET_ALL_CONTEXT and not open_options & c.MQOO_SET_ALL_CONTEXT:
        raise not_open(rc.MQRC_NOT_OPEN_FOR_SET_ALL, "MQOO_SET_ALL_CONTEXT")
    allowed = c.MQOO_SET_IDENTITY_CONTEXT | c.MQOO_SET_ALL_CONTEXT
    if options & c.MQPMO_SET_IDENTITY_CONTEXT and not open_options & allowed:
        raise not_open(rc.MQRC_NOT_OPEN_FOR_SET_IDENT, "MQOO_SET_IDENTITY_CONTEXT")
    if options & c.MQPMO_NEW_MSG_ID:
        request = request._replace(msg_id=b"")
    if options & c.MQPMO_NEW_CORREL_ID:
        with core.latch:
            request = request._replace(correl_id=new_id(core))
    return request._replace(context_option=_context_of(options))


@lru_cache(maxsize=256)
def check_get_options(options: int) -> None:
    """Raise MQRC_OPTIONS_ERROR for unknown or mutually exclusive MQGMO bits (B8)."""
    browse = options & BROWSE
    wrong = (
        options & ~_KNOWN_GET
        or browse & (browse - 1)
        or (browse and options & (SYNCPOINT | c.MQGMO_UNLOCK | c.MQGMO_MSG_UNDER_CURSOR))
        or (options & c.MQGMO_LOCK and not browse)
        or (options & c.MQGMO_UNLOCK and options & ~(c.MQGMO_UNLOCK | c.MQGMO_NO_SYNCPOINT))
        or (options & SYNCPOINT and options & c.MQGMO_NO_SYNCPOINT)
        or options & SYNCPOINT == SYNCPOINT
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


def not_open(reason: int, option: str) -> MQError:
    """Return the error of a verb that the queue was not opened for (C8)."""
    return mq_error(reason, f"the queue was not opened with {option}")
