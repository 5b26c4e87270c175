"""Messages, and the results of puts and gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import NamedTuple, Protocol

from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.window import Window, remaining_ms, remaining_tenths
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import DelayHeader, find_delay_header
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Value
from mayfly.runtime.compiling import mypyc_attr
from mayfly.verbs.properties.folders import Parts, Property, parts_of

_ZERO_ID = bytes(24)


@mypyc_attr(allow_interpreted_subclasses=True)
class Readable(ABC):
    """A message whose headers and properties are parsed each time that a program asks for them."""

    __slots__ = ()

    body: bytes

    @property
    @abstractmethod
    def descriptor(self) -> Descriptor:
        """The message descriptor (MQMD), whose Format names the first header of the body."""

    @property
    def delay_header(self) -> DelayHeader | None:
        """The delay header (MQHDDLY) of a message got from the staging queue: target, time and ids.

        None for any other message, and for a header that cannot be read.
        """
        return find_delay_header(self.descriptor.format, self.body)

    @property
    def properties(self) -> dict[str, Value]:
        """The message properties by name; {} without an MQRFH2.

        In a message from the staging queue the MQRFH2 follows the delay header. A property of the
        ``usr`` folder has a plain name, others are prefixed by their folder: ``jms.Dst``. Raises
        MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR, MQRC_RFH_FORMAT_ERROR for a malformed header.
        """
        return {found.name: found.typed.value for found in self._parts().properties}

    @property
    def data(self) -> bytes:
        """The body without a delay header and an MQRFH2 at its start.

        Raises MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR, MQRC_RFH_FORMAT_ERROR for a malformed MQRFH2.
        """
        return self._parts().data

    def _parts(self) -> Parts:
        """Return the properties and the data of the message, without delay header and MQRFH2.

        Raises MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR, MQRC_RFH_FORMAT_ERROR for a malformed MQRFH2.
        """
        header = self.delay_header
        if header is None:
            return parts_of(self.descriptor, self.body)
        original = header.descriptor_of_data(self.descriptor)
        return parts_of(original, self.body[header.length_bytes :])


class StoredRow(Protocol):
    """A message as a store or the network has it: times in ms since 1970, packed descriptor.

    ``k`` is the message's key on its queue. ``deliver_at_ms`` is None without a delay,
    ``correl_id`` empty for 24 zeros, ``topic`` None unless it was published. ``capped_by`` names
    the CAPEXPRY limit that shortened the expiry, None where none is known.
    """

    @property
    def k(self) -> int:
        """The key of the message on its queue."""
        ...

    @property
    def put_ms(self) -> int:
        """The time of the put, ms since 1970."""
        ...

    @property
    def deliver_at_ms(self) -> int | None:
        """The delivery time, ms since 1970; None without a delay."""
        ...

    @property
    def expire_at_ms(self) -> int | None:
        """The deadline, ms since 1970; None if the message never expires."""
        ...

    @property
    def backout_count(self) -> int:
        """How often the message was got and backed out before."""
        ...

    @property
    def msg_id(self) -> bytes:
        """MsgId, 24 bytes."""
        ...

    @property
    def correl_id(self) -> bytes:
        """CorrelId: 24 bytes, or empty for 24 zeros."""
        ...

    @property
    def descriptor(self) -> bytes:
        """The descriptor, packed as by ``mqi.descriptor``."""
        ...

    @property
    def topic(self) -> str | None:
        """The topic string of a published message; None for a message put to a queue."""
        ...

    @property
    def capped_by(self) -> str | None:
        """The CAPEXPRY limit that shortened the expiry, as text; None where none is known."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Message(Readable):
    """One message, as it was at one moment; times are ms since 1970, ids have 24 bytes.

    ``remaining_ms`` and ``remaining_tenths`` are those of the moment when it was got or browsed;
    ``expire_at_ms`` is None if it never expires. ``body`` begins with the MQRFH2 that holds the
    properties, if there are any; ``data`` is the rest.
    """

    __slots__ = ("_row", "body", "queue", "seen_ms")

    def __init__(self, queue: str, row: StoredRow, seen_ms: int, body: bytes) -> None:
        """Combine a stored row with its queue, the time of the get and the body to show.

        ``seen_ms`` is the time of the get, in ms since 1970.
        """
        self.queue = queue
        self.body = body
        self._row = row
        self.seen_ms = seen_ms

    @property
    def descriptor(self) -> Descriptor:
        """The message descriptor (MQMD) as it was put."""
        return unpack_descriptor(self._row.descriptor)

    @property
    def msg_id(self) -> bytes:
        """MsgId, 24 bytes."""
        return self._row.msg_id

    @property
    def correl_id(self) -> bytes:
        """CorrelId, 24 bytes: zeros when the putter gave none."""
        return self._row.correl_id or _ZERO_ID

    @property
    def put_ms(self) -> int:
        """The time of the put, ms since 1970."""
        return self._row.put_ms

    @property
    def deliver_at_ms(self) -> int:
        """The delivery time, ms since 1970; without a delay the time of the put."""
        return self._row.put_ms if self._row.deliver_at_ms is None else self._row.deliver_at_ms

    @property
    def expire_at_ms(self) -> int | None:
        """The deadline, ms since 1970; None if the message never expires."""
        return self._row.expire_at_ms

    @property
    def remaining_ms(self) -> int | None:
        """The time to expiry at the moment of the get, in ms; None if it never expires."""
        return remaining_ms(self._row.expire_at_ms, self.seen_ms)

    @property
    def remaining_tenths(self) -> int:
        """The time to expiry as MQMD.Expiry: tenths of a second rounded up, or MQEI_UNLIMITED.

        The value is that of the moment of the get, not of now.
        """
        return remaining_tenths(self._row.expire_at_ms, self.seen_ms)

    @property
    def backout_count(self) -> int:
        """How often the message was got and backed out before."""
        return self._row.backout_count

    @property
    def priority(self) -> int:
        """MQMD.Priority, 0 to 9."""
        return self.descriptor.priority

    @property
    def topic(self) -> str | None:
        """The topic string of a published message; None for a message put to a queue."""
        return self._row.topic

    @property
    def persistent(self) -> bool:
        """Whether the message survives a restart of the queue manager."""
        return bool(self.descriptor.persistence)

    @property
    def put_date(self) -> str:
        """MQMD.PutDate, ``YYYYMMDD``, UTC: as the putter set it, else of the time of the put."""
        return (self.descriptor.put_date or put_date(self._row.put_ms)).strip()

    @property
    def put_time(self) -> str:
        """MQMD.PutTime, ``HHMMSSTH``, UTC: as the putter set it, else of the time of the put."""
        return (self.descriptor.put_time or put_time(self._row.put_ms)).strip()

    def cut_to(self, length_bytes: int) -> Message:
        """Return a copy of the message with only the first ``length_bytes`` of its body."""
        return Message(self.queue, self._row, self.seen_ms, self.body[:length_bytes])

    def __repr__(self) -> str:
        return (
            f"<Message {self.msg_id.hex()} on {self.queue}, {len(self.body)} bytes, "
            f"remaining {self.remaining_ms} ms>"
        )


