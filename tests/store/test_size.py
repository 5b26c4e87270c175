"""What grows and what does not: the write-ahead log, and the work of opening a large store."""

import threading
from pathlib import Path

import apsw
import pytest

from mayfly.store.database import DATABASE_FILE
from mayfly.store.log_keeper import LogKeeper
from tests.store.scene import NUMBER, get_unit, held, new_row, opened, put_unit

PAGE_BYTES = 4_096


@pytest.mark.slow
def test_the_log_stays_bounded_under_constant_writing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    most_pages = 0
    log = tmp_path / f"{DATABASE_FILE}-wal"
    for _ in range(120):
        rows = [new_row(store, bytes(10_000)) for _ in range(100)]
        store.commit([put_unit(store, *rows)])
        most_pages = max(most_pages, store.wal_pages)
        store.commit([get_unit(*rows)])
    bound_pages = 3 * LogKeeper.PAGES_BEFORE_CHECKPOINT
    assert LogKeeper.PAGES_BEFORE_CHECKPOINT < most_pages < bound_pages
    assert log.stat().st_size < bound_pages * (PAGE_BYTES + 24) + 32
    store.close()
    again = opened(tmp_path)
    assert held(again) == []
    again.close()


@pytest.mark.slow
def test_the_log_stays_bounded_when_several_threads_write(tmp_path: Path) -> None:
    store = opened(tmp_path)
    most_pages = [0]

    def write() -> None:
        for _ in range(30):
            rows = [new_row(store, bytes(10_000)) for _ in range(50)]
            store.commit([put_unit(store, *rows)])
            store.commit([get_unit(*rows)])
            most_pages[0] = max(most_pages[0], store.wal_pages)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most_pages[0] < 4 * LogKeeper.PAGES_BEFORE_CHECKPOINT
    store.close()


@pytest.mark.slow
def test_opening_200_000_messages_reads_none_of_them(tmp_path: Path) -> None:
    """Counters are stored, so opening asks for no count and walks no table."""
    store = opened(tmp_path)
    for _ in range(4):
        store.commit([put_unit(store, *(new_row(store, b"x") for _ in range(50_000)))])
    store.close()
    asked: list[str] = []

    def trace(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: asked.append(event["sql"]))

    apsw.connection_hooks.append(trace)
    try:
        again = opened(tmp_path)
    finally:
        apsw.connection_hooks.remove(trace)
    # The database in memory is made anew as ever; what matters is what is read.
    asked = [sql for sql in asked if sql.startswith("SELECT")]
    assert asked
    assert not [sql for sql in asked if "message" in sql.lower()]
    assert again.book.totals[NUMBER].present == 200_000
    first = again.persistent.in_order(NUMBER << 48, (NUMBER + 1) << 48, 1)
    assert len(first) == 1
    again.close()
