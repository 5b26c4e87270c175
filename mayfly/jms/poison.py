"""Messages that were backed out too often: they go to BOQNAME, else to the dead-letter queue."""

from __future__ import annotations

import logging

from mayfly.engine import (
    Handle,
    Manager,
    Message,
    Session,
    forward,
    put_dead_letter,
    report_exception,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

_LOG = logging.getLogger("mayfly.jms")


def is_poisonous(handle: Handle, message: Message) -> bool:
    """Tell whether a message was backed out as often as its queue allows; BOTHRESH(0) is ever."""
    threshold = handle.queue.definition.bothresh
    return 0 < threshold <= message.backout_count


def move_away(manager: Manager, session: Session, handle: Handle, message: Message) -> None:
    """Put a message got in the unit of work elsewhere, in the same unit, its life running on.

    To BOQNAME as it is; where that fails to the dead-letter queue with an MQDLH, unless its report
    options say MQRO_DISCARD_MSG: then it is only gone. Either way it owes an exception report, in
    the same unit. Raises MQRC_BACKOUT_THRESHOLD_REACHED when nobody takes it, or the report of a
    persistent one (as D22 has it); the unit of work is to be backed out then.
    """
    queue, descriptor = handle.queue, message.descriptor
    try:
        forward(manager, session, queue.definition.boqname, message)
    except MQError as error:
        if descriptor.report & c.MQRO_DISCARD_MSG:
            _LOG.warning("%s on %s is discarded: %s", message.msg_id.hex(), queue.name, error)
        else:
            _dead_letter(manager, session, message)
        is_sent = report_exception(manager, session, message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        if not is_sent and descriptor.persistence == c.MQPER_PERSISTENT:
            said = f"nobody takes the exception report of {message.msg_id.hex()}"
            raise mq_error(rc.MQRC_BACKOUT_THRESHOLD_REACHED, said) from error


def _dead_letter(manager: Manager, session: Session, message: Message) -> None:
    try:
        put_dead_letter(manager, session, message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    except MQError as error:
        raise mq_error(
            rc.MQRC_BACKOUT_THRESHOLD_REACHED,
            f"{message.msg_id.hex()} on {message.queue} was backed out {message.backout_count} "
            f"times and can be put neither on BOQNAME nor on the dead-letter queue: {error}",
        ) from error
