"""A request from a message on the bridge's queue: its data, and its MQIIH if it has one."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi import structures
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Value, is_big_endian
from mayfly.properties.folders import parts_of
from mayfly.pymqi.headers import IIH
from mayfly.verbs.messages import Message

IMS_FORMAT = c.MQFMT_IMS.decode().rstrip()
#: The initial values of an MQIIH.
NO_HEADER = structures.IIH.initial()


class Request(bytes):
    """The data of a request behind all headers; ``message`` is the whole as it was got."""

    message: Message


class Asked(NamedTuple):
    """A request as the bridge reads it; ``iih`` is None without an MQIIH, ``header`` its fields."""

    data: Request
    iih: IIH | None
    header: dict[str, Value]
    format_name: str


def asked_by(message: Message) -> Asked:
    """Read a request: an MQIIH when the format says MQIMS, then the data.

    Message properties before it are passed over. Raises MQRC_IIH_ERROR for a StrucId, Version or
    StrucLength that is not of an MQIIH, or data that is shorter; MQRC_RFH_ERROR and the like.
    """
    parts = parts_of(message.descriptor, message.body)
    body, format_name = parts.data, parts.data_format.strip()
    iih, header = None, NO_HEADER
    if format_name == IMS_FORMAT:
        header = structures.IIH.unpack(body, big_endian=is_big_endian(parts.data_encoding))
        length_bytes = structures.IIH.length(c.MQIIH_VERSION_1)
        if header["StrucLength"] != length_bytes:
            raise mq_error(rc.MQRC_IIH_ERROR, f"MQIIH StrucLength {header['StrucLength']!r}")
        iih = IIH()
        iih.unpack(body, parts.data_encoding)
        body = body[length_bytes:]
    data = Request(body)
    data.message = message
    return Asked(data, iih, header, format_name)


def feedback_of(error: MQError) -> int:
    """Return what the dead-letter header and reports say of a request that cannot be read."""
    return c.MQFB_IIH_ERROR if error.reason == rc.MQRC_IIH_ERROR else error.reason
