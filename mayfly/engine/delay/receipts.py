"""Receipts of delayed messages, and the audit of changes of the schedule."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.lifetime.life import State
from mayfly.verbs.schedule import AuditEntry, Receipt

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
