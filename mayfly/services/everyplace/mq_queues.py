"""MQ queues and MQ Everyplace queues: moves between them, which keep the remaining lifetime.

An Everyplace message is the body of an MQ message of type MQMT_MQE_FIELDS_FROM_MQE. Its fields are
written as JSON, with their types. Its remaining lifetime counts on at the other side, by the clock
there. A message from MQ that expires here still gets the expiration report it asked for (E19).

A move is done once or not at all, even after a crash. It has a number, and the message is locked
here under that number before MQ commits. MQ writes the number in the transaction that puts or gets
the message. After a crash, an open move is settled by asking MQ whether its number was the last.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine import Session
from mayfly.engine.api.transit import MoveNumbers, report_expiration
from mayfly.lifetime.everyplace import Timepiece
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.mqi.constants import MQMT_MQE_FIELDS, MQMT_MQE_FIELDS_FROM_MQE
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_OPTION_NOT_VALID_FOR_TYPE, MQRC_SYNCPOINT_NOT_AVAILABLE
from mayfly.queue_manager import QueueManager
from mayfly.services.everyplace.definitions import activated
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import (
    HIGHEST_PRIORITY,
    MQ_DATA,
    MSG_CORREL_ID,
    MSG_EXPIRE_TIME,
    MSG_PRIORITY,
    MSG_REPLY_TO_Q,
    MSG_REPLY_TO_Q_MGR,
    MessageFields,
    MessageUid,
    TypedField,
    fields_as_body,
    fields_of_body,
)
from mayfly.services.everyplace.links import Exchange
from mayfly.services.everyplace.manager import EveryplaceQueueManager
from mayfly.services.everyplace.queues import MessageQueue, QueuedMessage
from mayfly.services.everyplace.rules import MessageState, QueueEntry, QueueRule
from mayfly.verbs.messages import Message

#: Fields with the descriptor as the sender put it, and with the MsgId that the sender knows.
MQ_DESCRIPTOR, MQ_MSG_ID = "MQ_Descriptor", "MQ_MsgId"


class ReportsToMq(QueueRule):
    """A queue rule that sends the expiration report which a message from MQ has asked for.

    Without this rule no report is sent, because Everyplace itself knows only rules.
    """

    def __init__(self, manager: QueueManager) -> None:
        """Make the rule; it sends the reports through this MQ queue manager."""
        self._manager = manager

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        """Send the report that the message asked for, if any.

        If it cannot be delivered, it goes to the dead-letter queue (R4).
        """
        original = _original_of(message)
        if original is not None:
            report_expiration(self._manager.engine, original, None)


def remember_sender(got: Message, message: MessageFields) -> None:
    """Add the fields that an expiration report needs to a message from MQ.

    Adds nothing if the sender asked for no expiration report.
    """
    if is_owed(Cause.EXPIRATION, got.descriptor):
        message.put_array_of_byte(MQ_DESCRIPTOR, pack_descriptor(got.descriptor))
        message.put_array_of_byte(MQ_MSG_ID, got.msg_id)


def _original_of(message: MessageFields) -> Original | None:
    """Return the MQ message that an Everyplace message came from.

    Returns None if it asked for no report.
    """
    if not message.contains(MQ_DESCRIPTOR):
        return None
    data, correl_id = fields_as_body(message), b""
    if message.contains(MQ_DATA):
        data = message.get_array_of_byte(MQ_DATA)
    if message.contains(MSG_CORREL_ID):
        correl_id = message.get_array_of_byte(MSG_CORREL_ID)
    descriptor = unpack_descriptor(message.get_array_of_byte(MQ_DESCRIPTOR))
    return Original(descriptor, message.get_array_of_byte(MQ_MSG_ID), correl_id, data, 0)


class Moves(NamedTuple):
    """The moves of messages between an Everyplace queue manager and an MQ queue manager."""

    manager: EveryplaceQueueManager
    numbers: MoveNumbers

    def begin(self) -> Exchange:
        """Return a new exchange for a move, with the next number.

        The partner is the id of the MQ instance, because names of queue managers may recur.
        """
        return self.manager.peers.begin_move(self.numbers.instance_id)

    def write(self, exchange: Exchange, unit: Session) -> None:
        """Add the number of a move to the unit of work of an MQ session, whose commit stores it.

        Does nothing for an Everyplace queue manager in memory.
        """
        if self.manager.journal is not None:
            self.numbers.note(unit, _name_of(exchange), exchange.number)

    def settle_after(self, error: BaseException) -> None:
        """Finish or undo a move that failed, unless it is unknown whether MQ has committed it.

        An unknown move stays open for the next :meth:`settle`.
        """
        is_known = isinstance(error, MQError) and not self.numbers.is_stopped
        if is_known or self.manager.journal is None:
            self.settle()

    def settle(self) -> None:
        """Finish the open moves that MQ has committed, and undo the others.

        Raises the errors of a call on the queue, and MQRC_CONNECTION_BROKEN when MQ has stopped.
        """
        instance_id = self.numbers.instance_id
        if self.manager.peers.begun_with(instance_id).is_any_open():
            for queue in self.manager.definitions.message_queues():
                for exchange, queued in queue.in_exchange():
                    if exchange.partner == instance_id:
                        self.end(queue, exchange, is_done=self._is_done(exchange), queued=queued)

    def end(
        self,
        queue: MessageQueue,
        exchange: Exchange,
        queued: QueuedMessage | None,
        *,
        is_done: bool,
    ) -> None:
        """End a move: keep or delete the message here, and close the exchange.

        ``is_done`` is True if MQ has committed the move, ``queued`` the message here, None if it is
        gone. A message to MQ is deleted if done, else available again; one from MQ available if
        done, else deleted.
        """
        with self.manager.unit():
            if queued is not None and queued.state is MessageState.PUT_UNCONFIRMED and is_done:
                # Its activation may find that it has expired.
                if activated(queue).holds(queued):
                    queue.admit(queued)
            elif (
                queued is not None and queued.state is MessageState.GET_UNCONFIRMED and not is_done
            ):
                queue.release(queued)
            elif queued is not None:
                queue.remove(queued)
            self.manager.peers.end(exchange)

    def _is_done(self, exchange: Exchange) -> bool:
        """Return True if MQ has committed the move of an exchange."""
        # The last is the only one that can be open: each begins by settling those before it.
        return self.numbers.last(_name_of(exchange)) == exchange.number


def _name_of(exchange: Exchange) -> str:
    """Return the name under which MQ records the numbers of moves: ``'everyplace <era>'``."""
    return f"everyplace {exchange.era}"


_CORREL_ID_BYTES = 24


def move_to_mq(
    manager: EveryplaceQueueManager, queue: str, session: Session, mq_queue: str
) -> bytes | None:
    """Move the next message to an MQ queue; return its MsgId, None when there was no message.

    It leaves the Everyplace queue after the put has succeeded. The message's own expire time
    becomes MQMD.Expiry, shown rounded up to tenths of a second; the queue's interval is not carried
    over. Raises the MQError of the put, MQRC_SYNCPOINT_NOT_AVAILABLE for a transacted session,
    whose backout would lose the message, and MQRC_OPTION_NOT_VALID_FOR_TYPE for a remote queue.
    """
    if session.is_transacted:
        raise EveryplaceError(
            MQRC_SYNCPOINT_NOT_AVAILABLE, f"move from {queue} to {mq_queue} in a transacted session"
        )
    source = _source(manager, queue)
    moves = Moves(manager, MoveNumbers(session.core))
    moves.settle()
    with manager.unit():
        taken = activated(source).lock_next(moves.begin)
    if taken is None:
        return None
    exchange, queued = taken
    try:
        with manager.peers.sending():
            msg_id = _put_once(moves, exchange, session, mq_queue, queued.message)
    except BaseException as error:
        moves.settle_after(error)
        raise
    moves.end(source, exchange, queued, is_done=True)
    return msg_id


def move_from_mq(
    mq_manager: QueueManager, mq_queue: str, manager: EveryplaceQueueManager, queue: str
) -> MessageUid | None:
    """Move the next message of an MQ queue; return its identity, None when there was no message.

    Both sides change or neither: a message that the Everyplace queue refuses is backed out. Raises
    MQRC_OPTION_NOT_VALID_FOR_TYPE for a synchronous remote queue, which cannot promise that.
    """
    target = manager.definitions.queue_with_messages(queue)
    moves = Moves(manager, MoveNumbers(mq_manager.engine))
    moves.settle()
    with mq_manager.session(transacted=True) as unit:
        got = unit.get(mq_queue)
        if got is None:
            return None
        message = from_mq(got, manager.clock)
        exchange = _hold(moves, target, message)
        try:
            with manager.peers.sending():
                moves.write(exchange, unit)
                unit.commit()
        except BaseException as error:
            moves.settle_after(error)
            raise
    moves.end(target, exchange, target.of_exchange(exchange), is_done=True)
    return message.uid


def settle_moves(manager: EveryplaceQueueManager, mq_manager: QueueManager) -> None:
    """Finish or undo the moves that a crash has left open with an MQ queue manager.

    Each move does this first. Raises MQRC_ENVIRONMENT_ERROR when the rule of a queue with such a
    move was not set again.
    """
    Moves(manager, MoveNumbers(mq_manager.engine)).settle()


def from_mq(got: Message, clock: Timepiece) -> MessageFields:
    """Return an MQ message as an Everyplace message.

    If no Everyplace program has written it, the whole body becomes one field. The remaining
    lifetime becomes an absolute expire time by ``clock``, because a relative one would start again.
    If the message has an Everyplace expire time, too, the earlier one counts. Raises
    EveryplaceError with MQRC_FORMAT_ERROR when the body is not written by `fields_as_body`.
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


