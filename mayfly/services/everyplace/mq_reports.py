"""Expiration reports of messages that came from MQ and expire on a queue of MQ Everyplace (E19)."""

from __future__ import annotations

from mayfly.engine.face.transit import report_expiration
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.queue_manager import QueueManager
from mayfly.services.everyplace.fields import MSG_CORREL_ID, MessageFields
from mayfly.services.everyplace.mq_body import MQ_DATA, fields_as_body
from mayfly.services.everyplace.rules import QueueEntry, QueueRule
from mayfly.verbs.messages import Message

#: Fields with the descriptor as the sender put it, and with the MsgId that the sender knows.
MQ_DESCRIPTOR, MQ_MSG_ID = "MQ_Descriptor", "MQ_MsgId"


class ReportsToMq(QueueRule):
    """Sends the expiration report that a message from MQ asked for when it expires here.

    Without it nobody is told: Everyplace itself knows rules, no reports.
    """

    def __init__(self, manager: QueueManager) -> None:
        """Put reports on queues of, or by way of, an MQ queue manager."""
        self._manager = manager

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        """Send the report, to the dead-letter queue where it cannot be delivered (R4)."""
        original = _original_of(message)
        if original is not None:
            report_expiration(self._manager.engine, original, None)


def remember_sender(got: Message, message: MessageFields) -> None:
    """Note in a message what a report about it will need, if it asks for one."""
    if is_owed(Cause.EXPIRATION, got.descriptor):
        message.put_array_of_byte(MQ_DESCRIPTOR, pack_descriptor(got.descriptor))
        message.put_array_of_byte(MQ_MSG_ID, got.msg_id)


def _original_of(message: MessageFields) -> Original | None:
    if not message.contains(MQ_DESCRIPTOR):
        return None
    data, correl_id = fields_as_body(message), b""
    if message.contains(MQ_DATA):
        data = message.get_array_of_byte(MQ_DATA)
    if message.contains(MSG_CORREL_ID):
        correl_id = message.get_array_of_byte(MSG_CORREL_ID)
    descriptor = unpack_descriptor(message.get_array_of_byte(MQ_DESCRIPTOR))
    return Original(descriptor, message.get_array_of_byte(MQ_MSG_ID), correl_id, data, 0)
