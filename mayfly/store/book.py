"""Keeps the books of the store: ledger rows, totals by queue, balance rows and high-water marks.

Everything here changes in the transaction of the messages it speaks of. Positions are given by the
leader in commit order and are dense.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import apsw

from mayfly.lifetime.life import (
    KIND_BALANCE,
    KIND_LIFE,
    OUTCOMES,
    Balance,
    LifeRecord,
    State,
)
from mayfly.store.claims import REMOVE
from mayfly.store.units import OUTCOME_INDEX, Delta, EndedRows, Move, Unit

INSERT_LIFE = (
    f"INSERT INTO ledger (position, kind, {', '.join(LifeRecord._fields)}) "
    f"VALUES (?, {KIND_LIFE}, {', '.join('?' * len(LifeRecord._fields))})"
)
#: The lives on staging of what has been moved just now, read off the messages at their new keys.
_INSERT_MOVED = f"""
INSERT INTO ledger (position, kind, {", ".join(LifeRecord._fields)})
SELECT ? + row_number() OVER (), {KIND_LIFE}, ?, m.origin_id, m.msg_id, NULL, m.put_ms,
    m.deliver_at_ms, m.expire_at_ms, ?, ?, 0, ?, 1, length(m.body) + ?, ?, ?, 0, ?
FROM (SELECT value AS new FROM json_each(?)) p CROSS JOIN message m ON m.k = p.new"""
_ENDED = f"""
INSERT INTO ledger (position, kind, {", ".join(LifeRecord._fields)})
SELECT ?1 + c.r, {KIND_LIFE}, ?2, c.msg_id, c.correl_id, c.origin_id, c.put_ms,
    coalesce(c.deliver_at_ms, c.put_ms), c.expire_at_ms, ?3, ?4, 0, %s, %s, length(c.body), %s, %s,
    c.backout_count, %s
FROM claimed c"""
#: The lives of claimed rows of one descriptor, and of any: a join costs four times as much a row.
_INSERT_ENDED = (
    f"{_ENDED % ('?8', '?9', '?10', '?11', '?12')} WHERE c.r > ?5 AND c.r <= ?6 "
    "AND c.descriptor = ?7"
)
_INSERT_ENDED_MIXED = f"""
{_ENDED % ("d.priority", "d.persistent", "d.report", "d.reply_to_q", "d.user_identifier")}
CROSS JOIN (
    SELECT unhex(value ->> 0) AS descriptor, value ->> 1 AS priority, value ->> 2 AS persistent,
        value ->> 3 AS report, value ->> 4 AS reply_to_q, value ->> 5 AS user_identifier
    FROM json_each(?7)) d ON d.descriptor = c.descriptor