def _source(manager: EveryplaceQueueManager, queue: str) -> MessageQueue:
    """Return the queue for a move to MQ; raises MQRC_OPTION_NOT_VALID_FOR_TYPE for a remote one."""
    source = manager.definitions.queue_with_messages(queue)
    if source.partner:
        raise EveryplaceError(
            MQRC_OPTION_NOT_VALID_FOR_TYPE, f"get from asynchronous remote queue {queue}"
        )
    return source


def _hold(moves: Moves, target: MessageQueue, message: MessageFields) -> Exchange:
    """Store a message from MQ, invisible to gets; return the exchange of its move.

    ``moves`` are the moves between the two queue managers. The expiry of the message is checked
    when the move ends (M6). Raises the error with which the queue refuses it.
    """
    manager = moves.manager
    with manager.unit():
        message.name_origin(manager.name)
        message.was_put = True
        exchange = moves.begin()
        try:
            activated(target).add(message.copy(), exchange=exchange, is_checked=False)
        except EveryplaceError:
            manager.peers.end(exchange)
            raise
    return exchange


def _put_once(
    moves: Moves, exchange: Exchange, session: Session, mq_queue: str, message: MessageFields
) -> bytes:
    """Put a message on an MQ queue with the number of its move; return its MsgId.

    It is persistent if the Everyplace queue manager is durable, else as the MQ queue says.
    """
    clock = moves.manager.clock
    if moves.manager.journal is None:
        return _put(session, mq_queue, message, clock, persistent=None)
    with session.beside() as unit:
        msg_id = _put(unit, mq_queue, message, clock, persistent=True)
        moves.write(exchange, unit)
    return msg_id


