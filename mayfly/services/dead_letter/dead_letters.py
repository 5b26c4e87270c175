"""Dead letters: a message on a dead-letter queue, its header (MQDLH) and original descriptor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, TypedDict

from mayfly.client.connection import Connection
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Value
from mayfly.mqi.reasons import cause_name
from mayfly.mqi.structures import DLH
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Message

_HEADER_BYTES = DLH.length(1)
_HUNDREDTH_MS = SECOND_MS // 100


class DeadLetter(NamedTuple):
    """A message on a dead-letter queue, the fields of its MQDLH, and its original descriptor."""

    message: Message
    header: dict[str, Value]
    original: Descriptor

    @property
    def reason(self) -> int:
        """The reason in the header: an MQRC_* or MQFB_* code."""
        reason = self.header["Reason"]
        assert isinstance(reason, int)
        return reason

    @property
    def target(self) -> str:
        """The queue that the message was meant for."""
        return str(self.header["DestQName"]).strip()

    @property
    def target_manager(self) -> str:
        """The queue manager that the message was meant for; blank means the one that holds it."""
        return str(self.header["DestQMgrName"]).strip()

    @property
    def data(self) -> bytes:
        """The message data after the header."""
        return self.message.body[_HEADER_BYTES:]

    @property
    def since_ms(self) -> int | None:
        """The epoch ms of the move to the dead-letter queue; None without a valid date."""
        date, time = str(self.header["PutDate"]), str(self.header["PutTime"])
        try:
            seconds = datetime.strptime(date + time[:6], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
            return int(seconds.timestamp()) * SECOND_MS + int(time[6:] or 0) * _HUNDREDTH_MS
        except ValueError:
            return None


def dead_letter_of(message: Message) -> DeadLetter | None:
    """Return a message as a dead letter; None if no valid MQDLH precedes its data.

    The original Format, Encoding and CCSID come from the header. All other fields of the descriptor
    are unchanged, including put date and time.
    """
    if not is_letter(message.descriptor):
        return None
    try:
        return DeadLetter(message, *read_letter(message.descriptor, message.body))
    except MQError:
        return None


def dead_letter_queue(connection: Connection) -> str:
    """Return the DEADQ of a queue manager; raises MQRC_UNKNOWN_OBJECT_NAME if it is blank."""
    [name], _warning = connection.call(ask.Inquire(c.MQHO_NONE, [c.MQCA_DEAD_LETTER_Q_NAME]))
    if not str(name).strip():
        detail = f"DEADQ of {connection.name} is blank and no queue is named"
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, detail)
    return str(name).strip()


class LetterJson(TypedDict):
    """A message on a dead-letter queue, for JSON; header fields are null if it has no header.

    Times are epoch ms; ``expire_at_ms`` and ``remaining_ms`` are null for a message that never
    expires. ``queue`` and ``queue_manager`` are those that the message was meant for.
    """

    msg_id: str
    correl_id: str
    reason: int | None
    reason_name: str | None
    queue: str | None
    queue_manager: str | None
    since_ms: int | None
    age_ms: int | None
    put_ms: int
    expire_at_ms: int | None
    remaining_ms: int | None
    persistent: bool
    format: str | None
    body_bytes: int


def letter_as_json(message: Message, letter: DeadLetter | None) -> LetterJson:
    """Return a message on a dead-letter queue for JSON.

    ``letter`` is its header and original descriptor, or None if it has no MQDLH.
    """
    since_ms = None if letter is None else letter.since_ms
    return {
        "msg_id": message.msg_id.hex(),
        "correl_id": message.correl_id.hex(),
        "reason": None if letter is None else letter.reason,
        "reason_name": None if letter is None else cause_name(letter.reason),
        "queue": None if letter is None else letter.target,
        "queue_manager": None if letter is None else letter.target_manager,
        "since_ms": since_ms,
        "age_ms": None if since_ms is None else max(message.seen_ms - since_ms, 0),
        "put_ms": message.put_ms,
        "expire_at_ms": message.expire_at_ms,
        "remaining_ms": message.remaining_ms,
        "persistent": message.persistent,
        "format": None if letter is None else letter.original.format.strip(),
        "body_bytes": len(message.body if letter is None else letter.data),
    }
