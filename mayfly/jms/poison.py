"""Messages that were backed out too often: they go to BOQNAME, else to the dead-letter queue."""

from __future__ import annotations

import logging

from mayfly.client.connection import Connection as QueueConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Message, token_of

_LOG = logging.getLogger("mayfly.jms")


def is_poisonous(mq: QueueConnection, handle: int, message: Message) -> bool:
    """Return True if a message was backed out BOTHRESH times; BOTHRESH(0) sets no limit."""
    backout_count = message.backout_count
    # Most were never backed out: their queue need not be asked.
    return backout_count > 0 and 0 < mq.call(ask.AskBackoutRule(handle)).threshold <= backout_count


def move_away(mq: QueueConnection, handle: int, message: Message) -> None:
    """Move a message that the unit of work has got to another queue, in the same unit of work.

    Its life goes on. It goes to BOQNAME as it is. Where that fails, it goes to the dead-letter
    queue with an MQDLH, or is discarded when its report options contain MQRO_DISCARD_MSG. In both
    of these cases it owes an exception report, in the same unit of work.
    Raises MQRC_BACKOUT_THRESHOLD_REACHED when no queue takes the message, or the report of a
    persistent one (D22). The caller then backs the unit of work out.
    """
    descriptor = message.descriptor
    try:
        mq.call(
            ask.Forward(
                message.queue, token_of(message), mq.call(ask.AskBackoutRule(handle)).queue_name
            )
        )
    except MQError as error:
        if descriptor.report & c.MQRO_DISCARD_MSG:
            _LOG.warning("%s on %s is discarded: %s", message.msg_id.hex(), message.queue, error)
        else:
            _dead_letter(mq, message)
        is_sent = mq.call(
            ask.ReportException(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        )
        if not is_sent and descriptor.persistence == c.MQPER_PERSISTENT:
            said = f"nobody takes the exception report of {message.msg_id.hex()}"
            raise mq_error(rc.MQRC_BACKOUT_THRESHOLD_REACHED, said) from error


def _dead_letter(mq: QueueConnection, message: Message) -> None:
    try:
        mq.call(ask.DeadLetter(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED))
    except MQError as error:
        raise mq_error(
            rc.MQRC_BACKOUT_THRESHOLD_REACHED,
            f"{message.msg_id.hex()} on {message.queue} was backed out {message.backout_count} "
            f"times and can be put neither on BOQNAME nor on the dead-letter queue: {error}",
        ) from error