def _put(
    session: Session,
    mq_queue: str,
    message: MessageFields,
    clock: Timepiece,
    *,
    persistent: bool | None,
) -> bytes:
    """Put an Everyplace message on an MQ queue and return its MsgId.

    Its remaining lifetime by ``clock`` becomes the time to live. ``persistent`` None takes the
    default of the MQ queue. Raises the errors of the put.
    """
    fields = message.fields()
    correl_id = fields.get(MSG_CORREL_ID)
    return session.put(
        mq_queue,
        fields_as_body(message),
        time_to_live_ms=_life_ms(message, clock.now_ms(), session.core.settings.longest_life_ms),
        priority=message.priority,
        persistent=persistent,
        correl_id=_correl_id(correl_id),
        reply_to_q=_reply_to(fields),
        msg_type=MQMT_MQE_FIELDS_FROM_MQE,
    )


def _life_ms(message: MessageFields, now_ms: int, longest_ms: int) -> int | None:
    """Return the remaining lifetime in ms, 1 to ``longest_ms``; None if it never expires (E3)."""
    if message.expire_time is None:
        return None
    left_ms = message.expire_time.at_ms(message.created_ms) - now_ms
    return min(max(left_ms, 1), longest_ms)


def _reply_to(fields: dict[str, TypedField]) -> str:
    """Return the reply-to queue for ``session.put``: ``QUEUE``, ``QUEUE@MANAGER`` or empty."""
    queue, manager = _text(fields, MSG_REPLY_TO_Q), _text(fields, MSG_REPLY_TO_Q_MGR)
    return f"{queue}@{manager}" if queue and manager else queue


def _text(fields: dict[str, TypedField], name: str) -> str:
    """Return a text field, empty if it is missing or no text."""
    value = fields[name].value if name in fields else ""
    return value if isinstance(value, str) else ""


def _correl_id(field: TypedField | None) -> bytes | None:
    """Return a field as a CorrelId of 24 bytes, padded with zeros.

    Returns None for a missing field, one that is not bytes, or a longer one.
    """
    if field is None or not isinstance(field.value, bytes) or len(field.value) > _CORREL_ID_BYTES:
        return None
    return field.value.ljust(_CORREL_ID_BYTES, b"\0")
