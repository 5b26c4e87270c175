"""A message on a dead-letter queue, read: its header, and the message as it was before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from mayfly.engine.message import Message
from mayfly.engine.put import PutRequest
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import Value, is_big_endian
from mayfly.mqi.structures import DLH

_FORMAT = "MQDEAD"
_HEADER_BYTES = DLH.length(1)
_HUNDREDTH_MS = SECOND_MS // 100


class DeadLetter(NamedTuple):
    """A message, the fields of the MQDLH before its data, and the descriptor it had without it."""

    message: Message
    header: dict[str, Value]
    original: Descriptor

    @property
    def reason(self) -> int:
        """Why it is here: an MQRC_* or MQFB_*."""
        reason = self.header["Reason"]
        assert isinstance(reason, int)
        return reason

    @property
    def target(self) -> str:
        """The queue it was meant for."""
        return str(self.header["DestQName"]).strip()

    @property
    def target_manager(self) -> str:
        """The queue manager it was meant for; blank is the one it is on."""
        return str(self.header["DestQMgrName"]).strip()

    @property
    def data(self) -> bytes:
        """What stands behind the header."""
        return self.message.body[_HEADER_BYTES:]

    @property
    def since_ms(self) -> int | None:
        """When it became a dead letter, epoch ms; None when the header does not tell."""
        date, time = str(self.header["PutDate"]), str(self.header["PutTime"])
        try:
            seconds = datetime.strptime(date + time[:6], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
            return int(seconds.timestamp()) * SECOND_MS + int(time[6:] or 0) * _HUNDREDTH_MS
        except ValueError:
            return None


def dead_letter_of(message: Message) -> DeadLetter | None:
    """Return a message as a dead letter, None when no MQDLH stands before its data.

    Format, Encoding and CCSID of the original are those of the header (Q1); all else of its
    descriptor is as it was put, also when it was put (Q2).
    """
    descriptor = message.descriptor
    if descriptor.format.strip() != _FORMAT:
        return None
    try:
        header = DLH.unpack(message.body, big_endian=is_big_endian(descriptor.encoding))
    except MQError:
        return None
    encoding, ccsid = header["Encoding"], header["CodedCharSetId"]
    assert isinstance(encoding, int)
    assert isinstance(ccsid, int)
    original = descriptor._replace(
        format=str(header["Format"]), encoding=encoding, coded_char_set_id=ccsid
    )
    return DeadLetter(message, header, original)


def passed_on(letter: DeadLetter, descriptor: Descriptor, now_ms: int) -> PutRequest:
    """Return what puts a letter elsewhere under a descriptor, its life running on (E21)."""
    message, left_ms = letter.message, None
    if message.expire_at_ms is not None:
        # It may end right now: the get that follows finds out. A put takes no life of 0.
        left_ms = min(max(message.expire_at_ms - now_ms, 1), LONGEST_LIFE_MS)
    return PutRequest(
        descriptor._replace(
            put_date=descriptor.put_date or message.put_date,
            put_time=descriptor.put_time or message.put_time,
        ),
        message.msg_id,
        message.correl_id if message.correl_id.strip(b"\0") else b"",
        left_ms,
    )
