"""Many rows are inserted or deleted by few statements, all or none."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from mayfly.store.ledger_writer import INSERT_LIFE
from mayfly.store.many_rows import SIZES
from mayfly.store.store import Store
from mayfly.store.units import StoredMessage
from tests.store.scene import get_unit, held, new_row, opened, put_unit

#: How inserts of messages begin, with all columns or without those that most do not have.
MESSAGES = "INSERT INTO message ("


def inserts(store: Store, insert: str = MESSAGES) -> list[int]:
    """Return a list that learns of each statement that inserts rows how many they are."""
    counts: list[int] = []
    head = insert.split(" VALUES ")[0]

    def trace(_cursor: apsw.Cursor, sql: str, _bindings: Any) -> bool:
        if sql.startswith(head) and " VALUES " in sql:
            counts.append(sql.split(" VALUES ")[1].count("("))
        return True

    store.database.writer.exec_trace = trace
    return counts


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (1, [1]),
        (3, [3]),
        (16, [16]),
        (23, [16, 7]),
        (149, [64, 64, 16, 5]),
    ],
)
@pytest.mark.parametrize("msg_hash", [None, 5], ids=["bare", "plain"])
def test_rows_are_inserted_in_order_by_few_statements(
    tmp_path: Path, count: int, sizes: list[int], msg_hash: int | None
) -> None:
    store = opened(tmp_path)
    rows = [new_row(store, b"%d" % n)._replace(msg_hash=msg_hash) for n in range(count)]
    counts = inserts(store)
    store.commit([put_unit(store, *rows)])
    assert counts == sizes
    found = store.persistent.in_order(rows[0].k, rows[-1].k + 1, count + 1)
    assert found == rows
    store.close()


@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("column", StoredMessage._fields[1:])
def test_a_row_has_its_own_value_of_a_column_among_others(
    tmp_path: Path, count: int, column: str, at: int
) -> None:
    """Whichever of the statements inserts them: all columns, plain ones, or the fewest."""
    store = opened(tmp_path)
    rows = [new_row(store, b"%d" % n)._replace(msg_hash=None) for n in range(count)]
    store.commit([put_unit(store, *rows)])
    assert store.persistent.in_order(rows[0].k, rows[-1].k + 1, count + 1) == rows
    rows = [new_row(store, b"%d" % n)._replace(msg_hash=None) for n in range(count)]
    value: Any = 1 if column.endswith(("_ms", "_hash", "_count", "number")) else b"X"
    if column in ("ttl_from_release", "only_here"):
        value = 1
    elif column in ("topic", "target", "capped_by", "released_by"):
        value = "X"
    rows[at] = rows[at]._replace(**{column: value})
    store.commit([put_unit(store, *rows)])
    assert store.persistent.in_order(rows[0].k, rows[-1].k + 1, count + 1) == rows
    store.close()


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (2, [4]), (4, [4]), (5, [16]), (17, [64]), (149, [64, 64, 64])]
)
def test_messages_are_deleted_by_few_statements_and_no_others_with_them(
    tmp_path: Path, count: int, sizes: list[int]
) -> None:
    store = opened(tmp_path)
    rows = [new_row(store, b"%d" % n) for n in range(2 * count + 1)]
    store.commit([put_unit(store, *rows)])
    counts = deletes(store)
    store.commit([get_unit(*rows[1::2])])
    assert counts == sizes
    assert held(store) == [row.msg_id for row in rows[::2]]
    store.close()


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
@pytest.mark.parametrize("count", [2, 65])
def test_a_run_of_messages_is_deleted_by_one_statement_and_no_others_with_it(
    tmp_path: Path, count: int, order: int
) -> None:
    """What looks like a run by its ends and is none is no run: nobody loses what is between."""
    store = opened(tmp_path)
    rows = [new_row(store, b"%d" % n) for n in range(count + 2)]
    store.commit([put_unit(store, *rows)])
    counts = deletes(store)
    store.commit([get_unit(*rows[1:-1][::order])])
    assert (counts == [2]) is (order == 1)
    assert held(store) == [rows[0].msg_id, rows[-1].msg_id]
    rows = [new_row(store, b"%d" % n) for n in range(5)]
    store.commit([put_unit(store, *rows)])
    counts.clear()
    store.commit([get_unit(rows[0], rows[3], rows[1], rows[4])])
    store.commit([get_unit(rows[2])])
    assert counts == [4, 1]
    assert len(held(store)) == 2
    store.close()


def deletes(store: Store) -> list[int]:
    """Return a list that learns of each statement that deletes messages how many keys it names."""
    counts: list[int] = []

    def trace(_cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        if sql.startswith("DELETE FROM message"):
            counts.append(len(bindings))
        return True

    store.database.writer.exec_trace = trace
    return counts


def test_lives_are_written_in_order_by_few_statements(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(85)]
    store.commit([put_unit(store, *rows)])
    counts = inserts(store, INSERT_LIFE)
    store.commit([get_unit(*rows)])
    assert counts == [64, 16, 5]
    sql = "SELECT position, msg_id FROM ledger ORDER BY position"
    lives = store.database.writer.execute(sql).fetchall()
    assert lives == [(n, row.msg_id) for n, row in enumerate(rows, 1)]
    store.close()


def test_a_row_that_is_there_already_leaves_nothing_of_its_unit(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(SIZES[0] + SIZES[1])]
    store.commit([put_unit(store, rows[70])])
    with pytest.raises(apsw.ConstraintError):
        store.commit([put_unit(store, *rows)])
    assert held(store) == [rows[70].msg_id]
    assert store.ledger_writer.totals[1].puts == 1
    store.close()


def test_large_messages_are_inserted_one_by_one(tmp_path: Path) -> None:
    """SQLite would hold copies of all of them together."""
    store = opened(tmp_path)
    rows = [new_row(store, bytes(2**20)) for _ in range(5)]
    counts = inserts(store)
    store.commit([put_unit(store, *rows)])
    assert counts == [1] * 5
    assert len(held(store)) == 5
    store.close()
