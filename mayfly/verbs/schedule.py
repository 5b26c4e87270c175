"""The schedule of delayed messages: filters, entries, receipts of changes, and their audit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.contracts.wire import AT_MAX, Text, Whole

#: The last position of the schedule, and the number of the last change of it.
LAST_POSITION = 2**63 - 2


class ScheduleFilter(NamedTuple):
    """A filter of delayed messages; a field that is None or empty matches all.

    ``queue`` is the target as the sender, or the subscription, named it, ``sender``
    MQMD.UserIdentifier, ``properties`` pairs of a message property and its value as text; the
    delivery time lies in the half-open range from ``due_from_ms`` to ``due_before_ms``.
    """

    queue: Text | None = None
    sender: Text | None = None
    properties: Annotated[tuple[tuple[Text, Text], ...], AT_MAX] = ()
    due_from_ms: Whole | None = None
    due_before_ms: Whole | None = None


EVERYTHING = ScheduleFilter()


class Scheduled(NamedTuple):
    """One delayed message, as its sender knows it; ids 24 bytes, times epoch ms.

    ``position`` is its place in due order, for paging; it changes with the delivery time.
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
    """The outcome of a request about a delayed message; true at the moment it is given.

    A MsgId that senders have given to several messages has one receipt for all that were changed:
    it equals the member, and its ``message_count`` says how many they were.
    """

    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"
    #: On its way to the target by the call that asks.
    RELEASED = "released"
    ALREADY_RELEASED = "already-released"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead-lettered"
    DISCARDED = "discarded"
    CLEARED = "cleared"
    LOST_AT_RESTART = "lost-at-restart"
    #: An open unit of work has it, to cancel or reschedule it; its end decides.
    LOCKED = "locked"
    #: Nothing was ever delayed under this id, or the ledger has forgotten it (retention). Messages
    #: put without a delay have no index in the ledger: ``QueueManager.why`` searches for them.
    UNKNOWN = "unknown"

    @property
    def message_count(self) -> int:
        """How many messages it is about: 1 unless the call has changed more."""
        return getattr(self, _COUNT, 1)

    def of(self, message_count: int) -> Receipt:
        """Return this receipt for so many messages; for one it is the member itself."""
        member = Receipt(self.value)
        if message_count == 1:
            return member
        made = str.__new__(Receipt, member.value)
        made._name_, made._value_ = member.name, member.value
        setattr(made, _COUNT, message_count)
        return made


#: The attribute of a receipt for several messages. Inside of the class it would be a member.
_COUNT = "_message_count"


class AuditEntry(NamedTuple):
    """One change of the schedule: its user, its request and its outcome.

    ``msg_id`` is empty when a filter chose the messages; ``message_count`` is how many changed.
    """

    at_ms: int
    user: str
    action: str
    msg_id: bytes
    detail: str
    receipt: str
    message_count: int


def check_page(limit: int, after: int | None = None) -> None:
    """Raise MQRC_OPTIONS_ERROR unless a limit and a position can be those of a page of a list."""
    _check_whole("limit", limit, 1)
    if after is not None:
        _check_whole("after", after, -LAST_POSITION)


def _check_whole(name: str, value: int, least: int) -> None:
    if type(value) is not int or not least <= value <= LAST_POSITION:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{name} {value!r} is no number from {least} on")
