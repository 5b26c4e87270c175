"""The schedule of delayed messages: filters, entries, receipts of changes, and the audit log."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.errors import mq_error
from mayfly.verbs.contracts.wire import BOUNDED, Int64, Text

#: The highest position of the schedule, and the highest number of a change.
LAST_POSITION = 2**63 - 2


class ScheduleFilter(NamedTuple):
    """A filter of delayed messages; a field that is None or empty matches all.

    ``queue`` is the target as the sender or the subscription named it. ``sender`` is
    MQMD.UserIdentifier. ``properties`` are pairs of the name of a message property and its value as
    text. The delivery time lies in the half-open range from ``due_from_ms`` to ``due_before_ms``,
    ms since 1970.
    """

    queue: Text | None = None
    sender: Text | None = None
    properties: Annotated[tuple[tuple[Text, Text], ...], BOUNDED] = ()
    due_from_ms: Int64 | None = None
    due_before_ms: Int64 | None = None


EVERYTHING = ScheduleFilter()


def filter_of(where: ScheduleFilter | str) -> ScheduleFilter:
    """Return a filter; the name of a queue becomes the filter of messages for that queue."""
    return ScheduleFilter(where) if isinstance(where, str) else where


class Scheduled(NamedTuple):
    """One delayed message as its sender knows it; ids have 24 bytes, times are ms since 1970.

    ``position`` is its place in delivery order, for paging; it changes with the delivery time.
    ``expire_at_ms`` is None if the message never expires.
    """

    position: int
    msg_id: bytes
    correl_id: bytes
    target: str
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    priority: int
    persistent: bool
    body_bytes: int
    user_identifier: str


class Receipt(StrEnum):
    """The outcome of a request about a delayed message, at the moment of the request.

    When several messages have the same MsgId, one receipt is for all that were changed: it equals
    the member, and its ``message_count`` is their number.
    """

    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"
    #: Released to its target by this call.
    RELEASED = "released"
    ALREADY_RELEASED = "already-released"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead-lettered"
    DISCARDED = "discarded"
    CLEARED = "cleared"
    LOST_AT_RESTART = "lost-at-restart"
    #: An open unit of work cancels or reschedules it: the end of that decides.
    LOCKED = "locked"
    #: Nothing was ever delayed under this id, or the ledger has forgotten it (retention). Messages
    #: put without a delay have no index in the ledger: ``QueueManager.why`` searches for them.
    UNKNOWN = "unknown"

    @property
    def message_count(self) -> int:
        """The number of messages that the call has changed.

        It is also 1 for a receipt that says why nothing was changed.
        """
        return getattr(self, _COUNT, 1)

    def of(self, message_count: int) -> Receipt:
        """Return this receipt with ``message_count`` set to the number of changed messages.

        For one message the result is the enum member itself. For others it equals the member.
        """
        member = Receipt(self.value)
        if message_count == 1:
            return member
        made = str.__new__(Receipt, member.value)
        made._name_, made._value_ = member.name, member.value
        setattr(made, _COUNT, message_count)
        return made


#: The attribute of a receipt for several messages; in the class it would become a member.
_COUNT = "_message_count"


class AuditEntry(NamedTuple):
    """One change of the schedule: its user, its request and its outcome.

    ``at_ms`` is ms since 1970. ``msg_id`` is empty when a filter selected the messages;
    ``message_count`` is how many were changed.
    """

    at_ms: int
    user: str
    action: str
    msg_id: bytes
    detail: str
    receipt: str
    message_count: int


def check_page(limit: int, after: int | None = None) -> None:
    """Raise MQRC_OPTIONS_ERROR unless ``limit`` is at least 1, and ``after`` None or a position.

    A position is an int from -LAST_POSITION to LAST_POSITION.
    """
    _check_whole("limit", limit, 1)
    if after is not None:
        _check_whole("after", after, -LAST_POSITION)


def _check_whole(name: str, value: int, least: int) -> None:
    """Raise MQRC_OPTIONS_ERROR unless ``value`` is an int from ``least`` to LAST_POSITION."""
    if type(value) is not int or not least <= value <= LAST_POSITION:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{name} {value!r} is no number from {least} on")


# Keys of delayed messages: a put with a key is the only one that waits under it (D34)
#
# The key becomes the MsgId, by a hash of queue and key, so the schedule finds the message by it.


#: Put options, beside those of the MQI: no other delayed message for the queue may have the MsgId;
#: one that does is replaced. No MQLONG has these bits.
UNIQUE: Final = 1 << 40
REPLACES: Final = 1 << 41
#: What happens when a message waits under the key, and the put options that say so.
IF_EXISTS: Final = {"refuse": UNIQUE, "replace": UNIQUE | REPLACES}
_PREFIX: Final = b"KEY "


def key_id(queue: str, key: str) -> bytes:
    """Return the MsgId, 24 bytes, of a message that is put to ``queue`` with ``key``."""
    text = f"{queue}\0{key}".encode()
    return _PREFIX + blake2b(text, digest_size=MQ_MSG_ID_LENGTH - len(_PREFIX)).digest()


def check_key(key: object, if_exists: str, msg_id: object) -> None:
    """Raise MQRC_OPTIONS_ERROR for a wrong key of a put; None, no key, is right.

    Wrong are an empty key, one that is no text, one beside a ``msg_id``, and an ``if_exists`` that
    is neither ``refuse`` nor ``replace``.
    """
    if if_exists not in IF_EXISTS:
        words = " or ".join(IF_EXISTS)
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"if_exists {if_exists!r} is not {words}")
    if key is not None and not (isinstance(key, str) and key):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"key {key!r} is no text with a character")
    if key is not None and msg_id:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"key {key!r}: the message has a msg_id already")
