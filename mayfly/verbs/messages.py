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
from mayfly.properties.folders import Parts, Property, parts_of
from mayfly.runtime.compiling import mypyc_attr

_ZERO_ID = bytes(24)


@mypyc_attr(allow_interpreted_subclasses=True)
class Readable(ABC):
    """A message whose properties can be read; nothing is read before it is asked for."""

    __slots__ = ()

    body: bytes

    @property
    @abstractmethod
    def descriptor(self) -> Descriptor:
        """The descriptor, which says what the body begins with."""

    @property
    def delay_header(self) -> DelayHeader | None:
        """Where a message taken from the staging queue goes, when, and with which ids (D2, D3).

        None for a message that waits for nothing, or with a header that cannot be read.
        """
        return find_delay_header(self.descriptor.format, self.body)

    @property
    def properties(self) -> dict[str, Value]:
        """The message properties by name; {} without an MQRFH2.

        Those of a message from the staging queue stand behind its delay header.

        A property of the ``usr`` folder has no folder in its name, others have: ``jms.Dst``. Raises
        MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR, MQRC_RFH_FORMAT_ERROR for what cannot be read.
        """
        return {found.name: found.typed.value for found in self._parts().properties}

    @property
    def data(self) -> bytes:
        """The body without delay header and MQRFH2 at its start; raises as ``properties``."""
        return self._parts().data

    def _parts(self) -> Parts:
        header = self.delay_header
        if header is None:
            return parts_of(self.descriptor, self.body)
        original = header.descriptor_of_data(self.descriptor)
        return parts_of(original, self.body[header.length_bytes :])


class Row(Protocol):
    """A message as a store or the wire has it: times are epoch ms, ``k`` is its key there.

    ``deliver_at_ms`` is None without a delay, ``correl_id`` empty for 24 zeros, ``topic`` None for
    what was put to a queue, ``capped_by`` None where no cap is known. The descriptor is packed
    (``mqi.descriptor``).
    """

    @property
    def k(self) -> int: ...
    @property
    def put_ms(self) -> int: ...
    @property
    def deliver_at_ms(self) -> int | None: ...
    @property
    def expire_at_ms(self) -> int | None: ...
    @property
    def backout_count(self) -> int: ...
    @property
    def msg_id(self) -> bytes: ...
    @property
    def correl_id(self) -> bytes: ...
    @property
    def descriptor(self) -> bytes: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def capped_by(self) -> str | None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Message(Readable):
    """One message, seen at one moment; times are epoch ms, ids 24 bytes.

    ``remaining_ms`` and ``remaining_tenths`` are those of the moment when it was got or
    browsed; ``expire_at_ms`` None means that it never expires. ``body`` begins with the MQRFH2 that
    holds the properties, if there are any; ``data`` is the rest.
    """

    __slots__ = ("_row", "body", "queue", "seen_ms")

    def __init__(self, queue: str, row: Row, seen_ms: int, body: bytes) -> None:
        self.queue = queue
        self.body = body
        self._row = row
        self.seen_ms = seen_ms

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor with everything that stays as it was put."""
        return unpack_descriptor(self._row.descriptor)

    @property
    def msg_id(self) -> bytes:
        return self._row.msg_id

    @property
    def correl_id(self) -> bytes:
        """CorrelId; 24 zeros when the putter gave none."""
        return self._row.correl_id or _ZERO_ID

    @property
    def put_ms(self) -> int:
        """When it was put; the lifetime runs from here."""
        return self._row.put_ms

    @property
    def deliver_at_ms(self) -> int:
        """When it could first be got; the moment of the put without a delay."""
        return self._row.put_ms if self._row.deliver_at_ms is None else self._row.deliver_at_ms

    @property
    def expire_at_ms(self) -> int | None:
        return self._row.expire_at_ms

    @property
    def remaining_ms(self) -> int | None:
        """The rest of its life at that moment, None for unlimited (E5)."""
        return remaining_ms(self._row.expire_at_ms, self.seen_ms)

    @property
    def remaining_tenths(self) -> int:
        """The same as MQMD.Expiry: tenths rounded up, or MQEI_UNLIMITED (E4, E5)."""
        return remaining_tenths(self._row.expire_at_ms, self.seen_ms)

    @property
    def backout_count(self) -> int:
        """How often it was got and backed out before."""
        return self._row.backout_count

    @property
    def priority(self) -> int:
        """The priority it was put with."""
        return self.descriptor.priority

    @property
    def topic(self) -> str | None:
        """The topic string it was published to; None for what was put to a queue."""
        return self._row.topic

    @property
    def persistent(self) -> bool:
        """Whether it survives a restart."""
        return bool(self.descriptor.persistence)

    @property
    def put_date(self) -> str:
        """MQMD.PutDate, ``YYYYMMDD``."""
        return (self.descriptor.put_date or put_date(self._row.put_ms)).strip()

    @property
    def put_time(self) -> str:
        """MQMD.PutTime, ``HHMMSSTH``."""
        return (self.descriptor.put_time or put_time(self._row.put_ms)).strip()

    def cut_to(self, length_bytes: int) -> Message:
        """Return the same message with only the first bytes of its body."""
        return Message(self.queue, self._row, self.seen_ms, self.body[:length_bytes])

    def __repr__(self) -> str:
        return (
            f"<Message {self.msg_id.hex()} on {self.queue}, {len(self.body)} bytes, "
            f"remaining {self.remaining_ms} ms>"
        )


def row_of(message: Message) -> Row:
    """Return the row that a message shows; its body may be another than the one shown."""
    return message._row


def position_of(message: Message) -> int:
    """Return what tells a message from all others on its queue; MsgIds need not differ."""
    return message._row.k


def token_of(message: Message) -> bytes:
    """Return MsgToken, 16 bytes: it finds this very message as long as it is on its queue."""
    return message_token(message._row.k, message._row.put_ms)


def message_token(key: int, put_ms: int) -> bytes:
    """Return the MsgToken of a message: 16 bytes, which no other message will ever have.

    The moment of its put is in it because a staging key may be used again.
    """
    return key.to_bytes(8, "big", signed=True) + put_ms.to_bytes(8, "big", signed=True)


class PutResult(NamedTuple):
    """The outcome of a put: the descriptor with everything filled in; warning is 0 or a reason.

    ``queue`` and ``manager`` are those the name has led to, maybe elsewhere.
    """

    msg_id: bytes
    correl_id: bytes
    descriptor: Descriptor
    window: Window
    warning: int
    queue: str
    manager: str


class Handed(NamedTuple):
    """The content of a getter's message handle: the properties, and the message as it was put."""

    properties: list[Property]
    original: Message


