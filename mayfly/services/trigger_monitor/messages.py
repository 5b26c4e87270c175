"""A trigger message, read: which queue has work, and which program is to be started for it (T8)."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import TM, TMC2
from mayfly.verbs.messages import Message

_FORMAT = "MQTRIG"


class TriggerMessage(NamedTuple):
    """The fields of an MQTM, texts without padding; ``appl_type`` is an MQAT_*."""

    queue: str
    process: str
    trigger_data: str
    appl_type: int
    appl_id: str
    env_data: str
    user_data: str

    def tmc2(self, manager_name: str) -> bytes:
        """Return the MQTMC2 that a started program gets: 732 bytes, ApplType blank."""
        return TMC2.pack(
            {
                "QName": self.queue,
                "ProcessName": self.process,
                "TriggerData": self.trigger_data,
                "ApplId": self.appl_id,
                "EnvData": self.env_data,
                "UserData": self.user_data,
                "QMgrName": manager_name,
            }
        )


def trigger_message_of(message: Message) -> TriggerMessage:
    """Return what a message on an initiation queue says; raises MQRC_TM_ERROR."""
    descriptor = message.descriptor
    if descriptor.format.strip() != _FORMAT:
        raise mq_error(rc.MQRC_TM_ERROR, f"Format {descriptor.format!r} is not {_FORMAT!r}")
    fields = TM.unpack(message.body, big_endian=is_big_endian(descriptor.encoding))
    appl_type = fields["ApplType"]
    assert isinstance(appl_type, int)
    return TriggerMessage(
        str(fields["QName"]),
        str(fields["ProcessName"]),
        str(fields["TriggerData"]),
        appl_type,
        str(fields["ApplId"]),
        str(fields["EnvData"]),
        str(fields["UserData"]),
    )
