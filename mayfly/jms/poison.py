"""Messages that were backed out too often: they go to BOQNAME, else to the dead-letter queue."""

from __future__ import annotations

import logging

from mayfly.connection import Connection as QueueConnection
from mayfly.connection import Message
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

_LOG = logging.getLogger("mayfly.jms")


def is_poisonous(mq: QueueConnection, handle: int, message: Message) -> bool:
    """Tell whether a message was backed out as often as its queue allows; BOTHRESH(0) is ever."""
    backout_count = message.backout_count
    # Most were never backed out: their queue need not be asked.
    return backout_count > 0 and 0 < mq.objects.backout_rule(handle).threshold <= backout_count


def move_away(mq: QueueConnection, handle: int, message: Message) -> None:
    """Put a message got in the unit of work elsewhere, in the same unit, its life running on.

    To BOQNAME as it is; where that fails to the dead-letter queue with an MQDLH, unless its report
    options say MQRO_DISCARD_MSG: then it is only gone. Either way it owes an exception report, in
    the same unit. Raises MQRC_BACKOUT_THRESHOLD_REACHED when nobody takes it, or the report of a
    persistent one (as D22 has it); the unit of work is to be backed out then.
    """
    descriptor = message.descriptor
    try:
        mq.onward.forward(message, mq.objects.backout_rule(handle).queue_name)
    except MQError as error:
        if descriptor.report & c.MQRO_DISCARD_MSG:
            _LOG.warning("%s on %s is discarded: %s", message.msg_id.hex(), message.queue, error)
        else:
            _dead_letter(mq, message)
        is_sent = mq.onward.report_exception(message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        if not is_sent and descriptor.persistence == c.MQPER_PERSISTENT:
            said = f"nobody takes the exception report of {message.msg_id.hex()}"
            raise mq_error(rc.MQRC_BACKOUT_THRESHOLD_REACHED, said) from error


def _dead_letter(mq: QueueConnection, message: Message) -> None:
    try:
        mq.onward.dead_letter(message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    except MQError as error:
        raise mq_error(
            rc.MQRC_BACKOUT_THRESHOLD_REACHED,
            f"{message.msg_id.hex()} on {message.queue} was backed out {message.backout_count} "
            f"times and can be put neither on BOQNAME nor on the dead-letter queue: {error}",
        ) from error
