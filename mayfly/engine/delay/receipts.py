"""Receipts of delayed messages, and the audit of changes of the schedule."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.lifetime.life import State


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
_OF_OUTCOME: dict[str, Receipt] = {
    State.RELEASED: Receipt.ALREADY_RELEASED,
    State.CANCELLED: Receipt.CANCELLED,
    State.GOT: Receipt.CANCELLED,
    State.EXPIRED: Receipt.EXPIRED,
    State.DEAD_LETTERED: Receipt.DEAD_LETTERED,
    State.DISCARDED: Receipt.DISCARDED,
    State.CLEARED: Receipt.CLEARED,
    State.LOST_AT_RESTART: Receipt.LOST_AT_RESTART,
}


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


_COLUMNS = ", ".join(AuditEntry._fields)
AUDIT = f"INSERT INTO schedule_audit ({_COLUMNS}) VALUES ({', '.join('?' * 7)})"
#: Entries kept; older ones go as new ones come.
_KEPT = 100_000
TRIM_AUDIT = (
    "DELETE FROM schedule_audit WHERE id <= (SELECT max(id) FROM schedule_audit) - ?",
    (_KEPT,),
)


def receipt_from_ledger(core: Core, msg_id: bytes) -> tuple[Receipt, str | None]:
    """Return how the wait of a message ended that is not delayed any more, and its sender.

    The sender is None when the ledger holds no such message; the answer is as good as its
    retention. Call it without the lock.
    """
    found = core.store.ledger.outcome_of_delayed(msg_id)
    if found is None:
        return Receipt.UNKNOWN, None
    outcome, sender = found
    # An outcome of a later version is one of those that nothing is known of.
    return _OF_OUTCOME.get(outcome, Receipt.UNKNOWN), sender


def read_audit(core: Core, limit: int, before: int) -> list[tuple[int, AuditEntry]]:
    """Return the newest entries with numbers below one, each with its number."""
    rows = core.store.ledger.audit(_COLUMNS, limit, before)
    return [(number, AuditEntry._make(values)) for number, *values in rows]
