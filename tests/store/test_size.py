"""What grows and what does not: the write-ahead log, and the work of opening a large store."""

from functools import partial
from pathlib import Path

import apsw
import pytest

from mayfly.store.database import DATABASE_FILE
from mayfly.store.store import Checkpointer, Store
from tests.spec.scene import Running
from tests.store.scene import NUMBER, get_unit, held, new_row, opened, put_unit


def pages_until_the_log_begins_anew(store: Store) -> int:
    """Put and get without a pause; return how many pages the log had when it began anew."""
    max_pages, has_begun_anew = 0, False
    for _ in range(800):
        rows = [new_row(store, bytes(10_000)) for _ in range(50)]
        for unit in (put_unit(store, *rows), get_unit(*rows)):
            store.commit([unit])
            pages = store.wal_pages
            has_begun_anew |= pages < max_pages
            max_pages = max(max_pages, pages)
        if has_begun_anew:
            return max_pages
    raise AssertionError(f"the log has {max_pages} pages and grows")


@pytest.mark.slow
def test_the_log_stays_bounded_under_constant_writing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    log = tmp_path / f"{DATABASE_FILE}-wal"
    for _ in range(2):
        max_pages = pages_until_the_log_begins_anew(store)
        assert max_pages >= Checkpointer.PAGES_BEFORE_CHECKPOINT
    length = log.stat().st_size
    while store.wal_pages < Checkpointer.PAGES_BEFORE_CHECKPOINT // 2:
        store.commit([put_unit(store, new_row(store, bytes(100_000)))])
    assert log.stat().st_size == length
    store.close()


@pytest.mark.slow
def test_the_log_stays_bounded_when_several_threads_write(tmp_path: Path) -> None:
    store = opened(tmp_path)
    threads = [Running(partial(pages_until_the_log_begins_anew, store)) for _ in range(4)]
    assert all(thread.finish() for thread in threads)
    store.close()
    again = opened(tmp_path)
    assert held(again) == []
    again.close()


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
    assert again.ledger_writer.totals[NUMBER].present == 200_000
    first = again.persistent.in_order(NUMBER << 48, (NUMBER + 1) << 48, 1)
    assert len(first) == 1
    again.close()
