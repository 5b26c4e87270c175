"""Messages that were backed out too often: they go to BOQNAME, else to the dead-letter queue."""

from __future__ import annotations

import logging

from mayfly.engine.disposal import send_report
from mayfly.engine.handles import Handle
from mayfly.engine.manager import Manager
from mayfly.engine.message import Message
from mayfly.engine.put import PutRequest
from mayfly.engine.session import Session
from mayfly.engine.work import Work
from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error

_LOG = logging.getLogger("mayfly.jms")
_CONTEXT = c.MQOO_OUTPUT | c.MQOO_SET_ALL_CONTEXT
_OPTIONS = c.MQPMO_SYNCPOINT | c.MQPMO_SET_ALL_CONTEXT


def is_poisonous(handle: Handle, message: Message) -> bool:
    """Tell whether a message was backed out as often as its queue allows; BOTHRESH(0) is ever."""
    threshold = handle.queue.definition.number("BOTHRESH")
    return 0 < threshold <= message.backout_count


def move_away(manager: Manager, session: Session, handle: Handle, message: Message) -> None:
    """Put a message got in the unit of work elsewhere, in the same unit, its life running on.

    To BOQNAME as it is; where that fails to the dead-letter queue with an MQDLH, unless its report
    options say MQRO_DISCARD_MSG: then it is only gone. Either way it owes an exception report, in
    the same unit. Raises MQRC_BACKOUT_THRESHOLD_REACHED when nobody takes it, or the report of a
    persistent one (as D22 has it); the unit of work is to be backed out then.
    """
    queue, now_ms = handle.queue, manager.now_ms()
    request = _request(message, message.descriptor, now_ms)
    try:
        _put(session, queue.definition.text("BOQNAME"), message.body, request)
    except MQError as error:
        if message.descriptor.report & c.MQRO_DISCARD_MSG:
            _LOG.warning("%s on %s is discarded: %s", message.msg_id.hex(), queue.name, error)
        else:
            _dead_letter(manager, session, queue.name, message)
        _report(manager, session, message)


def _dead_letter(manager: Manager, session: Session, queue_name: str, message: Message) -> None:
    context, now_ms = session.context, manager.now_ms()
    refusal = Refusal(
        rc.MQRC_BACKOUT_THRESHOLD_REACHED,
        queue_name,
        manager.name,
        context.put_appl_type,
        context.put_appl_name,
        now_ms,
    )
    dead, header = behind_header(message.descriptor, refusal)
    try:
        name = manager.registry.queue_manager.text("DEADQ")
        _put(session, name, header + message.body, _request(message, dead, now_ms))
    except MQError as error:
        raise mq_error(
            rc.MQRC_BACKOUT_THRESHOLD_REACHED,
            f"{message.msg_id.hex()} on {queue_name} was backed out {message.backout_count} times "
            f"and can be put neither on BOQNAME nor on the dead-letter queue: {error}",
        ) from error


def _report(manager: Manager, session: Session, message: Message) -> None:
    original = Original(
        message.descriptor, message.msg_id, message.correl_id, message.body, message.remaining_ms
    )
    reason, work = rc.MQRC_BACKOUT_THRESHOLD_REACHED, Work()
    with manager.latch:
        is_sent = send_report(manager, work, Cause.EXCEPTION, original, reason)
        session.unit_of_work.adopt(work)
    if not is_sent and message.descriptor.persistence == c.MQPER_PERSISTENT:
        raise mq_error(reason, f"nobody takes the exception report of {message.msg_id.hex()}")


def _request(message: Message, descriptor: Descriptor, now_ms: int) -> PutRequest:
    left_ms = None
    if message.expire_at_ms is not None:
        # It may end right now; a put takes no life of 0.
        left_ms = min(max(message.expire_at_ms - now_ms, 1), LONGEST_LIFE_MS)
    return PutRequest(
        descriptor._replace(put_date=message.put_date, put_time=message.put_time),
        message.msg_id,
        message.correl_id if message.correl_id.strip(b"\0") else b"",
        left_ms,
    )


def _put(session: Session, name: str, body: bytes, request: PutRequest) -> None:
    if not name:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "no queue is named for it")
    handle = session.open(name, _CONTEXT)
    try:
        handle.put(body, request, _OPTIONS)
    finally:
        handle.close()
