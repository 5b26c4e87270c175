"""Descriptors of puts: checked (P1), completed from queue and user, and cached."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mayfly.engine.groups.place import as_placed, check_place
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor, cut_to_fit, fitted, pack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Layout, is_big_endian
from mayfly.mqi.structures import DLH, IIH, MDE, RFH2, TM, TMC2
from mayfly.store.keys import MAX_PRIORITY

#: Formats whose header the queue manager checks when the MQMD is version 2 (P12).
_CHECKED_HEADERS: dict[str, Layout] = {
    "MQDEAD": DLH,
    "MQHMDE": MDE,
    "MQIMS": IIH,
    "MQTRIG": TM,
    "MQCTRG": TMC2,
    "MQHRF2": RFH2,
}
_WITH_REPLY = (
    c.MQRO_EXCEPTION_WITH_FULL_DATA
    | c.MQRO_EXPIRATION_WITH_FULL_DATA
    | c.MQRO_COA_WITH_FULL_DATA
    | c.MQRO_COD_WITH_FULL_DATA
    | c.MQRO_PAN
    | c.MQRO_NAN
    | c.MQRO_ACTIVITY
)
_KNOWN_REPORT = (
    _WITH_REPLY
    | c.MQRO_PASS_MSG_ID
    | c.MQRO_PASS_CORREL_ID
    | c.MQRO_DISCARD_MSG
    | c.MQRO_PASS_DISCARD_AND_EXPIRY
)
_KNOWN_FLAGS = (
    c.MQMF_SEGMENTATION_ALLOWED
    | c.MQMF_MSG_IN_GROUP
    | c.MQMF_LAST_MSG_IN_GROUP
    | c.MQMF_SEGMENT
    | c.MQMF_LAST_SEGMENT
)
#: Of the flags that are not known, those that a queue that is no transmission queue refuses.
_NEVER_TAKEN_FLAGS = c.MQMF_REJECT_UNSUP_MASK
_REFUSED_FLAGS = _NEVER_TAKEN_FLAGS | c.MQMF_ACCEPT_UNSUP_IF_XMIT_MASK
_REFUSED_REPORT = c.MQRO_REJECT_UNSUP_MASK | c.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
_U32 = 0xFFFFFFFF


class Context(NamedTuple):
    """The user and program that put a message, for the default context fields of the MQMD (P6)."""

    user_identifier: str
    put_appl_type: int
    put_appl_name: str
    manager_name: str


class Prepared(NamedTuple):
    """A checked descriptor as it will be stored; ``warning`` is a reason code or 0.

    ``checks_header`` is True when the Format announces a header in the data that must be checked.
    """

    descriptor: Descriptor
    packed: bytes
    order_priority: int
    persistent: bool
    warning: int
    checks_header: bool


@lru_cache(maxsize=4096)
def prepare(
    descriptor: Descriptor,
    default_priority: int,
    default_persistence: int,
    context: Context,
    context_option: int = c.MQPMO_NONE,
    *,
    transmits: bool = False,
) -> Prepared:
    """Check a descriptor, complete it with defaults of queue and context, and return it packed too.

    ``context`` is the user and program that put, ``context_option`` an MQPMO_*_CONTEXT. With
    ``transmits``, for a transmission queue, it accepts values that only the last queue manager on
    the way has to know.

    Raises the reason code of the first wrong field: MQRC_MD_ERROR for a value that does not fit an
    MQMD, MQRC_MSG_TYPE_ERROR, MQRC_FEEDBACK_ERROR, MQRC_PRIORITY_ERROR, MQRC_PERSISTENCE_ERROR,
    MQRC_REPORT_OPTIONS_ERROR, MQRC_MSG_FLAGS_ERROR, MQRC_MSG_SEQ_NUMBER_ERROR, MQRC_OFFSET_ERROR,
    MQRC_MISSING_REPLY_TO_Q.
    """
    descriptor = fitted(as_placed(descriptor))
    warning = _check(descriptor, transmits=transmits)
    priority = default_priority if descriptor.priority < 0 else descriptor.priority
    persistence = descriptor.persistence
    if persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
        persistence = default_persistence
    # The descriptor field holds option bits as a signed number.
    report = descriptor.report - 2**32 if descriptor.report >= 2**31 else descriptor.report
    resolved = _with_context(descriptor, context, context_option)._replace(
        report=report,
        priority=priority,
        persistence=persistence,
        reply_to_q_mgr=descriptor.reply_to_q_mgr
        or (context.manager_name if descriptor.reply_to_q else ""),
    )
    return Prepared(
        resolved,
        pack_descriptor(resolved),
        min(priority, MAX_PRIORITY),
        persistence == c.MQPER_PERSISTENT,
        warning,
        descriptor.version >= c.MQMD_VERSION_2 and descriptor.format in _CHECKED_HEADERS,
    )


@lru_cache(maxsize=1024)
def check_header(descriptor: Descriptor, body: bytes) -> None:
    """Check the header that the Format of a message announces, at the start of its data (P12).

    Raises the reason code of that structure, such as MQRC_DLH_ERROR, for a missing or wrong header.
    The Format must be one of those for which ``Prepared.checks_header`` is True.
    """
    big_endian = is_big_endian(descriptor.encoding)
    _CHECKED_HEADERS[descriptor.format].unpack(body, big_endian=big_endian)


def _check(d: Descriptor, *, transmits: bool) -> int:
    """Return a warning reason code (MQRC_*) or 0; raises the errors of :func:`prepare`.

    ``transmits`` accepts values that only the last queue manager on the way has to know.
    """
    if not c.MQMT_SYSTEM_FIRST <= d.msg_type <= c.MQMT_APPL_LAST:
        raise _wrong(rc.MQRC_MSG_TYPE_ERROR, "MsgType", d.msg_type)
    if not c.MQFB_NONE <= d.feedback <= c.MQFB_APPL_LAST:
        raise _wrong(rc.MQRC_FEEDBACK_ERROR, "Feedback", d.feedback)
    if d.priority < c.MQPRI_PRIORITY_AS_Q_DEF:
        raise _wrong(rc.MQRC_PRIORITY_ERROR, "Priority", d.priority)
    if not c.MQPER_NOT_PERSISTENT <= d.persistence <= c.MQPER_PERSISTENCE_AS_Q_DEF:
        raise _wrong(rc.MQRC_PERSISTENCE_ERROR, "Persistence", d.persistence)
    if d.msg_flags & ~_KNOWN_FLAGS & (_REFUSED_FLAGS if not transmits else _NEVER_TAKEN_FLAGS):
        raise _wrong(rc.MQRC_MSG_FLAGS_ERROR, "MsgFlags", d.msg_flags)
    check_place(d)
    if not -(2**31) <= d.report < 2**32:
        raise _wrong(rc.MQRC_REPORT_OPTIONS_ERROR, "Report", d.report)
    unknown = d.report & _U32 & ~_KNOWN_REPORT
    # A queue that is not a transmission queue must know the accept-if-xmit options, too (P2).
    if unknown & (c.MQRO_REJECT_UNSUP_MASK if transmits else _REFUSED_REPORT):
        raise _wrong(rc.MQRC_REPORT_OPTIONS_ERROR, "Report", d.report)
    if not d.reply_to_q and (d.msg_type == c.MQMT_REQUEST or d.report & _WITH_REPLY):
        raise mq_error(
            rc.MQRC_MISSING_REPLY_TO_Q,
            f"ReplyToQ is blank with MsgType {d.msg_type}, Report {d.report:#x}",
        )
    if d.priority > MAX_PRIORITY:
        return rc.MQRC_PRIORITY_EXCEEDS_MAXIMUM
    return rc.MQRC_UNKNOWN_REPORT_OPTION if unknown else rc.MQRC_NONE


def _with_context(d: Descriptor, context: Context, option: int) -> Descriptor:
    """Return a descriptor whose context fields are filled as the MQPMO context option says.

    Without an option all come from ``context``. MQPMO_SET_ALL_CONTEXT changes nothing.
    """
    if option == c.MQPMO_SET_ALL_CONTEXT:
        return d
    if option == c.MQPMO_NO_CONTEXT:
        return d._replace(
            user_identifier="",
            accounting_token=b"",
            appl_identity_data="",
            put_appl_type=c.MQAT_NO_CONTEXT,
            put_appl_name="",
            appl_origin_data="",
            put_date=" ",
            put_time=" ",
        )
    origin = d._replace(
        put_appl_type=context.put_appl_type,
        put_appl_name=cut_to_fit(context.put_appl_name, "PutApplName"),
        appl_origin_data="",
        put_date="",
        put_time="",
    )
    if option == c.MQPMO_SET_IDENTITY_CONTEXT:
        return origin
    return origin._replace(
        user_identifier=cut_to_fit(context.user_identifier, "UserIdentifier"),
        accounting_token=b"",
        appl_identity_data="",
    )


def _wrong(reason: int, field: str, value: int) -> MQError:
    """Return an error with this reason code that names the MQMD field and its wrong value."""
    return mq_error(reason, f"{field} {value} is not valid")
