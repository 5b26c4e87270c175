"""The store for delayed messages: release in bulk, due order, ids that contain a key."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import apsw

from mayfly.store.keys import id_hash
from mayfly.store.messages import Messages, limited
from mayfly.store.units import Move, StoredMessage

#: A message leaves the staging queue; the key tells the index value of an id that told the key.
_MOVED = """
INSERT INTO message (k, put_ms, deliver_at_ms, expire_at_ms, msg_hash, correl_hash, backout_count,
    msg_id, correl_id, origin_id, descriptor, body, topic, capped_by, released_by)
SELECT p.new, put_ms, deliver_at_ms, expire_at_ms, coalesce(msg_hash, m.k), correl_hash, 0,
    msg_id, correl_id, shown_id, descriptor, body, topic, capped_by, released_by
FROM (%s) p
CROSS JOIN message m ON m.k = p.old"""
_MOVE_IN = _MOVED % "SELECT CAST(key AS INTEGER) AS old, value AS new FROM json_each(?)"
_MOVE_OUT = "DELETE FROM message WHERE k IN (SELECT CAST(key AS INTEGER) FROM json_each(?))"
#: Of a run: the rows of an array are numbered from 1 on.
_MOVE_RUN_IN = _MOVED % "SELECT value AS old, ?2 + rowid AS new FROM carray(?1)"
_MOVE_RUN_OUT = "DELETE FROM message WHERE k IN carray(?)"
#: So many of a run come and go before the next: the pages that these leave take the next ones, and
#: a transaction of 2,000 writes 318 pages to the log, where it would write 383.
_RUN_PART: Final = 500
#: Of a flood they are all that is there: a delete of a range takes a third of the time.
_COUNT = "SELECT count(*) FROM message WHERE k >= ? AND k <= ?"
_MOVE_OUT_ALL = "DELETE FROM message WHERE k >= ? AND k <= ?"
_DUE = (
    "SELECT k, expire_at_ms, target, target_number, sub_id, topic, descriptor, length(body), "
    "backout_count, ttl_from_release FROM message WHERE k >= ? AND k < ? ORDER BY k"
)
#: One row for all: at each row the interpreter is given up.
_ALIKE = """
SELECT json_group_array(k), max(body_bytes), total(is_other) FROM (
    SELECT k, length(body) AS body_bytes, target IS NOT ?3 OR target_number IS NOT ?4
        OR sub_id IS NOT ?5 OR descriptor <> ?6 OR backout_count <> ?7
        OR ttl_from_release IS NOT ?8 OR coalesce(expire_at_ms <= ?9, FALSE) AS is_other
    FROM message WHERE k >= ?1 AND k < ?2 ORDER BY k LIMIT %d)"""

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


class Alike(NamedTuple):
    """Staged messages that may move as one: the first, the keys of all, the longest data."""

    first: Due
    keys: Sequence[int]
    largest_bytes: int


class DelayedMessages(Messages):
    """The messages of one database with what the staging queue asks of it."""

    def move(self, move: Move) -> None:
        """Give staged messages their keys on the target, by few statements for all."""
        if move.old_keys is not None:
            self._move_run(move, move.old_keys)
            return
        writer = self.writer
        writer.execute(_MOVE_IN, (move.keys,))
        if self._are_alone(move):
            writer.execute(_MOVE_OUT_ALL, (move.first_key, move.last_key))
        else:
            writer.execute(_MOVE_OUT, (move.keys,))

    def _move_run(self, move: Move, old_keys: Sequence[int]) -> None:
        writer, keys, count = self.writer, array("q", old_keys), move.message_count
        are_alone = self._are_alone(move)
        for begin in range(0, count, _RUN_PART):
            end = min(begin + _RUN_PART, count)
            part = apsw.carray(keys, start=begin, stop=end)
            writer.execute(_MOVE_RUN_IN, (part, move.first_new_key + begin - 1))
            assert writer.changes() == end - begin, "a message that was to move is gone"
            if are_alone:
                writer.execute(_MOVE_OUT_ALL, (keys[begin], keys[end - 1]))
            else:
                writer.execute(_MOVE_RUN_OUT, (part,))

    def _are_alone(self, move: Move) -> bool:
        """Return True unless another was put between them since they were looked for."""
        if not move.first_key:
            return False
        between = move.first_key, move.last_key
        return self.writer.execute(_COUNT, between).fetchall() == [(move.message_count,)]

    def due(self, low: int, high: int, limit: int) -> list[Due]:
        """Return what release needs to know of up to ``limit`` staged messages, by key."""
        return [Due._make(row) for row in self.fetch(limited(_DUE, limit), (low, high))]

    def due_alike(self, first: Due, before: int, now_ms: int, limit: int) -> Alike | None:
        """Return up to ``limit`` staged messages from one on; None if it and they are not alike.

        They are alike when they differ in their data, ids and times alone, and none has expired.
        """
        like = (
            first.target,
            first.target_number,
            first.sub_id,
            first.descriptor,
            first.backout_count,
            first.ttl_from_release,
        )
        found = self.fetch(_ALIKE % limit, (first.k, before, *like, now_ms))
        [(keys, largest_bytes, other_count)] = found
        # Those that another transaction has taken meanwhile may have been all there were.
        if largest_bytes is None or other_count:
            return None
        return Alike(first, json.loads(keys), largest_bytes)

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
        rows = self.by_msg_hash(id_hash(msg_id), low, high, limit)
        # Its sender may have given the id to more messages; put again from a copy it is in both.
        if row is not None and row.msg_id == msg_id and all(r.k != key for r in rows):
            rows = sorted([*rows, row], key=attrgetter("k"))[:limit]
        return rows
