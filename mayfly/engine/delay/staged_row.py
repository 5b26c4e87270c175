"""Reads rows of the staging queue: the original message, and the one shown there."""

from __future__ import annotations

from mayfly.mqi.delay_header import HEADER_BYTES
from mayfly.store.units import StoredMessage


def staged_identity(row: StoredMessage) -> tuple[bytes, bytes, None, int]:
    """Return MsgId, CorrelId, None and length in bytes, as the ledger records a staged message.

    The ids are those that applications see; None stands in the place of a further id. The length
    includes the delay header (MQHDDLY).
    """
    assert row.shown_id is not None
    if row.target is None:
        return row.shown_id, row.correl_id, None, len(row.body)
    return row.shown_id, row.msg_id, None, HEADER_BYTES + len(row.body)


def original_row(row: StoredMessage) -> StoredMessage:
    """Return a row of the staging queue with the MsgId that its sender knows (D18)."""
    assert row.shown_id is not None
    return row if row.target is not None else row._replace(msg_id=row.shown_id)
