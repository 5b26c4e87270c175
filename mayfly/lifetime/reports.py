"""Report messages: which ones a message has asked for, and their content (mq.md §4.3).

The engine puts them.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from mayfly.lifetime.times import ms_of_tenths
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import headers_length

#: Bytes of application data in a report WITH_DATA (R1).
DATA_BYTES = 100
#: Life that IBM MQ gives an expiration report which passes on an elapsed expiry.
_EXPIRED_REPORT_LIFE_MS = ms_of_tenths(600)
_DATA_STEP, _FULL_STEP = 2, 4


class Cause(Enum):
    """The event that a report is about; the value is the option in MQMD.Report that asks for it."""

    EXCEPTION = c.MQRO_EXCEPTION
    EXPIRATION = c.MQRO_EXPIRATION
    COA = c.MQRO_COA
    COD = c.MQRO_COD


_FEEDBACK = {
    Cause.EXPIRATION: c.MQFB_EXPIRATION,
    Cause.COA: c.MQFB_COA,
    Cause.COD: c.MQFB_COD,
}
_NEVER_CONFIRMED = {
    Cause.COA: frozenset(("MQXMIT", "MQDEAD")),
    Cause.COD: frozenset(("MQDEAD",)),
}


class Original(NamedTuple):
    """The message a report is about; ``remaining_ms`` to its expiry, None for unlimited."""

    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    body: bytes
    remaining_ms: int | None


class Report(NamedTuple):
    """A report to be put; ``msg_id`` None asks for a new one, ``life_ms`` None never expires."""

    descriptor: Descriptor
    msg_id: bytes | None
    correl_id: bytes
    body: bytes
    life_ms: int | None
    reply_to_q: str
    reply_to_q_mgr: str


def is_owed(cause: Cause, descriptor: Descriptor) -> bool:
    """Return True if the Report options of a message ask for the report of this cause.

    Returns False for COA if the Format is MQXMIT or MQDEAD, and for COD if it is MQDEAD.
    """
    if not descriptor.report & cause.value:
        return False
    return descriptor.format not in _NEVER_CONFIRMED.get(cause, frozenset())


def build_report(cause: Cause, original: Original, manager_name: str, reason: int = 0) -> Report:
    """Return the report about a message, to be put on its reply queue.

    ``cause`` says which report, ``original`` is the message as its sender put it, ``manager_name``
    the queue manager that reports. ``reason`` is the Feedback of an exception report; other reports
    ignore it. A report never expires unless the message has MQRO_PASS_DISCARD_AND_EXPIRY. Then an
    expiration report expires after 60 s, any other report together with the message.
    """
    descriptor = original.descriptor
    options = descriptor.report
    body = _data(cause, original)
    life_ms = None
    if options & c.MQRO_PASS_DISCARD_AND_EXPIRY:
        is_expiration = cause is Cause.EXPIRATION
        life_ms = _EXPIRED_REPORT_LIFE_MS if is_expiration else original.remaining_ms
    has_length = descriptor.version >= c.MQMD_VERSION_2
    return Report(
        descriptor=_report_descriptor(
            descriptor,
            manager_name,
            _FEEDBACK.get(cause, reason),
            bool(body),
            len(original.body) if has_length else c.MQOL_UNDEFINED,
        ),
        msg_id=original.msg_id if options & c.MQRO_PASS_MSG_ID else None,
        correl_id=original.correl_id if options & c.MQRO_PASS_CORREL_ID else original.msg_id,
        body=body,
        life_ms=life_ms,
        reply_to_q=descriptor.reply_to_q,
        reply_to_q_mgr=descriptor.reply_to_q_mgr,
    )


@lru_cache(maxsize=1024)
def _report_descriptor(
    descriptor: Descriptor, manager_name: str, feedback: int, has_data: bool, original_length: int
) -> Descriptor:
    """Return the descriptor of a report; cached, because most messages share a descriptor.

    ``manager_name`` is the queue manager that sends the report. ``original_length`` is the length
    of the message in bytes. Without ``has_data`` its Format is empty.
    """
    passed_on = c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG
    return descriptor._replace(
        report=(c.MQRO_DISCARD_MSG if descriptor.report & passed_on == passed_on else c.MQRO_NONE),
        msg_type=c.MQMT_REPORT,
        feedback=feedback,
        format=descriptor.format if has_data else "",
        reply_to_q="",
        reply_to_q_mgr=manager_name,
        put_appl_type=c.MQAT_QMGR,
        put_appl_name=manager_name[:28],
        appl_origin_data="",
        put_date="",
        put_time="",
        original_length=original_length,
    )


def _data(cause: Cause, original: Original) -> bytes:
    """Return a report's data: empty, MQ headers and 100 bytes more, or all, as Report asks (R1)."""
    options, body = original.descriptor.report, original.body
    if options & (cause.value * _FULL_STEP):
        return body
    if options & (cause.value * _DATA_STEP):
        descriptor = original.descriptor
        leading_bytes = headers_length(descriptor.format, body, descriptor.encoding)
        return body[: leading_bytes + DATA_BYTES]
    return b""
