"""The delay header MQHDDLY before the data of a delayed message, as programs see it.

The staging queue shows a delayed message with Format MQHDDLY and this header (rule D2). The layout
is ``structures.DDH``.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import bytes_in, int_in
from mayfly.mqi.structures import DDH, DDH_FORMAT

#: Where delayed messages wait until their delivery time.
STAGING_QUEUE = "SYSTEM.DDELAY.LOCAL.QUEUE"
FORMAT = DDH_FORMAT.decode().rstrip()
HEADER_BYTES = DDH.length(1)


class DelayHeader(NamedTuple):
    """Target and delivery time of a delayed message, and the fields that it had when it was put.

    ``deliver_at_ms`` is epoch ms. ``msg_id`` and ``correl_id`` have 24 bytes; zeros mean none.
    Encoding, character set and format describe the data, which begins at offset ``length_bytes``.
    """

    target_queue: str
    target_manager: str
    deliver_at_ms: int
    msg_id: bytes
    correl_id: bytes
    encoding: int
    coded_char_set_id: int
    format: str
    length_bytes: int

    def descriptor_of_data(self, descriptor: Descriptor) -> Descriptor:
        """Return ``descriptor`` with the sender's Format, Encoding and CodedCharSetId.

        On the staging queue, ``descriptor`` describes this header instead of the data.
        """
        return descriptor._replace(
            format=self.format,
            encoding=self.encoding,
            coded_char_set_id=self.coded_char_set_id,
        )


def read_delay_header(body: bytes) -> DelayHeader:
    """Read the MQHDDLY at the start of a body; raises MQRC_HEADER_ERROR when damaged (P12).

    Its numbers are little-endian, whatever Encoding the message has.
    """
    header = DDH.unpack(body)
    length_bytes = int_in(header, "StrucLength")
    if not HEADER_BYTES <= length_bytes <= len(body):
        text = f"StrucLength {length_bytes} is not within {HEADER_BYTES} .. {len(body)}"
        raise mq_error(rc.MQRC_HEADER_ERROR, text)
    return DelayHeader(
        str(header["TargetQName"]),
        str(header["TargetQMgrName"]),
        int_in(header, "DueTime"),
        bytes_in(header, "OriginalMsgId"),
        bytes_in(header, "OriginalCorrelId"),
        int_in(header, "Encoding"),
        int_in(header, "CodedCharSetId"),
        str(header["Format"]),
        length_bytes,
    )


def find_delay_header(format_name: str, body: bytes) -> DelayHeader | None:
    """Read the MQHDDLY of a message whose Format is ``format_name``.

    Returns None for another Format or a damaged header.
    """
    if format_name.rstrip() != FORMAT:
        return None
    try:
        return read_delay_header(body)
    except MQError:
        return None
