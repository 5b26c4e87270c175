"""Totals of every queue since its creation: held in memory, saved in the table ``counter``.

They change in the transaction of their messages. One that only ends persistent messages of a queue
does not save them, for its lives tell how they have changed: a page less to sync. An opening adds
the lives since; so that these stay few, all totals are saved from time to time.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, Final

import apsw

from mayfly.lifetime.life import KIND_LIFE
from mayfly.runtime import Lock
from mayfly.store.damage import damaged
from mayfly.store.many_rows import insert_rows
from mayfly.store.units import Delta, Unit
from mayfly.verbs.contracts.outcomes import pack_counts, unpack_counts

#: How many positions of the ledger an opening reads to know the totals.
POSITIONS_UNSAVED = 1_000
#: Also when the ledger has been trimmed.
LAST_POSITION = """
SELECT max(coalesce((SELECT max(position) FROM ledger), 0),
    coalesce((SELECT value FROM meta WHERE name = 'last_position'), 0))"""
_SAVE = "INSERT OR REPLACE INTO counter VALUES (?, ?, ?, ?, ?, ?, ?)"
#: Of queues that have as many puts more and nothing else, as after a publication. To save the
#: values of each took one to 100 queues a sixth of its instructions.
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
    """Totals of one queue since its creation, as persisted in ``counter``."""

    __slots__ = ("_packed", "ended", "present", "present_volatile", "puts", "queue", "unbalanced")

    def __init__(
        self, queue: str, puts: int, present: int, present_volatile: int, ended: dict[str, int]
    ) -> None:
        """Hold the totals of a queue; ``ended`` counts lives by the code of their outcome."""
        self.queue = queue
        self.puts = puts
        self.present = present
        self.present_volatile = present_volatile
        self.ended = ended
        #: ``ended`` as it is stored; a put changes neither.
        self._packed: str | None = None
        self.unbalanced = 0

    def plus(self, delta: Delta) -> Totals:
        """Return the totals after a change."""
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
        """Add the end of a persistent message."""
        self.present -= 1
        self.ended[outcome] = self.ended.get(outcome, 0) + 1
        self._packed = None
        self.unbalanced += 1

    def puts_since(self, before: Totals | None) -> int:
        """Return how many persistent puts there were since, 0 where anything else has changed."""
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
        """Return the row of the table, which says where in the ledger the totals stood so."""
        if self._packed is None:
            self._packed = pack_counts(self.ended)
        present, volatile = self.present, self.present_volatile
        return number, self.queue, self.puts, present, volatile, self._packed, position


class TotalsTable:
    """Totals by queue number; negative numbers count staged messages by target.

    Changed by the group-commit leader only; queues come and go beside it.
    """

    def __init__(self, writer: apsw.Connection, last_position: int, lock: Lock) -> None:
        """Read what is saved, and the lives since."""
        self._writer = writer
        self._held: dict[int, Totals] = {}
        #: Queues come and go while the leader writes; it guards which totals there are.
        self._lock = lock
        #: Totals that the transaction under way changes, and those that its lives do not determine.
        self._changed: dict[int, Totals] = {}
        self._untold: set[int] = set()
        self._saves_all = False
        self._written: set[int] = set()
        #: Totals that lives after this position tell, and for which queues.
        self._all_saved_position = last_position - POSITIONS_UNSAVED
        self._unsaved: set[int] = set()
        #: All queues that owe a balance row, and some that have got theirs since.
        self._owing: set[int] = set()
        try:
            self._load()
        except (ValueError, LookupError, TypeError) as error:
            raise damaged(Path(writer.filename), error) from error

    def open_queue(self, number: int, queue: str) -> None:
        """Begin the totals of a queue, where there are none.

        It owes a balance row at once: a reader of the ledger then sees that a queue of a name it
        knows begins anew.
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
        """Forget a deleted queue, whose number may be given again."""
        with self._lock:
            self._held.pop(number, None)

    def __contains__(self, number: int) -> bool:
        """Return True if a queue of that number is known."""
        return number in self._held

    def __getitem__(self, number: int) -> Totals:
        """Return the totals of a queue as they were after the last transaction."""
        return self._held[number]

    def items(self) -> list[tuple[int, Totals]]:
        """Return the totals of every queue as they were after the last transaction."""
        with self._lock:
            return list(self._held.items())

    def owing(self) -> list[tuple[int, Totals]]:
        """Return the totals of every queue that owes a balance row."""
        with self._lock:
            found = [(number, self._held.get(number)) for number in self._owing if number >= 0]
            owing = [(n, totals) for n, totals in found if totals is not None and totals.unbalanced]
            self._owing = {number for number, _totals in owing}
            return owing

    def change(self, unit: Unit) -> None:
        """Change totals as a unit says."""
        for number, delta in unit.deltas.items():
            totals = self._changed.get(number) or self._held[number]
            self._changed[number] = totals.plus(delta)
            if number < 0 or not delta.is_told_by_lives():
                self._untold.add(number)
        # The effect of a statement on the ledger is unknown here, so all totals are saved.
        self._saves_all |= bool(unit.statements)

    def changed(self, *, unbalanced: bool) -> list[tuple[int, Totals]]:
        """Return what the transaction changes, on request with what no balance row speaks of."""
        if unbalanced:
            for number, totals in self.owing():
                self._changed.setdefault(number, totals.plus(Delta()))
        return list(self._changed.items())

    def save(self, position: int) -> None:
        """Save what must be saved in the transaction, which ends at a position of the ledger."""
        self._saves_all |= position - self._all_saved_position >= POSITIONS_UNSAVED
        due = dict(self._changed)
        if self._saves_all:
            with self._lock:
                for number in self._unsaved & self._held.keys():
                    due.setdefault(number, self._held[number])
        else:
            due = {number: due[number] for number in self._untold}
        self._written = set(due)
        for number in self._add_puts(due, position) if len(due) >= _ADDED_MIN else ():
            del due[number]
        insert_rows(self._writer, _SAVE, [totals.row(n, position) for n, totals in due.items()])

    def _add_puts(self, due: dict[int, Totals], position: int) -> list[int]:
        """Save totals that have only grown by as many puts together; return whose they are."""
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
                # A queue that was never saved is saved whole, and the others with it.
                if self._writer.changes() == len(numbers):
                    added += numbers
        return added

    def accept(self, position: int) -> None:
        """The transaction, which ended at a position, is durable."""
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
        self.back_to(None)

    def mark(self) -> dict[int, Totals]:
        """Return the place reached in this transaction."""
        return dict(self._changed)

    def back_to(self, mark: dict[int, Totals] | None) -> None:
        """Forget what changed since a mark, or since the last transaction for None."""
        if mark is None:
            self._changed, self._untold, self._saves_all = {}, set(), False
        else:
            self._changed = mark
            self._untold &= mark.keys()

    def forget_strangers(self, numbers: set[int]) -> None:
        """Forget totals of queues that no longer exist: temporary ones of an earlier run."""
        for number, totals in list(self._held.items()):
            # Messages staged for a deleted queue are still counted.
            if abs(number) in numbers or (number < 0 and totals.present):
                continue
            del self._held[number]
            self._writer.execute("DELETE FROM counter WHERE queue_id = ?", (number,))

    def _load(self) -> None:
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