WHERE c.r > ?5 AND c.r <= ?6"""
_FEW_DESCRIPTORS = 16
_INSERT_BALANCE = (
    "INSERT INTO ledger (position, kind, queue, ended_ms, puts, present, ended) "
    f"VALUES (?, {KIND_BALANCE}, ?, ?, ?, ?, ?)"
)
_WRITE_TOTALS = "INSERT OR REPLACE INTO counter VALUES (?, ?, ?, ?, ?, ?)"
_WRITE_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
#: Lives on one queue after which a balance row is due, so that a reader never has far to the next.
LIVES_BEFORE_BALANCE = 4_096
#: How far the persisted clock may lag; a step back after a crash is bounded by it.
_HIGH_WATER_STEP_MS = 1_000


class Totals:
    """Totals of one queue since its creation, as persisted in ``counter``."""

    __slots__ = ("ended", "present", "present_volatile", "puts", "queue", "unbalanced")

    def __init__(
        self, queue: str, puts: int, present: int, present_volatile: int, ended: list[int]
    ) -> None:
        """Hold the totals of a queue."""
        self.queue = queue
        self.puts = puts
        self.present = present
        self.present_volatile = present_volatile
        self.ended = ended
        self.unbalanced = 0

    def plus(self, delta: Delta) -> Totals:
        """Return the totals after a change."""
        ended = list(self.ended)
        for outcome, count in delta.ended.items():
            ended[outcome] += count
        result = Totals(
            self.queue,
            self.puts + delta.puts,
            self.present + delta.present,
            self.present_volatile + delta.present_volatile,
            ended,
        )
        result.unbalanced = self.unbalanced + 1 + sum(delta.ended.values())
        return result


class Book:
    """Ledger, totals and marks of one store; used by the group-commit leader only."""

    def __init__(
        self, writer: apsw.Connection, now_ms: Callable[[], int], *, high_water_ms: int
    ) -> None:
        """Read what the store holds."""
        self._writer = writer
        self._now_ms = now_ms
        self.high_water_ms = high_water_ms
        last_position: Any = writer.execute(
            "SELECT max(coalesce((SELECT max(position) FROM ledger), 0),"
            " coalesce((SELECT value FROM meta WHERE name = 'last_position'), 0))"
        ).fetchall()[0][0]
        self.last_position = int(last_position)
        self.totals: dict[int, Totals] = {
            number: Totals(queue, puts, present, volatile, json.loads(ended))
            for number, queue, puts, present, volatile, ended in writer.execute(
                "SELECT * FROM counter"
            )
        }
        #: Queues come and go while the leader writes; it guards which totals there are.
        self._lock = threading.Lock()
        self._position = self.last_position
        self._changed: dict[int, Totals] = {}
        self._balance_all = False

    def open_queue(self, number: int, queue: str) -> None:
        """Begin the totals of a queue, where there are none.

        It owes a balance row at once: a reader of the ledger then sees that a queue of a name it
        knows begins anew.
        """
        known = self.totals.get(number)
        if known is not None:
            # The number may have been another queue's, for which messages were staged.
            known.queue = queue
        else:
            totals = Totals(queue, 0, 0, 0, [0] * len(OUTCOMES))
            totals.unbalanced = 1
            with self._lock:
                self.totals[number] = totals

    def forget_queue(self, number: int) -> None:
        """Forget a deleted queue, whose number may be given again."""
        with self._lock:
            self.totals.pop(number, None)

    def recovery(self) -> Unit:
        """Return the unit that accounts for non-persistent messages a crash has taken.

        They are counted as lost at restart; which ones they were nobody knows any more.
        """
        unit = Unit()
        for number, totals in self.totals.items():
            if totals.present_volatile:
                delta = unit.delta(number)
                delta.present = -totals.present_volatile
                delta.present_volatile = -totals.present_volatile
                if number >= 0:
                    delta.ended[OUTCOME_INDEX[State.LOST_AT_RESTART]] = totals.present_volatile
        return unit

    def forget_strangers(self, numbers: set[int]) -> None:
        """Forget totals of queues that no longer exist: temporary ones of an earlier run."""
        for number, totals in list(self.totals.items()):
            # What is staged for a deleted queue is still counted.
            if abs(number) in numbers or (number < 0 and totals.present):
                continue
            del self.totals[number]
            self._writer.execute("DELETE FROM counter WHERE queue_id = ?", (number,))

    def has_unbalanced(self) -> bool:
        """Tell whether a queue has changed since its last balance row."""
        return any(t.unbalanced for number, t in self._all_totals() if number >= 0)

    def write(self, unit: Unit) -> None:
        """Write the lives and totals of a unit."""
        self._balance_all |= unit.wants_balances
        if unit.lives:
            position = self._position
            rows = [(position + n, *life) for n, life in enumerate(unit.lives, 1)]
            self._writer.executemany(INSERT_LIFE, rows)
            self._position = position + len(rows)
        for move in unit.moves:
            self._write_moved(move)
        for ended in unit.ended_rows:
            self._write_ended(ended)
        for number, delta in unit.deltas.items():
            totals = self._changed.get(number) or self.totals[number]
            self._changed[number] = totals.plus(delta)

    def finish(self) -> None:
        """Write changed totals, balance rows that are due, and the clock's high-water mark."""
        if self._balance_all:
            for number, totals in self._all_totals():
                if totals.unbalanced and number >= 0:
                    self._changed.setdefault(number, totals.plus(Delta()))
        for number, totals in self._changed.items():
            # Negative numbers count staged messages by target; they are part of no queue's proof.
            if number >= 0 and (self._balance_all or totals.unbalanced >= LIVES_BEFORE_BALANCE):
                self._write_balance(totals)
            self._writer.execute(
                _WRITE_TOTALS,
                (
                    number,
                    totals.queue,
                    totals.puts,
                    totals.present,
                    totals.present_volatile,
                    json.dumps(totals.ended),
                ),
            )
        now_ms = self._now_ms()
        if now_ms >= self.high_water_ms + _HIGH_WATER_STEP_MS:
            self._writer.execute(_WRITE_META, ("high_water_ms", now_ms))
            self.high_water_ms = now_ms

    def accept(self) -> None:
        """The transaction is durable."""
        with self._lock:
            for number, totals in self._changed.items():
                # A queue deleted meanwhile stays forgotten: its number may be given again.
                if number in self.totals:
                    self.totals[number] = totals
        self._changed = {}
        self.last_position = self._position
        self._balance_all = False

    def mark(self) -> object:
        """Return the place reached in this transaction."""
        return self._position, dict(self._changed)

    def back_to(self, mark: object) -> None:
        """Forget what was written since a mark, or since the last transaction for None."""
        if isinstance(mark, tuple):
            self._position, self._changed = mark
        else:
            self._position, self._changed = self.last_position, {}
            self._balance_all = False

    def balances(self) -> list[Balance]:
        """Return where every queue stands at ``last_position``."""
        now_ms = self._now_ms()
        return [
            Balance(t.queue, now_ms, t.puts, t.present, tuple(t.ended))
            for number, t in self._all_totals()
            if number >= 0
        ]

    def _write_moved(self, move: Move) -> None:
        self._writer.execute(
            _INSERT_MOVED,
            (
                self._position,
                move.queue,
                move.ended_ms,
                move.outcome,
                move.priority,
                move.header_bytes,
                move.report,
                move.reply_to_q,
                move.user_identifier,
                move.keys,
            ),
        )
        self._position += move.message_count

    def _write_ended(self, ended: EndedRows) -> None:
        """Write the lives of claimed rows, then remove the rows, off which they are read."""
        after, until, queue, ended_ms, outcome, descriptors = ended
        # The rows have no gaps, nor have positions.
        common = (self._position - after, queue, ended_ms, outcome, after, until)
        if len(descriptors) <= _FEW_DESCRIPTORS:
            for descriptor in descriptors:
                self._writer.execute(_INSERT_ENDED, (*common, *descriptor))
        else:
            mixed = [(packed.hex(), *said) for packed, *said in descriptors]
            self._writer.execute(_INSERT_ENDED_MIXED, (*common, json.dumps(mixed)))
        self._position += until - after
        self._writer.execute(REMOVE, (after, until))

    def _write_balance(self, totals: Totals) -> None:
        self._position += 1
        ended = json.dumps(totals.ended)
        self._writer.execute(
            _INSERT_BALANCE,
            (self._position, totals.queue, self._now_ms(), totals.puts, totals.present, ended),
        )
        totals.unbalanced = 0

    def _all_totals(self) -> list[tuple[int, Totals]]:
        with self._lock:
            return list(self.totals.items())
