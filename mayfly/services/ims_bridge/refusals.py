"""Dead letters of refused requests, and of replies that no queue takes."""

from __future__ import annotations

import logging

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly.ims_bridge")
#: The sense code that says: look at the reason code beside it.
_SEE_REASON_CODE = 0x1A
_LARGEST_SENSE_CODE = c.MQFB_IMS_LAST - c.MQFB_IMS_ERROR
_LARGEST_REASON_CODE = c.MQFB_IMS_NACK_1A_REASON_LAST - c.MQFB_IMS_NACK_1A_REASON_FIRST


class ImsNak(Exception):
    """A transaction raises it to refuse a request for good, as IMS does by a negative answer.

    ``feedback`` is 300 + ``sense_code`` (1 to 99), or with sense code 0x1A 600 + ``reason_code`` (0
    to 255), the code of its own that this sense code has. Raises ValueError.
    """

    def __init__(self, sense_code: int, reason_code: int = 0) -> None:
        """Take the codes that IMS would give."""
        if not 1 <= sense_code <= _LARGEST_SENSE_CODE:
            raise ValueError(f"sense_code {sense_code!r} is not within 1 .. {_LARGEST_SENSE_CODE}")
        if not 0 <= reason_code <= _LARGEST_REASON_CODE:
            raise ValueError(f"reason_code {reason_code!r} is not within 0 .. 255")
        super().__init__(sense_code, reason_code)
        self.feedback = c.MQFB_IMS_ERROR + sense_code
        if sense_code == _SEE_REASON_CODE:
            self.feedback = c.MQFB_IMS_NACK_1A_REASON_FIRST + reason_code


def refuse(connection: Connection, message: Message, feedback: int) -> None:
    """Let a request that was got in the unit of work end on the dead-letter queue, in that unit.

    Its life goes on there (E21); with MQRO_DISCARD_MSG it is only gone. Either way the exception
    report it asked for is sent. Raises the reason why it cannot go there.
    """
    if message.descriptor.report & c.MQRO_DISCARD_MSG:
        _LOG.warning("%s is discarded, Feedback %d", message, feedback)
    else:
        connection.onward.dead_letter(message, feedback)
    connection.onward.report_exception(message, feedback)
