"""Bare apsw loops on the same schema, indexes and life insert: the engine is compared with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from bench.figures import seconds_of
from mayfly.lifetime.life import LifeRecord
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor, pack_descriptor
from mayfly.store import keys
from mayfly.store.database import Database
from mayfly.store.ledger_writer import INSERT_LIFE
from mayfly.store.messages import DELETE, IN_ORDER, INSERT
from mayfly.store.units import StoredMessage

_DESCRIPTOR = pack_descriptor(Descriptor(persistence=1, priority=0))
#: What a life ended by a get has beside its ids and times, as far as the size of its body.
_GOT = ("got", 0, 0, 1, 200, 0)
#: The same of one that is released.
_RELEASED = ("released", 0, 0, 1, 408, 0)
_MOVE = "UPDATE message SET k = ?, msg_hash = ? WHERE k = ?"
#: A moment whose staging keys are like those of today.
_DUE_MS = 1_800_000_000_000
_LOW, _HIGH = keys.queue_range(1)


def row(
    number: int, body: bytes, queue_number: int = 1, msg_hash: int | None = None
) -> StoredMessage:
    """Return a message row as the engine would store it; with a hash its MsgId was given to it."""
    return StoredMessage(
        keys.order_key(queue_number, 0, number),
        1,
        None,
        None,
        msg_hash,
        None,
        0,
        _id(number),
        b"",
        None,
        _DESCRIPTOR,
        body,
    )


def _id(number: int) -> bytes:
    # Made here, because this runs with the Mayfly of any commit.
    return b"AMQ BENCH".ljust(18) + number.to_bytes(6, "big")


def put_loop(
    database: Database,
    count: int,
    per_unit: int,
    body: bytes,
    queue_count: int = 1,
    *,
    are_copies: bool = False,
) -> None:
    """Insert messages, so many a transaction, for so many queues in turn.

    Those of a transaction may be copies of one: the index has its MsgId for each.
    """
    writer = database.writer
    for first in range(0, count, per_unit):
        writer.execute("BEGIN IMMEDIATE")
        for number in range(first, first + per_unit):
            msg_hash = first if are_copies else None
            writer.execute(INSERT, row(number, body, 1 + number % queue_count, msg_hash))
        writer.execute("COMMIT")


def put_seconds(
    folder: Path,
    count: int,
    per_unit: int,
    body: bytes,
    queue_count: int = 1,
    *,
    are_copies: bool = False,
) -> float:
    """Return how long so many inserts take in a new database, as :func:`put_loop`."""
    database = Database(folder)
    seconds = seconds_of(
        lambda: put_loop(database, count, per_unit, body, queue_count, are_copies=are_copies)
    )
    database.close()
    return seconds


def move_seconds(
    folder: Path, count: int, per_unit: int, body: bytes, *, does_all: bool = False
) -> float:
    """Return how long staged rows take to move to their queue, each by one UPDATE of its key.

    The rows are due within one second, and get the index entry of their MsgId as they move. With
    ``does_all`` each has its record on the staging queue as well, and another client's put is
    committed behind each transaction, as it is in a flood that is measured (bench/cliff.py). Time
    counts from the ids of a message on: some 1.5 µs of each are the program's, not SQLite's.
    """
    database = Database(folder)
    units = [range(n, min(n + per_unit, count)) for n in range(0, count, per_unit)]

    def staged(number: int) -> int:
        return keys.staging_key(_DUE_MS + number * 1_000 // count, number)

    for numbers in units:
        rows = [row(n, body)._replace(k=staged(n)) for n in numbers]
        _in_transaction(database, INSERT, rows)

    def move() -> None:
        for numbers in units:
            rows = [(row(n, b"").k, staged(n), staged(n)) for n in numbers]
            _in_transaction(database, _MOVE, rows, _released(numbers) if does_all else ())
            if does_all:
                _in_transaction(database, INSERT, [row(count + numbers.start, body, 2)])

    seconds = seconds_of(move)
    database.close()
    return seconds


def _released(numbers: range) -> list[tuple[Any, ...]]:
    """Return what the ledger has of staged messages that are released, beginning with position."""
    ids = [_id(number) for number in numbers]
    return [
        (n + 1, *LifeRecord(STAGING_QUEUE, i, i, None, 1, 1, None, 1, *_RELEASED, "", 0, ""))
        for n, i in zip(numbers, ids, strict=True)
    ]


def _in_transaction(
    database: Database,
    sql: str,
    rows: Sequence[tuple[Any, ...]],
    lives: Sequence[tuple[Any, ...]] = (),
) -> None:
    database.writer.execute("BEGIN IMMEDIATE")
    database.writer.executemany(sql, rows)
    database.writer.executemany(INSERT_LIFE, lives)
    database.writer.execute("COMMIT")


def get_loop(database: Database, count: int, per_unit: int) -> None:
    """Select, delete and record messages one by one, so many a transaction."""
    writer = database.writer
    for first in range(0, count, per_unit):
        writer.execute("BEGIN IMMEDIATE")
        for position in range(first + 1, first + per_unit + 1):
            found: Any = writer.execute(f"{IN_ORDER} LIMIT 1", (_LOW, _HIGH)).fetchall()
            ((key, put_ms, _, _, _, _, _, msg_id, correl_id, *_),) = found
            writer.execute(DELETE, (key,))
            life = LifeRecord(
                "Q1", msg_id, correl_id, None, put_ms, put_ms, None, 1, *_GOT, "", 0, ""
            )
            writer.execute(INSERT_LIFE, (position, *life))
        writer.execute("COMMIT")


def insert_all(writer: apsw.Connection, rows: Sequence[StoredMessage]) -> None:
    """Write what a leader of puts has to."""
    writer.executemany(INSERT, rows)


def end_all(writer: apsw.Connection, rows: Sequence[StoredMessage]) -> None:
    """Write what a leader of gets has to, by two statements as the store does."""
    keys_of = [row.k for row in rows]
    writer.execute(f"DELETE FROM message WHERE k IN ({', '.join('?' * len(rows))})", keys_of)
    lives = [
        (row.k, *LifeRecord("Q1", row.msg_id, b"", None, 1, 1, None, 1, *_GOT, "", 0, ""))
        for row in rows
    ]
    head, values = INSERT_LIFE.split(" VALUES ")
    sql = f"{head} VALUES {', '.join([values] * len(rows))}"
    writer.execute(sql, tuple(chain.from_iterable(lives)))


class RawLeader:
    """The least that threads with one durable row each need: a leader and nothing else."""

    def __init__(
        self,
        database: Database,
        write: Callable[[apsw.Connection, Sequence[StoredMessage]], None] = insert_all,
    ) -> None:
        """Write rows to a database that others have opened."""
        self._writer, self._write = database.writer, write
        self._lock = threading.Lock()
        self._waiting: list[tuple[StoredMessage, threading.Event, list[bool]]] = []
        self._is_led = False

    def commit(self, row: StoredMessage) -> None:
        """Write one row and return when that is durable."""
        done, leads = threading.Event(), [False]
        with self._lock:
            self._waiting.append((row, done, leads))
            if self._is_led:
                mine = False
            else:
                mine = self._is_led = True
        if not mine:
            done.wait()
            if not leads[0]:
                return
        self._lead()

    def _lead(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        self._writer.execute("BEGIN IMMEDIATE")
        self._write(self._writer, [entry for entry, _, _ in batch])
        self._writer.execute("COMMIT")
        with self._lock:
            if self._waiting:
                _, event, leads = self._waiting[0]
                leads[0] = True
                event.set()
            else:
                self._is_led = False
        for _, event, _ in batch:
            event.set()
