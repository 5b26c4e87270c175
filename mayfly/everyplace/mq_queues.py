"""The way between queues of MQ Everyplace and queues of a Mayfly queue manager, lifetimes included.

An Everyplace message is the body of an MQ message of type MQMT_MQE_FIELDS_FROM_MQE; its fields are
written as JSON, with their types (not as MQ Everyplace wrote them). What was left of its life is
left of it on the other side, by the clock there.
"""

from __future__ import annotations

import itertools

from mayfly.engine.manager import Manager
from mayfly.engine.message import Message
from mayfly.engine.session import Session
from mayfly.everyplace.errors import EveryplaceError
from mayfly.everyplace.fields import (
    HIGHEST_PRIORITY,
    MSG_CORREL_ID,
    MSG_EXPIRE_TIME,
    MSG_PRIORITY,
    MSG_REPLY_TO_Q,
    MSG_REPLY_TO_Q_MGR,
    Field,
    MessageFields,
    MessageUid,
)
from mayfly.everyplace.manager import EveryplaceQueueManager
from mayfly.everyplace.mq_body import MQ_DATA, fields_as_body, fields_of_body
from mayfly.everyplace.mq_reports import remember_sender
from mayfly.lifetime.everyplace import Timepiece
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi.constants import MQMT_MQE_FIELDS, MQMT_MQE_FIELDS_FROM_MQE
from mayfly.mqi.reasons import MQRC_NO_MSG_AVAILABLE, MQRC_SYNCPOINT_NOT_AVAILABLE

_CORREL_ID_BYTES = 24
#: Above what an application would choose: undo takes back all that was done under an id.
_CONFIRM_IDS = itertools.count(2**62)


def move_to_mq(
    manager: EveryplaceQueueManager, queue: str, session: Session, mq_queue: str
) -> bytes | None:
    """Move the next message to an MQ queue and return its MsgId, None when there was none.

    It leaves the Everyplace queue when the put has succeeded. The message's own end becomes
    MQMD.Expiry, rounded up to tenths where that is shown; the interval of the queue it leaves stays
    behind. Raises the MQError of the put, MQRC_SYNCPOINT_NOT_AVAILABLE for a transacted session,
    whose backout would lose the message, and MQRC_OPTION_NOT_VALID_FOR_TYPE for a synchronous
    remote queue: a link that is cut would leave it locked there for ever.
    """
    if session.is_transacted:
        raise EveryplaceError(
            MQRC_SYNCPOINT_NOT_AVAILABLE, f"move from {queue} to {mq_queue} in a transacted session"
        )
    manager.queue_held_here(queue)
    confirm_id = next(_CONFIRM_IDS)
    message = manager.get_message(queue, confirm_id=confirm_id)
    if message is None:
        return None
    try:
        msg_id = _put(session, mq_queue, message, manager.clock)
    except BaseException:
        manager.undo(queue, confirm_id)
        raise
    manager.confirm_get_message(queue, message.uid)
    return msg_id


def move_from_mq(
    mq_manager: Manager, mq_queue: str, manager: EveryplaceQueueManager, queue: str
) -> MessageUid | None:
    """Move the next message of an MQ queue and return its identity, None when there was none.

    Both sides change or neither: what the Everyplace queue refuses is backed out. Raises
    MQRC_OPTION_NOT_VALID_FOR_TYPE for a synchronous remote queue, which cannot promise that.
    """
    manager.queue_held_here(queue)
    confirm_id = next(_CONFIRM_IDS)
    with mq_manager.session(transacted=True) as unit:
        got = unit.get(mq_queue)
        if got is None:
            return None
        message = from_mq(got, manager.clock)
        uid = manager.put_message(queue, message, confirm_id=confirm_id)
        try:
            unit.commit()
        except BaseException:
            manager.undo(queue, confirm_id)
            raise
    try:
        manager.confirm_put_message(queue, uid)
    except EveryplaceError as error:
        # Expired on arrival: it has met its rule and is gone (M6).
        if error.reason != MQRC_NO_MSG_AVAILABLE:
            raise
    return uid


def from_mq(got: Message, clock: Timepiece) -> MessageFields:
    """Return an MQ message as an Everyplace message; of another type, its body is one field.

    What is left of its life becomes an absolute expire time by ``clock``: a relative one would
    begin again. Of two ends, the message's own and MQ's, the earlier counts. Raises EveryplaceError
    with MQRC_FORMAT_ERROR when the body is none that `fields_as_body` has written.
    """
    if got.descriptor.msg_type in (MQMT_MQE_FIELDS, MQMT_MQE_FIELDS_FROM_MQE):
        message = fields_of_body(got.body)
    else:
        message = MessageFields(clock)
        message.put_array_of_byte(MQ_DATA, got.body)
        message.put_byte(MSG_PRIORITY, min(got.priority, HIGHEST_PRIORITY))
        if any(got.correl_id):
            message.put_array_of_byte(MSG_CORREL_ID, got.correl_id)
        for field, name in (
            (MSG_REPLY_TO_Q, got.descriptor.reply_to_q),
            (MSG_REPLY_TO_Q_MGR, got.descriptor.reply_to_q_mgr),
        ):
            if name:
                put_name = message.put_ascii if name.isascii() else message.put_unicode
                put_name(field, name)
    remember_sender(got, message)
    if got.remaining_ms is not None:
        end_ms = clock.now_ms() + got.remaining_ms
        own = message.expire_time
        if own is not None:
            end_ms = min(end_ms, own.at_ms(message.created_ms))
        message.put_long(MSG_EXPIRE_TIME, end_ms)
    return message


def _put(session: Session, mq_queue: str, message: MessageFields, clock: Timepiece) -> bytes:
    fields = message.fields()
    correl_id = fields.get(MSG_CORREL_ID)
    return session.put(
        mq_queue,
        fields_as_body(message),
        time_to_live_ms=_life_ms(message, clock.now_ms()),
        priority=message.priority,
        correl_id=_correl_id(correl_id),
        reply_to_q=_reply_to(fields),
        msg_type=MQMT_MQE_FIELDS_FROM_MQE,
    )


def _life_ms(message: MessageFields, now_ms: int) -> int | None:
    """Return what is left of a message that was alive a moment ago, as far as MQ can say it."""
    if message.expire_time is None:
        return None
    left_ms = message.expire_time.at_ms(message.created_ms) - now_ms
    return min(max(left_ms, 1), LONGEST_LIFE_MS)


def _reply_to(fields: dict[str, Field]) -> str:
    """Return where to answer as a session takes it: ``QUEUE`` or ``QUEUE@MANAGER``."""
    queue, manager = _text(fields, MSG_REPLY_TO_Q), _text(fields, MSG_REPLY_TO_Q_MGR)
    return f"{queue}@{manager}" if queue and manager else queue


def _text(fields: dict[str, Field], name: str) -> str:
    value = fields[name].value if name in fields else ""
    return value if isinstance(value, str) else ""


def _correl_id(field: Field | None) -> bytes | None:
    if field is None or not isinstance(field.value, bytes) or len(field.value) > _CORREL_ID_BYTES:
        return None
    return field.value.ljust(_CORREL_ID_BYTES, b"\0")
