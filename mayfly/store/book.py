"""Keeps the books of the store: ledger rows, totals by queue, balance rows and high-water marks.

Everything here changes in the transaction of the messages it speaks of. Positions are given by the
leader in commit order and are dense.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from typing import Any

import apsw

from mayfly.lifetime.life import (
    KIND_BALANCE,
    KIND_LIFE,
    Balance,
    LifeRecord,
    State,
)
from mayfly.lifetime.times import STORED_TIME_STEP_MS
from mayfly.runtime import Runtime
from mayfly.store.claimed import REMOVE
from mayfly.store.contents import Contents
from mayfly.store.many_rows import insert_rows
from mayfly.store.totals import LAST_POSITION, Totals, TotalsTable
from mayfly.store.units import EndedMessages, EndedRows, Move, Unit
from mayfly.verbs.contracts.outcomes import pack_counts

INSERT_LIFE = (
    f"INSERT INTO ledger (position, kind, {', '.join(LifeRecord._fields)}) "
    f"VALUES (?, {KIND_LIFE}, {', '.join('?' * len(LifeRecord._fields))})"
)
#: The lives on staging of what has been moved just now, read off the messages at their new keys.
_MOVED = f"""
INSERT INTO ledger (position, kind, {", ".join(LifeRecord._fields)})
SELECT ?1 + %s, {KIND_LIFE}, ?2, m.origin_id, m.msg_id, NULL, m.put_ms,
    m.deliver_at_ms, m.expire_at_ms, ?3, ?4, 0, ?5, 1, length(m.body) + ?6, ?7, ?8, 0, ?9,
    m.capped_by, NULL, m.released_by, NULL
FROM %s"""
_INSERT_MOVED = _MOVED % (
    "row_number() OVER ()",
    "(SELECT value AS new FROM json_each(?10)) p CROSS JOIN message m ON m.k = p.new",
)
#: Of consecutive keys, which are the positions but for where they begin.
_INSERT_MOVED_RUN = _MOVED % (
    "m.k - ?10 + 1",
    "message m WHERE m.k >= ?10 AND m.k < ?11 ORDER BY m.k",
)


def _together(table: str, body_bytes: str) -> tuple[str, str]:
    """Return statements for lives that end together, read off rows: of any keys, and of a run."""
    insert = f"""
INSERT INTO ledger (position, kind, {", ".join(LifeRecord._fields)})
SELECT ?1 + %s, {KIND_LIFE}, ?2, m.msg_id, m.correl_id, m.origin_id, m.put_ms,
    coalesce(m.deliver_at_ms, m.put_ms), m.expire_at_ms, ?3, ?4, 0, ?5, 1, {body_bytes}, ?6, ?7,
    m.backout_count, ?8, m.capped_by, ?9, ?10, ?11
FROM %s"""
    return (
        insert % ("c.rowid", f"carray(?12) c CROSS JOIN {table} m ON m.k = c.value"),
        insert % ("m.k - ?12 + 1", f"{table} m WHERE m.k >= ?12 AND m.k <= ?13 ORDER BY m.k"),
    )


#: The lives of messages of one descriptor that end together; without contents the table is enough.
_INSERT_TOGETHER = _together("message", "length(m.body)")
_INSERT_TOGETHER_WHOLE = _together("whole_message", "m.body_bytes")
_ENDED = f"""
INSERT INTO ledger (position, kind, {", ".join(LifeRecord._fields)})
SELECT ?1 + c.r, {KIND_LIFE}, ?2, c.msg_id, c.correl_id, c.origin_id, c.put_ms,
    coalesce(c.deliver_at_ms, c.put_ms), c.expire_at_ms, ?3, ?4, 0, %s, %s, length(c.body), %s, %s,
    c.backout_count, %s, c.capped_by, NULL, NULL, ?7
FROM claimed c"""
#: The lives of claimed rows of one descriptor, and of any: a join costs four times as much a row.
_INSERT_ENDED = (
    f"{_ENDED % ('?9', '?10', '?11', '?12', '?13')} WHERE c.r > ?5 AND c.r <= ?6 "
    "AND c.descriptor = ?8"
)
_INSERT_ENDED_MIXED = f"""
{_ENDED % ("d.priority", "d.persistent", "d.report", "d.reply_to_q", "d.user_identifier")}
CROSS JOIN (
    SELECT unhex(value ->> 0) AS descriptor, value ->> 1 AS priority, value ->> 2 AS persistent,
        value ->> 3 AS report, value ->> 4 AS reply_to_q, value ->> 5 AS user_identifier
    FROM json_each(?8)) d ON d.descriptor = c.descriptor