class GetResult:
    """A message and a warning: 0, MQRC_TRUNCATED_MSG_ACCEPTED, or _FAILED (it stays there).

    It stays there also with a ``failure``: its properties cannot be returned as asked for. No named
    tuple, which takes three times as long to make in compiled code.
    """

    __slots__ = ("data_length", "failure", "handed", "message", "warning")

    def __init__(
        self,
        message: Message,
        warning: int,
        data_length: int,
        handed: Handed | None = None,
        failure: MQError | None = None,
    ) -> None:
        """Return a message with the length of all its data, though it may be cut."""
        self.message, self.warning, self.data_length = message, warning, data_length
        self.handed, self.failure = handed, failure

    def with_warning(self, warning: int) -> GetResult:
        """Return the same with another warning."""
        return GetResult(self.message, warning, self.data_length, self.handed, self.failure)

    def __repr__(self) -> str:
        return f"<GetResult {self.message!r}, warning {self.warning}>"

    @property
    def stays(self) -> bool:
        """Whether the message is not taken."""
        return self.failure is not None or self.warning == rc.MQRC_TRUNCATED_MSG_FAILED


class Settlement(Enum):
    """The settlement of a delivery."""

    #: It is used: its life ends as ``got``, and its COD report is sent.
    TAKEN = "taken"
    #: It goes back to its place as if nobody had got it.
    RETURNED = "returned"
    #: It goes back to its place, its backout count one higher.
    BACKED_OUT = "backed-out"
    #: It goes to the dead-letter queue behind an MQDLH with a reason, its life running on.
    DEAD_LETTERED = "dead-lettered"
    #: No client of its kind can have it: it goes to BOQNAME of its queue as it is. Where that fails
    #: it is dead-lettered. In this process alone: the network protocol does not know it.
    SET_ASIDE = "set-aside"


class Delivery(NamedTuple):
    """A message that is held, and how a get saw it.

    The number is 0 for one that stays on its queue, or has gone into the unit of work.

    ``handle`` is the open queue that it was got from.
    """

    number: int
    result: GetResult
    handle: int
