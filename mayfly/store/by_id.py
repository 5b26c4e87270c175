"""Looks for messages and lives by MsgId or CorrelId on all queues, without reading whole bodies."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from mayfly.store.claimed import ROW_BITS, ClaimedMessages
from mayfly.store.keys import STAGING_LOW, id_hash, key_of_delayed_id, key_told_by, queue_number_of
from mayfly.store.messages import Messages, limited
from mayfly.store.units import StoredMessage

#: Enough for the headers before the data: an MQDLH or MQXQH, and what may stand behind them.
HEAD_BYTES = 4_096
#: SQLite takes the beginning of no bytes for null.
_SHORT = f"ifnull(substr(body, 1, {HEAD_BYTES}), x'')"
_COLUMNS = ", ".join(_SHORT if name == "body" else name for name in StoredMessage._fields)
_BY_MSG_ID = f"""
SELECT length(body), {_COLUMNS} FROM message WHERE msg_hash = ?1 AND msg_id = ?2
UNION ALL
SELECT body_bytes, {_COLUMNS} FROM whole_message
WHERE content = (SELECT id FROM content WHERE msg_hash = ?1) AND msg_id = ?2"""
_BY_CORREL_ID = (
    f"SELECT body_bytes, {_COLUMNS} FROM whole_message WHERE correl_hash = ? AND correl_id = ?"
)
_BY_TOLD_KEY = (
    f"SELECT body_bytes, {_COLUMNS} FROM whole_message "
    "WHERE k IN carray(?) AND msg_hash IS NULL AND msg_id = ?"
)
#: A message in transit is indexed by its own ids; the CorrelId that its sender knows stands in the
#: MQXQH. So many are looked at on a transmission queue, the oldest ones: they take some 5 ms.
_TRANSIT_ROWS = 2_000
_IN_TRANSIT = f"""
SELECT body_bytes, {_COLUMNS} FROM (
    SELECT * FROM whole_message WHERE k >= ? AND k < ? ORDER BY k LIMIT {_TRANSIT_ROWS})
WHERE substr(body, 1, 4) = CAST('XQH ' AS BLOB) AND substr(body, 177, 24) = ?"""
#: Claimed messages have no index by id: they are as many as the open claims of pipelines hold.
_CLAIMED = f"""
SELECT c.name, c.queue, length(body), k, put_ms, deliver_at_ms, expire_at_ms, msg_hash, correl_hash,
    backout_count, msg_id, correl_id, origin_id, descriptor, {_SHORT}, capped_by
FROM claimed JOIN consumer c ON r >= c.id << {ROW_BITS} AND r < (c.id + 1) << {ROW_BITS}
WHERE msg_id = ?1 OR correl_id = ?1"""


class Outlined(NamedTuple):
    """A message with the first HEAD_BYTES of its data, and the length of all of them."""

    body_bytes: int
    row: StoredMessage


class Claimed(NamedTuple):
    """A message that a consumer has claimed from a queue."""

    consumer: str
    queue: str
    message: Outlined


def by_msg_id(
    messages: Messages, msg_id: bytes, low: int, high: int, limit: int
) -> list[StoredMessage]:
    """Return up to ``limit`` messages of a key range of one queue with a MsgId, by key.

    Others may be among them: those of the index have the same hash.
    """
    found = messages.by_msg_hash(id_hash(msg_id), low, high, limit)
    key = key_told_by(msg_id, queue_number_of(low))
    if key is not None and low <= key < high:
        told = messages.row(key)
        if told is not None and told.msg_hash is None and told.msg_id == msg_id:
            found = sorted([*found, told], key=attrgetter("k"))[:limit]
    return found


def with_id(
    messages: Messages, numbers: Iterable[int], identifier: bytes, limit: int
) -> list[Outlined]:
    """Return messages with an id of 24 bytes as MsgId, then those with it as CorrelId.

    ``limit`` bounds each kind; ``numbers`` are those of the queues that have messages. A delayed
    message is found by the MsgId that its sender knows.
    """
    found = _fetched(messages, _BY_MSG_ID, (id_hash(identifier), identifier), limit)
    key = key_of_delayed_id(identifier)
    if key is not None and STAGING_LOW <= key < 0:
        keys = [key]
    else:
        told = [key_told_by(identifier, number) for number in numbers]
        keys = [key for key in told if key is not None]
    if keys:
        # Without a place in the index: the id tells the key.
        found += _fetched(
            messages, _BY_TOLD_KEY, (apsw.carray(array("q", keys)), identifier), limit
        )
    known = {each.row.k for each in found}
    correlated = _fetched(messages, _BY_CORREL_ID, (id_hash(identifier), identifier), limit)
    return found + [each for each in correlated if each.row.k not in known]


def in_transit_with_correl_id(
    messages: Messages, keys: tuple[int, int], identifier: bytes, limit: int
) -> list[Outlined]:
    """Return messages of a transmission queue whose sender gave them a CorrelId of 24 bytes.

    The oldest 2,000 messages of the queue, whose half-open range of keys is given, are looked at.
    """
    return _fetched(messages, _IN_TRANSIT, (*keys, identifier), limit)


def claimed_with_id(claimed: ClaimedMessages, identifier: bytes, limit: int) -> list[Claimed]:
    """Return claimed messages with an id as MsgId or CorrelId; reads all that is claimed."""
    rows = claimed.fetch(limited(_CLAIMED, limit), (identifier,))
    return [
        Claimed(
            consumer, queue, Outlined(body_bytes, StoredMessage(*row)._replace(capped_by=capped_by))
        )
        for consumer, queue, body_bytes, *row, capped_by in rows
    ]


def _fetched(messages: Messages, sql: str, bindings: tuple[Any, ...], limit: int) -> list[Outlined]:
    return [
        Outlined(body_bytes, StoredMessage(*row))
        for body_bytes, *row in messages.fetch(limited(sql, limit), bindings)
    ]
