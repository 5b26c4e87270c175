"""A message as a getter or browser sees it."""

from __future__ import annotations

from mayfly.engine.properties.readable import Readable
from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.window import remaining_ms, remaining_tenths
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.runtime.extended import mypyc_attr
from mayfly.store.keys import message_token
from mayfly.store.units import StoredMessage

_ZERO_ID = bytes(24)


@mypyc_attr(allow_interpreted_subclasses=True)
class Message(Readable):
    """One message, seen at one moment; times are epoch ms, ids 24 bytes.

    ``remaining_ms`` and ``remaining_tenths`` are those of the moment when it was got or
    browsed; ``expire_at_ms`` None means that it never expires. ``body`` begins with the MQRFH2 that
    holds the properties, if there are any; ``data`` is the rest.
    """

    __slots__ = ("_row", "body", "queue", "seen_ms")

    def __init__(self, queue: str, row: StoredMessage, seen_ms: int, body: bytes) -> None:
        """Show a stored row."""
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
        """MsgId."""
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
        """When it expires."""
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


def message_of(queue: str, row: StoredMessage, seen_ms: int) -> Message:
    """Return a row as seen at a moment."""
    return Message(queue, row, seen_ms, row.body)


def row_of(message: Message) -> StoredMessage:
    """Return the row that a message shows; its body may be another than the one shown."""
    return message._row


def position_of(message: Message) -> int:
    """Return what tells a message from all others on its queue; MsgIds need not differ."""
    return message._row.k


def token_of(message: Message) -> bytes:
    """Return MsgToken, 16 bytes: it finds this very message as long as it is on its queue."""
    return message_token(message._row.k, message._row.put_ms)
