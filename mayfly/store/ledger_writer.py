"""Writes the ledger of the store: records of ended messages, counters by queue, balance rows, time.

"Life" in names here is the stay of a message on a queue; the ledger records its end. Each of these
changes in the same transaction as the messages it is about. The leader of the group commit gives
the positions, in commit order and without gaps.

The totals of a queue since its creation are held in memory and saved in the table ``counter``. A
transaction that only ends persistent messages of a queue does not save its totals, because the rows
of the ledger determine them: one page less to sync. An opening of the store adds the rows since the
last save. All totals are saved from time to time, so that these rows stay few.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw

from mayfly.lifetime.life import (
    KIND_BALANCE,
    KIND_LIFE,
    Balance,
    LifeRecord,
    State,
)
from mayfly.lifetime.times import STORED_TIME_STEP_MS
from mayfly.runtime import Lock, Runtime
from mayfly.store.claimed_messages import REMOVE
from mayfly.store.contents import Contents
from mayfly.store.damage import LAST_POSITION, damaged
from mayfly.store.database import write_value
from mayfly.store.many_rows import insert_rows
from mayfly.store.units import Delta, EndedMessages, EndedRows, StagedMove, Unit
from mayfly.verbs.contracts.outcomes import pack_counts, unpack_counts

#: An opening reads at most this many positions of the ledger to update the saved totals.
POSITIONS_UNSAVED = 1_000
_SAVE = "INSERT OR REPLACE INTO counter VALUES (?, ?, ?, ?, ?, ?, ?)"
#: For queues whose only change is the same number of puts, as after a publication. Saving a row for
#: each took a sixth of the instructions of a publication to 100 queues.
_ADD_PUTS = (
    "UPDATE counter SET puts = puts + ?1, present = present + ?1, position = ?2 "
    "WHERE queue_id IN carray(?3)"
)
_ADDED_MIN: Final = 8
_SAVED = "SELECT * FROM counter ORDER BY position"
_LIVES_SINCE = (
    f"SELECT position, queue, outcome FROM ledger WHERE position > ? AND kind = {KIND_LIFE}"
)


class Totals:
    """Message counters of one queue since its creation, as stored in the table ``counter``.

    ``puts`` and ``present`` count messages; ``present_volatile`` is the non-persistent part of
    ``present``. ``unbalanced`` counts the changes since the last balance row of the queue, a ledger
    row with these counters.
    """

    __slots__ = ("_packed", "ended", "present", "present_volatile", "puts", "queue", "unbalanced")

    def __init__(
        self, queue: str, puts: int, present: int, present_volatile: int, ended: dict[str, int]
    ) -> None:
        """Set the counters of a queue.

        ``puts`` counts all messages ever put, ``present`` those on the queue now;
        ``present_volatile`` of them are not persistent. ``ended`` counts ended messages by outcome
        (final ``State``).
        """
        self.queue = queue
        self.puts = puts
        self.present = present
        self.present_volatile = present_volatile
        self.ended = ended
        #: ``ended`` in its stored form; puts do not change it.
        self._packed: str | None = None
        self.unbalanced = 0

    def plus(self, delta: Delta) -> Totals:
        """Return new counters with a change added; this object stays as it is."""
        ended = self.ended
        if delta.ended:
            ended = dict(ended)
            for outcome, count in delta.ended.items():
                ended[outcome] = ended.get(outcome, 0) + count
        result = Totals(
            self.queue,
            self.puts + delta.puts,
            self.present + delta.present,
            self.present_volatile + delta.present_volatile,
            ended,
        )
        if not delta.ended:
            result._packed = self._packed
        result.unbalanced = self.unbalanced + 1 + sum(delta.ended.values())
        return result

    def end_one(self, outcome: str) -> None:
        """Count the end of one persistent message with this outcome, in this object."""
        self.present -= 1
        self.ended[outcome] = self.ended.get(outcome, 0) + 1
        self._packed = None
        self.unbalanced += 1

    def puts_since(self, before: Totals | None) -> int:
        """Return the number of puts since the earlier counters ``before``.

        0 if anything but puts of persistent messages has changed the counters in between, or
        ``before`` is None.
        """
        if before is None or self.ended is not before.ended:
            return 0
        growth = self.puts - before.puts
        is_all = (self.queue, self.present, self.present_volatile) == (
            before.queue,
            before.present + growth,
            before.present_volatile,
        )
        return growth if is_all else 0

    def row(self, number: int, position: int) -> tuple[Any, ...]:
        """Return the row of the table ``counter`` for the queue with this number.

        ``position`` is the last ledger position whose row is counted.
        """
        if self._packed is None:
            self._packed = pack_counts(self.ended)
        present, volatile = self.present, self.present_volatile
        return number, self.queue, self.puts, present, volatile, self._packed, position


class TotalsTable:
    """The message counters of all queues, and those changed in the present transaction.

    They are found by queue number; negative numbers count staged messages by the number of their
    target queue. Only the group-commit leader changes totals; other threads create and delete
    queues meanwhile. A transaction calls :meth:`change` for each unit, :meth:`save` once, then
    :meth:`accept` or :meth:`roll_back_to`.
    """

    def __init__(self, writer: apsw.Connection, last_position: int, lock: Lock) -> None:
        """Read the saved counters, and add the ledger rows after them, up to ``last_position``.

        ``writer`` is the connection to use, ``lock`` guards the counters against readers. Raises
        StoreDamaged when a saved row cannot be read.
        """
        self._writer = writer
        self._held: dict[int, Totals] = {}
        #: Guards ``_held``: queues are created and deleted while the leader writes.
        self._lock = lock
        #: Totals that the present transaction changes, and the numbers of those that must be saved
        #: because the lives in the ledger do not determine them.
        self._changed: dict[int, Totals] = {}
        self._undetermined: set[int] = set()
        self._saves_all = False
        self._written: set[int] = set()
        #: All totals are saved at this position or later; the totals of these queues have changed
        #: since their last save, and follow from the lives in the ledger.
        self._all_saved_position = last_position - POSITIONS_UNSAVED
        self._unsaved: set[int] = set()
        #: Numbers of all queues that owe a balance row; some of them may have got it since.
        self._owing: set[int] = set()
        try:
            self._load()
        except (ValueError, LookupError, TypeError) as error:
            raise damaged(Path(writer.filename), error) from error

    def open_queue(self, number: int, queue: str) -> None:
        """Start counters of zero for a queue, unless its number has counters already.

        A new queue is among those that :meth:`owing` returns: its first balance row, a ledger row
        with the counters, shows a reader of the ledger that a queue of a known name was created
        anew.
        """
        known = self._held.get(number)
        if known is not None:
            # The number may have been another queue's, for which messages were staged.
            with self._lock:
                known.queue = queue
                self._unsaved.add(number)
        else:
            totals = Totals(queue, 0, 0, 0, {})
            totals.unbalanced = 1
            with self._lock:
                self._held[number] = totals
                self._owing.add(number)

    def forget_queue(self, number: int) -> None:
        """Remove the counters of a deleted queue from memory, if any.

        Its number may be used again.
        """
        with self._lock:
            self._held.pop(number, None)

    def __contains__(self, number: int) -> bool:
        """Return True if the table has counters for a queue number."""
        return number in self._held

    def __getitem__(self, number: int) -> Totals:
        """Return the counters of a queue after the last durable transaction.

        Raises KeyError for an unknown number.
        """
        return self._held[number]

    def items(self) -> list[tuple[int, Totals]]:
        """Return number and counters of every queue after the last durable transaction."""
        with self._lock:
            return list(self._held.items())

    def owing(self) -> list[tuple[int, Totals]]:
        """Return number and counters of every queue that has changed since its last balance row.

        A balance row is a ledger row with the counters of one queue.
        """
        with self._lock:
            found = [(number, self._held.get(number)) for number in self._owing if number >= 0]
            owing = [(n, totals) for n, totals in found if totals is not None and totals.unbalanced]
            self._owing = {number for number, _totals in owing}
            return owing

    def change(self, unit: Unit) -> None:
        """Add the changes of a unit to the counters of the present transaction."""
        for number, delta in unit.deltas.items():
            totals = self._changed.get(number) or self._held[number]
            self._changed[number] = totals.plus(delta)
            if number < 0 or not delta.follows_from_lives():
                self._undetermined.add(number)
        # The effect of a statement on the ledger is unknown here, so all totals are saved.
        self._saves_all |= bool(unit.statements)

    def changed(self, *, unbalanced: bool) -> list[tuple[int, Totals]]:
        """Return number and counters of the queues that the present transaction changes.

        With ``unbalanced`` it adds all queues that changed since their last balance row, a ledger
        row with the counters.
        """
        if unbalanced:
            for number, totals in self.owing():
                self._changed.setdefault(number, totals.plus(Delta()))
        return list(self._changed.items())

    def save(self, position: int) -> None:
        """Write changed counters to the database, as part of the present transaction.

        ``position`` is the last ledger position that they count. A counter that an opening can add
        up again from the ledger rows behind its saved position is not written each time, but every
        1,000 positions; all others are written.
        """
        self._saves_all |= position - self._all_saved_position >= POSITIONS_UNSAVED
        due = dict(self._changed)
        if self._saves_all:
            with self._lock:
                for number in self._unsaved & self._held.keys():
                    due.setdefault(number, self._held[number])
        else:
            due = {number: due[number] for number in self._undetermined}
        self._written = set(due)
        for number in self._add_puts(due, position) if len(due) >= _ADDED_MIN else ():
            del due[number]
        insert_rows(self._writer, _SAVE, [totals.row(n, position) for n, totals in due.items()])

    def _add_puts(self, due: dict[int, Totals], position: int) -> list[int]:
        """Save counters whose only change is the same number of puts, by one SQL statement.

        ``due`` are the changed counters by queue number, ``position`` is the last ledger position
        that they count. Returns the queue numbers that are saved by it; the caller saves the
        others.
        """
        grown: dict[int, list[int]] = {}
        for number, totals in due.items():
            # The saved values of unsaved ones are behind those that are held.
            growth = 0 if number in self._unsaved else totals.puts_since(self._held.get(number))
            if growth:
                grown.setdefault(growth, []).append(number)
        added: list[int] = []
        for growth, numbers in grown.items():
            if len(numbers) >= _ADDED_MIN:
                keys = apsw.carray(array("q", numbers))
                self._writer.execute(_ADD_PUTS, (growth, position, keys))
                # A queue without a saved row gets a complete row, and so do the others.
                if self._writer.changes() == len(numbers):
                    added += numbers
        return added

    def accept(self, position: int) -> None:
        """Make the changed counters current: the transaction is durable, up to ``position``."""
        with self._lock:
            for number, totals in self._changed.items():
                # A queue deleted meanwhile stays forgotten: its number may be given again.
                if number in self._held:
                    self._held[number] = totals
            self._owing.update(self._changed)
        self._unsaved.update(self._changed)
        self._unsaved -= self._written
        if self._saves_all:
            self._all_saved_position = position
        self.roll_back_to(None)

    def mark(self) -> dict[int, Totals]:
        """Return the changes of the present transaction, by queue number: a savepoint."""
        return dict(self._changed)

    def roll_back_to(self, mark: dict[int, Totals] | None) -> None:
        """Discard the changes since ``mark``, a result of :meth:`mark`.

        With None, all changes of the present transaction are discarded.
        """
        if mark is None:
            self._changed, self._undetermined, self._saves_all = {}, set(), False
        else:
            self._changed = mark
            self._undetermined &= mark.keys()

    def forget_strangers(self, numbers: set[int]) -> None:
        """Delete the counters of all queues that are not in ``numbers``, also in the database.

        These are temporary queues of an earlier run. Counters of messages staged for a deleted
        queue stay.
        """
        for number, totals in list(self._held.items()):
            # Messages staged for a deleted queue are still counted.
            if abs(number) in numbers or (number < 0 and totals.present):
                continue
            del self._held[number]
            self._writer.execute("DELETE FROM counter WHERE queue_id = ?", (number,))

    def _load(self) -> None:
        """Read the saved counters, and add the ledger rows after them.

        Raises ValueError, LookupError or TypeError for a damaged row.
        """
        by_name: dict[str, tuple[int, int]] = {}
        rows: Any = self._writer.execute(_SAVED).fetchall()
        for number, queue, puts, present, volatile, ended, position in rows:
            self._held[number] = Totals(queue, puts, present, volatile, unpack_counts(ended))
            if number >= 0:
                by_name[queue] = number, position
        since: Any = self._writer.execute(_LIVES_SINCE, (self._all_saved_position,)).fetchall()
        for position, queue, outcome in since:
            number, saved_position = by_name.get(queue, (0, position))
            if position > saved_position:
                self._held[number].end_one(outcome)
                self._unsaved.add(number)
                self._owing.add(number)


# Lives


INSERT_LIFE = (
    f"INSERT INTO ledger (position, kind, {', '.join(LifeRecord._fields)}) "
    f"VALUES (?, {KIND_LIFE}, {', '.join('?' * len(LifeRecord._fields))})"
)
#: The lives on the staging queue of messages just moved, read off the rows at their new keys.
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
#: The same for consecutive keys: a position is the key minus a constant.
_INSERT_MOVED_RANGE = _MOVED % (
    "m.k - ?10 + 1",
    "message m WHERE m.k >= ?10 AND m.k < ?11 ORDER BY m.k",
)


def _together(table: str, body_bytes: str) -> tuple[str, str]:
    """Return the SQL that records messages which end together: by key list, by key range.

    ``table`` is the table or view of the messages, ``body_bytes`` the SQL for the length of one.
    """
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


#: The lives of messages of one descriptor that end together. Only where copies share contents does
#: the statement need the view.
_INSERT_TOGETHER = _together("message", "length(m.body)")
_INSERT_TOGETHER_SHARED = _together("whole_message", "m.body_bytes")
_ENDED = f"""
INSERT INTO ledger (position, kind, {", ".join(LifeRecord._fields)})
SELECT ?1 + c.r, {KIND_LIFE}, ?2, c.msg_id, c.correl_id, c.origin_id, c.put_ms,
    coalesce(c.deliver_at_ms, c.put_ms), c.expire_at_ms, ?3, ?4, 0, %s, %s, length(c.body), %s, %s,
    c.backout_count, %s, c.capped_by, NULL, NULL, ?7
