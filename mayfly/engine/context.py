"""Message context, the origin of a message: set by the putter or passed on (P6)."""

from __future__ import annotations

from typing import Final

from mayfly.engine.put import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.verbs.messages import Message

#: Put options that take their context from a message that was got.
PASSES: Final = c.MQPMO_PASS_IDENTITY_CONTEXT | c.MQPMO_PASS_ALL_CONTEXT
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
_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE
_FOR_OUTPUT = (
    c.MQOO_PASS_IDENTITY_CONTEXT
    | c.MQOO_PASS_ALL_CONTEXT
    | c.MQOO_SET_IDENTITY_CONTEXT
    | c.MQOO_SET_ALL_CONTEXT
)


def check_context_opened(open_options: int, context_option: int) -> None:
    """Check that the context option of a put has its open option, or one that implies it.

    Raises MQRC_NOT_OPEN_FOR_PASS_ALL, _PASS_IDENT, _SET_ALL or _SET_IDENT.
    """
    needed = _NEEDED.get(context_option)
    if needed is not None and not open_options & needed[0]:
        raise mq_error(needed[1], f"the queue was not opened with {needed[2]}")


def fits_context(open_options: int) -> bool:
    """Return True if the context options of an open fit its other options.

    Saving context needs an open for input; passing it on, or setting it, an open for output.
    """
    if open_options & c.MQOO_SAVE_ALL_CONTEXT and not open_options & _INPUT:
        return False
    return bool(open_options & c.MQOO_OUTPUT) or not open_options & _FOR_OUTPUT


def passed_on(request: PutRequest, got: Message) -> PutRequest:
    """Return a put with the context of a message that was got: all of it, or who it is from.

    The rest of the descriptor, Expiry above all, is what the putter says.
    """
    source = got.descriptor
    descriptor = request.descriptor._replace(
        user_identifier=source.user_identifier,
        accounting_token=source.accounting_token,
        appl_identity_data=source.appl_identity_data,
    )
    if request.context_option == c.MQPMO_PASS_IDENTITY_CONTEXT:
        return request._replace(descriptor=descriptor, context_option=c.MQPMO_SET_IDENTITY_CONTEXT)
    return request._replace(
        descriptor=_with_origin(descriptor, got), context_option=c.MQPMO_SET_ALL_CONTEXT
    )


def _with_origin(descriptor: Descriptor, got: Message) -> Descriptor:
    source = got.descriptor
    return descriptor._replace(
        put_appl_type=source.put_appl_type,
        put_appl_name=source.put_appl_name,
        appl_origin_data=source.appl_origin_data,
        # Blank, not empty: empty is the moment of the put.
        put_date=got.put_date or " ",
        put_time=got.put_time or " ",
    )