def row_of(message: Message) -> StoredRow:
    """Return the stored row of a message; the message may show another body than was stored."""
    return message._row


def key_of(message: Message) -> int:
    """Return the key of a message, a number unique on its queue, where MsgIds may repeat."""
    return message._row.k


def token_of(message: Message) -> bytes:
    """Return the MsgToken, 16 bytes, which identifies the message while it is on its queue."""
    return message_token(message._row.k, message._row.put_ms)


def message_token(key: int, put_ms: int) -> bytes:
    """Return the MsgToken of a key and put time: 16 bytes that no other message ever has.

    The put time is part of the token because the key of a staging queue may be used again.
    """
    return key.to_bytes(8, "big", signed=True) + put_ms.to_bytes(8, "big", signed=True)


class PutResult(NamedTuple):
    """The outcome of a put, with the completed descriptor; ``warning`` is 0 or a reason code.

    ``queue`` and ``manager`` are the resolved names; the queue may be remote.
    """

    msg_id: bytes
    correl_id: bytes
    descriptor: Descriptor
    window: Window
    warning: int
    queue: str
    manager: str


class HandleContent(NamedTuple):
    """The content of a getter's message handle: the properties, and the message as it was put."""

    properties: list[Property]
    original: Message


class GetResult:
    """The result of a get: a message and a warning.

    ``warning`` is 0, MQRC_TRUNCATED_MSG_ACCEPTED, or MQRC_TRUNCATED_MSG_FAILED, which leaves the
    message on its queue. So does a ``failure``: its properties cannot be returned as requested.
    ``data_length`` is the length of the data in bytes before truncation. It is no NamedTuple
    because making one takes three times as long in compiled code.
    """

    __slots__ = ("content", "data_length", "failure", "message", "warning")

    def __init__(
        self,
        message: Message,
        warning: int,
        data_length: int,
        content: HandleContent | None = None,
        failure: MQError | None = None,
    ) -> None:
        """Take the message, which may be truncated, and the full length of its data in bytes.

        ``warning`` is 0 or a reason code. ``content`` is for a message handle, None without one.
        ``failure`` is the error that left the message on its queue, None without one.
        """
        self.message, self.warning, self.data_length = message, warning, data_length
        self.content, self.failure = content, failure

    def with_warning(self, warning: int) -> GetResult:
        """Return a copy of the result with another warning (0 or a reason code)."""
        return GetResult(self.message, warning, self.data_length, self.content, self.failure)

    def __repr__(self) -> str:
        return f"<GetResult {self.message!r}, warning {self.warning}>"

    @property
    def stays(self) -> bool:
        """Whether the message was left on its queue: too long for the buffer, or a failure."""
        return self.failure is not None or self.warning == rc.MQRC_TRUNCATED_MSG_FAILED


class Settlement(Enum):
    """The ways to settle a delivery, a message that is held for a program."""

    #: It is used: its life ends as ``got``, and its COD report is sent.
    TAKEN = "taken"
    #: It goes back to its place as if nobody had got it.
    RETURNED = "returned"
    #: It goes back to its place, its backout count one higher.
    BACKED_OUT = "backed-out"
    #: It goes to the dead-letter queue behind an MQDLH with a reason; its deadline stays.
    DEAD_LETTERED = "dead-lettered"
    #: No client of its kind can read it: it goes unchanged to BOQNAME of its queue, or if that
    #: fails to the dead-letter queue. Only within a process: the network protocol lacks it.
    SET_ASIDE = "set-aside"


class Delivery(NamedTuple):
    """A message held for a program until it is settled, and the result of its get.

    ``number`` is 0 for a browsed message, and for one got in the unit of work. ``handle`` is the
    open queue that it was got from.
    """

    number: int
    result: GetResult
    handle: int