FROM claimed c"""
#: The lives of claimed rows of one descriptor. The statement for any descriptors has a join, which
#: costs four times as much per row.
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
#: Lives on one queue from one balance row to the next, so that a reader of the ledger finds a
#: balance row within a short range.
LIVES_BEFORE_BALANCE = 4_096


class LedgerWriter:
    """Writes the ledger, the queue counters and the time of one store, in its transactions.

    Only the group-commit leader uses it: :meth:`write_lives` and :meth:`write` for each unit, once
    :meth:`finish`, then :meth:`accept` or :meth:`roll_back_to`.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        contents: Contents,
        now_ms: Callable[[], int],
        runtime: Runtime,
        *,
        high_water_ms: int,
    ) -> None:
        """Continue the ledger after its last position.

        ``writer`` is the connection that commits, ``contents`` the contents that publications
        share. ``now_ms`` returns the time, ``high_water_ms`` is the time stored last.
        """
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
        """Return a unit that counts the non-persistent messages of the last run as LOST_AT_RESTART.

        The counters say how many messages a restart has taken from each queue, not which ones.
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
        """Return True if a queue has changed since its last balance row (its counters)."""
        return bool(self.totals.owing())

    def write_lives(self, unit: Unit) -> None:
        """Write the records of the messages that a unit ends to the ledger.

        Call it before these messages are deleted: some values are read off them.
        """
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
        """Add a unit to the queue counters; record the messages it moves or ends as claimed."""
        self._balance_all |= unit.wants_balances
        self._notes_time |= unit.notes_time
        for move in unit.moves:
            self._write_moved(move)
        for ended in unit.ended_rows:
            self._write_ended(ended)
        self.totals.change(unit)

    def finish(self) -> None:
        """Write changed counters, due balance rows, and the time, before the COMMIT.

        A balance row is a ledger row with the counters of one queue. The time (high-water mark of
        the clock) is written when the stored one is STORED_TIME_STEP_MS old, or when a unit asked
        for it.
        """
        for number, totals in self.totals.changed(unbalanced=self._balance_all):
            # Negative numbers count staged messages by target; they are part of no queue's proof.
            if number >= 0 and (self._balance_all or totals.unbalanced >= LIVES_BEFORE_BALANCE):
                self._write_balance(totals)
        self.totals.save(self._position)
        now_ms = self._now_ms()
        if self._notes_time or now_ms >= self.high_water_ms + STORED_TIME_STEP_MS:
            self._writer.execute(*write_value("high_water_ms", now_ms))
            self._written_ms = now_ms

    def accept(self) -> None:
        """Make the written state the current one, after a successful COMMIT."""
        self.totals.accept(self._position)
        self.last_position = self._position
        self.high_water_ms = self._written_ms
        self._balance_all = self._notes_time = False

    def mark(self) -> tuple[int, dict[int, Totals]]:
        """Return ledger position and changed counters of the present transaction: a savepoint."""
        return self._position, self.totals.mark()

    def roll_back_to(self, mark: tuple[int, dict[int, Totals]] | None) -> None:
        """Discard the changes since ``mark``, a result of :meth:`mark`.

        With None, all changes of the present transaction are discarded.
        """
        if mark is None:
            self._position, self._written_ms = self.last_position, self.high_water_ms
            self._balance_all = self._notes_time = False
            self.totals.roll_back_to(None)
        else:
            self._position, totals = mark
            self.totals.roll_back_to(totals)

    def balances(self) -> list[Balance]:
        """Return the counters of every queue at ``last_position``, one Balance each."""
        now_ms = self._now_ms()
        return [
            Balance(t.queue, now_ms, t.puts, t.present, dict(t.ended))
            for number, t in self.totals.items()
            if number >= 0
        ]

    def _write_together(self, ended: EndedMessages, position: int) -> None:
        """Record messages that end together in the ledger, at the positions after ``position``."""
        common: list[Any]
        keys, *common = ended
        first, last = keys[0], keys[-1]
        writer = self._writer
        shares = self._contents.are_shared
        of_keys, of_range = _INSERT_TOGETHER_SHARED if shares else _INSERT_TOGETHER
        if last - first == len(keys) - 1 and keys == [*range(first, last + 1)]:
            writer.execute(of_range, (position, *common, first, last))
        else:
            writer.execute(of_keys, (position, *common, apsw.carray(array("q", keys))))
        assert writer.changes() == len(keys), "a message whose life ends is gone"

    def _write_moved(self, move: StagedMove) -> None:
        """Record in the ledger that staged messages were just moved to their target."""
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
            self._writer.execute(_INSERT_MOVED_RANGE, (*common, *new_keys))
        else:
            self._writer.execute(_INSERT_MOVED, (*common, move.keys))
        self._position += move.message_count

    def _write_ended(self, ended: EndedRows) -> None:
        """Record claimed messages in the ledger as ended, then delete their rows."""
        after, until, queue, ended_ms, outcome, descriptors, program = ended
        # The rows have no gaps, nor have positions.
        common = (self._position - after, queue, ended_ms, outcome, after, until, program)
        if len(descriptors) <= _FEW_DESCRIPTORS:
            for descriptor in descriptors:
                self._writer.execute(_INSERT_ENDED, (*common, *descriptor))
        else:
            mixed = [(packed.hex(), *values) for packed, *values in descriptors]
            self._writer.execute(_INSERT_ENDED_MIXED, (*common, json.dumps(mixed)))
        self._position += until - after
        self._writer.execute(REMOVE, (after, until))

    def _write_balance(self, totals: Totals) -> None:
        """Write a balance row: a ledger row with the counters of one queue."""
        self._position += 1
        ended = pack_counts(totals.ended)
        self._writer.execute(
            _INSERT_BALANCE,
            (self._position, totals.queue, self._now_ms(), totals.puts, totals.present, ended),
        )
        totals.unbalanced = 0