WHERE c.r > ?5 AND c.r <= ?6"""
_FEW_DESCRIPTORS = 16
_INSERT_BALANCE = (
    "INSERT INTO ledger (position, kind, queue, ended_ms, puts, present, ended) "
    f"VALUES (?, {KIND_BALANCE}, ?, ?, ?, ?, ?)"
)
_WRITE_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
#: Lives on one queue after which a balance row is due, so that a reader never has far to the next.
LIVES_BEFORE_BALANCE = 4_096


class Book:
    """Ledger, totals and marks of one store; used by the group-commit leader only."""

    def __init__(
        self,
        writer: apsw.Connection,
        contents: Contents,
        now_ms: Callable[[], int],
        runtime: Runtime,
        *,
        high_water_ms: int,
    ) -> None:
        """Read what the store holds."""
        self._writer, self._contents = writer, contents
        self._now_ms = now_ms
        #: The newest time that is durable, and that of the transaction under way.
        self.high_water_ms = self._written_ms = high_water_ms
        last_position: Any = writer.execute(LAST_POSITION).fetchall()[0][0]
        self.last_position = int(last_position)
        #: By queue number; negative numbers count staged messages by target.
        self.totals = TotalsTable(writer, self.last_position, runtime.lock("totals"))
        self._position = self.last_position
        self._balance_all = self._notes_time = False

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
                    delta.ended[State.LOST_AT_RESTART.value] = totals.present_volatile
        return unit

    def has_unbalanced(self) -> bool:
        """Return True if a queue has changed since its last balance row."""
        return bool(self.totals.owing())

    def write_lives(self, unit: Unit) -> None:
        """Write the lives of a unit, before its messages are deleted, off which some are read."""
        position = self._position
        rows: list[tuple[Any, ...]] = []
        for lives in unit.lives:
            if isinstance(lives, EndedMessages):
                if rows:
                    insert_rows(self._writer, INSERT_LIFE, rows)
                    rows = []
                self._write_together(lives, position)
                position += len(lives.keys)
            else:
                position += 1
                # Compiled, a star would make a list first.
                rows.append((position,) + lives)  # noqa: RUF005  # see above
        if rows:
            insert_rows(self._writer, INSERT_LIFE, rows)
        self._position = position

    def write(self, unit: Unit) -> None:
        """Write the totals of a unit, and the lives of what it moves or has claimed."""
        self._balance_all |= unit.wants_balances
        self._notes_time |= unit.notes_time
        for move in unit.moves:
            self._write_moved(move)
        for ended in unit.ended_rows:
            self._write_ended(ended)
        self.totals.change(unit)

    def finish(self) -> None:
        """Write changed totals, balance rows that are due, and the clock's high-water mark."""
        for number, totals in self.totals.changed(unbalanced=self._balance_all):
            # Negative numbers count staged messages by target; they are part of no queue's proof.
            if number >= 0 and (self._balance_all or totals.unbalanced >= LIVES_BEFORE_BALANCE):
                self._write_balance(totals)
        self.totals.save(self._position)
        now_ms = self._now_ms()
        if self._notes_time or now_ms >= self.high_water_ms + STORED_TIME_STEP_MS:
            self._writer.execute(_WRITE_META, ("high_water_ms", now_ms))
            self._written_ms = now_ms

    def accept(self) -> None:
        """The transaction is durable."""
        self.totals.accept(self._position)
        self.last_position = self._position
        self.high_water_ms = self._written_ms
        self._balance_all = self._notes_time = False

    def mark(self) -> tuple[int, dict[int, Totals]]:
        """Return the place reached in this transaction."""
        return self._position, self.totals.mark()

    def back_to(self, mark: tuple[int, dict[int, Totals]] | None) -> None:
        """Forget what was written since a mark, or since the last transaction for None."""
        if mark is None:
            self._position, self._written_ms = self.last_position, self.high_water_ms
            self._balance_all = self._notes_time = False
            self.totals.back_to(None)
        else:
            self._position, totals = mark
            self.totals.back_to(totals)

    def balances(self) -> list[Balance]:
        """Return where every queue stands at ``last_position``."""
        now_ms = self._now_ms()
        return [
            Balance(t.queue, now_ms, t.puts, t.present, dict(t.ended))
            for number, t in self.totals.items()
            if number >= 0
        ]

    def _write_together(self, ended: EndedMessages, position: int) -> None:
        common: list[Any]
        keys, *common = ended
        first, last = keys[0], keys[-1]
        writer = self._writer
        shares = self._contents.are_shared
        of_keys, of_run = _INSERT_TOGETHER_WHOLE if shares else _INSERT_TOGETHER
        if last - first == len(keys) - 1 and keys == [*range(first, last + 1)]:
            writer.execute(of_run, (position, *common, first, last))
        else:
            writer.execute(of_keys, (position, *common, apsw.carray(array("q", keys))))
        assert writer.changes() == len(keys), "a message whose life ends is gone"

    def _write_moved(self, move: Move) -> None:
        common = (
            self._position,
            move.queue,
            move.ended_ms,
            move.outcome,
            move.priority,
            move.header_bytes,
            move.report,
            move.reply_to_q,
            move.user_identifier,
        )
        if move.first_new_key:
            new_keys = move.first_new_key, move.first_new_key + move.message_count
            self._writer.execute(_INSERT_MOVED_RUN, (*common, *new_keys))
        else:
            self._writer.execute(_INSERT_MOVED, (*common, move.keys))
        self._position += move.message_count

    def _write_ended(self, ended: EndedRows) -> None:
        """Write the lives of claimed rows, then remove the rows, off which they are read."""
        after, until, queue, ended_ms, outcome, descriptors, program = ended
        # The rows have no gaps, nor have positions.
        common = (self._position - after, queue, ended_ms, outcome, after, until, program)
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
        ended = pack_counts(totals.ended)
        self._writer.execute(
            _INSERT_BALANCE,
            (self._position, totals.queue, self._now_ms(), totals.puts, totals.present, ended),
        )
        totals.unbalanced = 0
