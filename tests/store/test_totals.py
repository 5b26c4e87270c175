"""Totals of many queues that grow alike are saved by one statement; others by their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayfly.store.keys import order_key
from mayfly.store.store import Store
from mayfly.store.units import Unit
from tests.store.scene import get_unit, new_row, opened, put_unit, statement

QUEUES = range(1, 13)


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store with twelve queues whose totals were saved once."""
    store = opened(None if request.param == "memory" else tmp_path)
    for number in QUEUES:
        store.ledger_writer.totals.open_queue(number, f"Q{number}")
    publish(store)
    yield store
    store.close()


def publish(store: Store, copies: int = 1, *, volatile: frozenset[int] = frozenset()) -> None:
    """Put as many messages to each queue by one unit."""
    unit = Unit()
    for _ in range(copies):
        for number in QUEUES:
            row = new_row(store)
            row = row._replace(k=order_key(number, 5, row.k & 0xFFFFFFFF))
            unit.put(number, row, persistent=number not in volatile)
    store.commit([unit])


def saved(store: Store) -> dict[int, tuple[Any, ...]]:
    """Return what the table has, by number."""
    rows = store.persistent.fetch("SELECT * FROM counter", ())
    return {number: tuple(rest) for number, *rest in rows}


def held(store: Store, position: int) -> dict[int, tuple[Any, ...]]:
    return {
        number: totals.row(number, position)[1:]
        for number, totals in store.ledger_writer.totals.items()
    }


def test_each_queue_has_as_many_puts_more(store: Store) -> None:
    publish(store)
    publish(store, copies=3)
    assert [puts for _queue, puts, *_rest in saved(store).values()] == [5] * len(QUEUES)
    assert saved(store) == held(store, store.ledger_writer.last_position)


def test_a_queue_whose_ends_are_unsaved_is_saved_by_its_values(store: Store) -> None:
    row = new_row(store)
    store.commit([put_unit(store, row)])
    store.commit([get_unit(row)])
    # Its life tells of the end.
    assert saved(store)[1] != held(store, 0)[1]
    publish(store)
    assert saved(store) == held(store, store.ledger_writer.last_position)
    assert saved(store)[1][1:3] == (3, 2)


def test_a_queue_that_was_never_saved_is_saved_with_all_others(store: Store) -> None:
    store.commit([statement("DELETE FROM counter WHERE queue_id = ?", 3)])
    publish(store)
    assert saved(store) == held(store, store.ledger_writer.last_position)


def test_a_number_that_becomes_another_queues_is_saved_with_its_name(store: Store) -> None:
    store.ledger_writer.totals.open_queue(3, "ANOTHER")
    publish(store)
    assert saved(store)[3][0] == "ANOTHER"
    assert saved(store) == held(store, store.ledger_writer.last_position)


def test_non_persistent_messages_among_them_are_counted_as_such(store: Store) -> None:
    publish(store, volatile=frozenset({4, 5}))
    assert saved(store) == held(store, store.ledger_writer.last_position)
    assert [saved(store)[number][3] for number in (3, 4, 5)] == [0, 1, 1]


def test_a_unit_that_fails_counts_nothing(store: Store) -> None:
    before = saved(store)
    unit = Unit()
    for number in QUEUES:
        row = new_row(store)
        unit.put(number, row._replace(k=order_key(number, 5, row.k & 0xFFFFFFFF)), persistent=True)
    unit.statements.append(("INSERT INTO meta VALUES (?, ?)", ("instance_id", 1)))
    with pytest.raises(Exception, match="UNIQUE"):
        store.commit([unit])
    assert saved(store) == before
    publish(store)
    assert saved(store) == held(store, store.ledger_writer.last_position)


def test_reopened_the_totals_are_the_same(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in QUEUES:
        store.ledger_writer.totals.open_queue(number, f"Q{number}")
    for _ in range(3):
        publish(store)
    before = held(store, 0)
    store.close()
    again = opened(tmp_path)
    assert held(again, 0) == before
    again.close()
