"""A real ledger over a real store, with lives and times as a test wants them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mayfly.lifetime.life import LifeRecord, State
from mayfly.runtime import Runtime
from mayfly.store.ledger import Ledger
from mayfly.store.store import Store
from mayfly.store.units import Unit

START_MS = 1_700_000_000_000
TOKEN = "correct horse"


def life(
    number: int, queue: str = "Q1", outcome: State = State.GOT, **changed: object
) -> LifeRecord:
    """The life of message ``number``: put a second after the one before, ended 250 ms later."""
    put_ms = START_MS + number * 1000
    record = LifeRecord(
        queue=queue,
        msg_id=number.to_bytes(24, "big"),
        correl_id=bytes(24),
        origin_id=None,
        put_ms=put_ms,
        deliver_at_ms=put_ms,
        expire_at_ms=None,
        ended_ms=put_ms + 250,
        outcome=outcome.value,
        reason=0,
        priority=4,
        persistent=0,
        body_bytes=100,
        report=0,
        reply_to_q="",
        backout_count=0,
        user_identifier="tester",
    )
    return record._replace(**changed)  # type: ignore[arg-type]  # a test names real fields


class KeptBooks:
    """A queue manager as far as a Flight server needs it; a test ends lives by hand."""

    def __init__(self, folder: Path | None = None, name: str = "QM1") -> None:
        self.name = name
        runtime = Runtime()
        self.store = Store(folder, runtime.engine_lock(), lambda: START_MS, runtime)
        self._numbers: dict[str, int] = {}
        self._ended = 0

    @property
    def ledger(self) -> Ledger:
        return self.store.ledger

    def end(self, *lives: LifeRecord) -> None:
        """Write lives to the ledger, in this order."""
        unit = Unit()
        for record in lives:
            unit.pass_through(self._number(record.queue), record)
        with self.store.engine_lock:
            self.store.apply(unit)
        self.store.flush()

    def end_many(self, count: int, queue: str = "Q1") -> None:
        """Write ``count`` more ordinary lives."""
        first, self._ended = self._ended + 1, self._ended + count
        self.end(*(life(number, queue) for number in range(first, self._ended + 1)))

    def balance(self) -> None:
        """Write a balance row for each queue that has changed."""
        self.store.write_balances()

    def trim(self, retention_count: int) -> None:
        """Remove the oldest rows beyond a count."""
        while self.store.retention.trim(retention_count):
            pass

    def _number(self, queue: str) -> int:
        if queue not in self._numbers:
            self._numbers[queue] = len(self._numbers) + 1
            self.store.ledger_writer.totals.open_queue(self._numbers[queue], queue)
        return self._numbers[queue]


@contextmanager
def kept_books(folder: Path | None = None, name: str = "QM1") -> Iterator[KeptBooks]:
    """Open a store and close it."""
    books = KeptBooks(folder, name)
    try:
        yield books
    finally:
        books.store.close()
