"""The store for delayed messages: release in bulk, due order, ids that contain a key."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from mayfly.store.keys import id_hash
from mayfly.store.messages import Messages, limited
from mayfly.store.units import Move, StoredMessage

#: A message leaves the staging queue; the key tells the index value of an id that told the key.
_MOVE_IN = """
INSERT INTO message (k, put_ms, deliver_at_ms, expire_at_ms, msg_hash, correl_hash, backout_count,
    msg_id, correl_id, origin_id, descriptor, body, topic, capped_by, released_by)
SELECT p.new, put_ms, deliver_at_ms, expire_at_ms, coalesce(msg_hash, m.k), correl_hash, 0,
    msg_id, correl_id, shown_id, descriptor, body, topic, capped_by, released_by
FROM (SELECT CAST(key AS INTEGER) AS old, value AS new FROM json_each(?)) p
CROSS JOIN message m ON m.k = p.old"""
_MOVE_OUT = "DELETE FROM message WHERE k IN (SELECT CAST(key AS INTEGER) FROM json_each(?))"
#: Of a flood they are all that is there: a delete of a range takes a third of the time.
_COUNT = "SELECT count(*) FROM message WHERE k >= ? AND k <= ?"
_MOVE_OUT_ALL = "DELETE FROM message WHERE k >= ? AND k <= ?"
_DUE = (
    "SELECT k, expire_at_ms, target, target_number, sub_id, topic, descriptor, length(body), "
    "backout_count, ttl_from_release FROM message WHERE k >= ? AND k < ? ORDER BY k"
)

#: Claimed messages may have a deadline; no index tells.
_HAS_TIMES = """
SELECT EXISTS (SELECT 1 FROM message WHERE expire_at_ms IS NOT NULL)
    OR EXISTS (SELECT 1 FROM message WHERE k < 0) OR EXISTS (SELECT 1 FROM claimed)"""


class Due(NamedTuple):
    """A staged message without its data, which a release in bulk never reads."""

    k: int
    expire_at_ms: int | None
    target: str | None
    target_number: int | None
    sub_id: bytes | None
    topic: str | None
    descriptor: bytes
    body_bytes: int
    backout_count: int
    ttl_from_release: int | None


class DelayedMessages(Messages):
    """The messages of one database with what the staging queue asks of it."""

    def move(self, move: Move) -> None:
        """Give staged messages their keys on the target, in one statement for all."""
        writer, between = self.writer, (move.first_key, move.last_key)
        writer.execute(_MOVE_IN, (move.keys,))
        # Another may have been put between them since they were looked for.
        if move.first_key and writer.execute(_COUNT, between).fetchall() == [(move.message_count,)]:
            writer.execute(_MOVE_OUT_ALL, between)
        else:
            writer.execute(_MOVE_OUT, (move.keys,))

    def due(self, low: int, high: int, limit: int) -> list[Due]:
        """Return what release needs to know of up to ``limit`` staged messages, by key."""
        return [Due._make(row) for row in self.fetch(limited(_DUE, limit), (low, high))]

    def has_times(self) -> bool:
        """Return True if any message may have a deadline, or waits for its delivery time."""
        return bool(self.fetch(_HAS_TIMES, ())[0][0])

    def by_delayed_id(
        self, msg_id: bytes, key: int, within: tuple[int, int], limit: int
    ) -> list[StoredMessage]:
        """Return staged messages of a MsgId that tells a key: that one and those at other keys.

        ``within`` is the half-open range of keys looked at.
        """
        low, high = within
        # The key is read first: a message that another transaction moves away meanwhile is then
        # found by the index.
        row = self.row(key) if low <= key < high else None
        rows = self.by_msg_id(id_hash(msg_id), low, high, limit)
        # Its sender may have given the id to more messages; put again from a copy it is in both.
        if row is not None and row.msg_id == msg_id and all(r.k != key for r in rows):
            rows = sorted([*rows, row], key=attrgetter("k"))[:limit]
        return rows
