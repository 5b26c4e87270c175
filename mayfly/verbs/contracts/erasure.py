"""Erasure: the values that it removes from records of ended messages, and its own record.

A record of an ended message (a ledger row) stays with its position, its queue, its times and its
outcome, so counts, balances and proofs are those of before. The columns that say which message it
was, and who put or ended it, become empty.
"""

from __future__ import annotations

from typing import NamedTuple

#: Column of the ledger -> its value in a row that was erased, as SQL of SQLite and DuckDB.
ERASED = {
    "msg_id": "unhex('')",
    "correl_id": "unhex('')",
    "origin_id": "NULL",
    "user_identifier": "''",
    "ended_by": "NULL",
    "ended_program": "NULL",
}
#: Rows of a message: as such, as the one that it answers or reports, and as the one before it.
_ID_COLUMNS = ("msg_id", "correl_id", "origin_id")
_USER_COLUMNS = ("user_identifier", "ended_by")


class Erasure(NamedTuple):
    """The record of an erasure: when, by which user, of how many rows, and why.

    ``selected_by`` is ``id``, ``user`` or ``where``. The id or user itself is not kept.
    """

    at_ms: int
    by: str
    selected_by: str
    reason: str
    row_count: int


def of_id(parameter: str) -> str:
    """Return the SQL condition for ledger rows that have an id as MsgId, CorrelId or origin."""
    return " OR ".join(f"{column} = {parameter}" for column in _ID_COLUMNS)


def of_user(parameter: str) -> str:
    """Return the SQL condition for ledger rows of messages that a user has put or ended."""
    return " OR ".join(f"{column} = {parameter}" for column in _USER_COLUMNS)
