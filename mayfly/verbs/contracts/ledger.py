"""The ledger, the list of all ended messages, on the wire and in the lake: requests and columns.

A row is the record of one ended message on one queue (kind 0) or a balance of a queue (kind 1),
with its queue manager. ``instance_id`` distinguishes two stores of the same name; (instance_id,
position) is unique for ever. Columns and outcomes may be added; docs/LEDGER.md describes each.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.lifetime.life import LEDGER_COLUMNS
from mayfly.verbs.contracts.bulk import Column, Kind, column_names, not_null

VERSION = 2
#: The verb, in a ticket, of reading the ledger; it answers with rows.
LEDGER_VERB = "ledger"
#: The action that answers with a LedgerInfo.
INFO_ACTION = "ledger-info"
VERBS = (LEDGER_VERB, INFO_ACTION)

COLUMNS: tuple[Column, ...] = (
    not_null("manager", Kind.TEXT),
    not_null("instance_id", Kind.TEXT),
    not_null("position", Kind.INT64),
    not_null("kind", Kind.INT8),
    not_null("queue", Kind.TEXT),
    Column("msg_id", Kind.BYTES),
    Column("correl_id", Kind.BYTES),
    Column("origin_id", Kind.BYTES),
    Column("put_ms", Kind.INT64),
    Column("deliver_at_ms", Kind.INT64),
    Column("expire_at_ms", Kind.INT64),
    not_null("ended_ms", Kind.INT64),
    Column("outcome", Kind.TEXT),
    Column("reason", Kind.INT32),
    Column("priority", Kind.INT32),
    Column("persistent", Kind.INT32),
    Column("body_bytes", Kind.INT64),
    Column("report", Kind.INT32),
    Column("reply_to_q", Kind.TEXT),
    Column("backout_count", Kind.INT32),
    Column("user_identifier", Kind.TEXT),
    Column("capped_by", Kind.TEXT),
    Column("detected_by", Kind.TEXT),
    Column("ended_by", Kind.TEXT),
    Column("ended_program", Kind.TEXT),
    Column("puts", Kind.INT64),
    Column("present", Kind.INT64),
    Column("ended", Kind.COUNTS),
)
assert column_names(COLUMNS)[2:] == LEDGER_COLUMNS, "what travels and the ledger have parted"


class LedgerRequest(NamedTuple):
    """Request for the ledger rows at the positions after ``after`` up to ``until``.

    ``instance_id`` is the store that the positions belong to; None accepts any store.
    """

    after: int
    until: int
    instance_id: str | None = None


class LedgerInfo(NamedTuple):
    """The queue manager and the position range of a ledger; empty when first = last + 1."""

    manager: str
    instance_id: str
    first_position: int
    last_position: int


class PositionTrimmed(Exception):
    """Raised when the requested ledger rows were already removed by retention."""

    def __init__(self, after_position: int, first_position: int) -> None:
        """Build the text; ``first_position`` is the oldest position that the ledger still has."""
        super().__init__(
            f"ledger position {after_position + 1} is trimmed; the first one held is "
            f"{first_position}: start from there, or raise ledger.retention_count"
        )
        self.after_position = after_position
        self.first_position = first_position
