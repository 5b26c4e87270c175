"""Due before new: which of the waiting commits share the next transaction."""

from pathlib import Path

import apsw
import pytest

from mayfly.runtime.runtime import MachineSignal
from mayfly.store import group_commit
from mayfly.store.group_commit import (
    MAX_NEW_BESIDE_RELEASE,
    MAX_NEW_MESSAGES,
    Commit,
    next_transaction,
)
from mayfly.store.store import Store
from mayfly.store.units import StagedMove, StoredMessage, Unit
from tests.spec.scene import JOIN_SECONDS, Running
from tests.store.scene import (
    NOW_MS,
    NUMBER,
    gate,
    get_unit,
    life,
    new_row,
    opened,
    put_unit,
)
from tests.store.test_group_commit import GatherRuntime, queued, shared_by_two


def release_unit(row: StoredMessage, new_key: int) -> Unit:
    """Return a unit that brings one message to another key of its queue, as a release does."""
    unit, keys = Unit(), f'{{"{row.k}":{new_key}}}'
    unit.move(NUMBER, NUMBER, StagedMove(keys, 1, "Q1", NOW_MS, "released", 5, 0, "", "", 208))
    return unit


def commit_of(*units: Unit) -> Commit:
    return Commit(units, MachineSignal())


def new(store: Store, count: int) -> Commit:
    return commit_of(put_unit(store, *(new_row(store) for _ in range(count))))


def release(store: Store) -> Commit:
    row = new_row(store)
    return commit_of(release_unit(row, row.k + 1))


def test_new_messages_share_a_transaction_as_far_as_its_room_reaches(tmp_path: Path) -> None:
    store = opened(tmp_path)
    first, second, third, small = (new(store, n) for n in (MAX_NEW_MESSAGES - 100, 100, 1, 1))
    assert next_transaction([first, second, third, small]) == ([first, second], [third, small])
    assert next_transaction([third, small]) == ([third, small], [])
    store.close()


def test_a_unit_larger_than_the_room_goes_alone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    large, small = new(store, MAX_NEW_MESSAGES + 1), new(store, 1)
    assert next_transaction([large, small]) == ([large], [small])
    assert next_transaction([small, large]) == ([small], [large])
    store.close()


def test_gets_go_with_the_next_transaction_whatever_waits_before_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(MAX_NEW_MESSAGES + 1)]
    answering = put_unit(store)
    answering.end(NUMBER, rows[0].k, life(rows[0].msg_id))
    for unit in (get_unit(*rows), answering):
        large, other, got = new(store, MAX_NEW_MESSAGES), new(store, 1), commit_of(unit)
        assert next_transaction([large, other, got]) == ([large, got], [other])
    store.close()


def test_a_release_goes_before_many_new_messages_and_with_few(tmp_path: Path) -> None:
    store = opened(tmp_path)
    few, many, due = new(store, 1), new(store, MAX_NEW_BESIDE_RELEASE), release(store)
    assert next_transaction([few, due]) == ([few, due], [])
    # New messages keep their order: the last of them might have had room.
    last = new(store, 1)
    assert next_transaction([few, many, due, last]) == ([few, due], [many, last])
    store.close()


def test_new_messages_wait_for_one_release_and_not_for_the_next(tmp_path: Path) -> None:
    store = opened(tmp_path)
    first, second, due, again = new(store, 100), new(store, 100), release(store), release(store)
    now, later = next_transaction([first, second, due])
    assert (now, later) == ([due], [first, second])
    now, later = next_transaction([*later, again])
    assert (now, later) == ([first, again], [second])
    assert next_transaction([*later, release(store)])[0][0] is second
    store.close()


def test_a_release_overtakes_the_puts_that_wait_and_they_come_at_once_after_it(
    tmp_path: Path,
) -> None:
    """The first of the puts is given the lead, and leads for the release, then for itself."""
    with gate() as opening:
        store = opened(tmp_path)
    due = new_row(store)
    store.commit([put_unit(store, due)])
    new_key = new_row(store).k
    puts = [put_unit(store, *(new_row(store) for _ in range(30))) for _ in range(2)]
    seen: list[tuple[bool, int]] = []

    def committed(_connection: apsw.Connection, _name: str, _pages: int) -> int:
        keys = [row.k for row in store.persistent.in_order(NUMBER << 48, (NUMBER + 1) << 48, 99)]
        seen.append((new_key in keys, len(keys) - 1))
        return apsw.SQLITE_OK

    store.database.writer.set_wal_hook(committed)
    assert opening.batch(store, *puts, release_unit(due, new_key)) == [None] * 3
    assert seen == [(True, 0), (True, 60)]
    totals = store.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, totals.ended) == (62, 61, {"released": 1})
    # Nobody is left who leads: the next commit does.
    store.commit([put_unit(store)])
    assert seen[-1] == (True, 61)
    store.close()


def test_units_around_a_release_are_written_at_one_go_and_a_bad_one_fails_alone(
    tmp_path: Path,
) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    there = [new_row(store) for _ in range(2)]
    store.commit([put_unit(store, *there)])
    bad = put_unit(store, there[0])
    units = [put_unit(store), bad, release_unit(there[1], new_row(store).k), put_unit(store)]
    before = store.group.batch_count
    outcomes = opening.batch(store, *units)
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        apsw.ConstraintError,
        type(None),
        type(None),
    ]
    assert store.group.batch_count == before + 2
    assert store.ledger_writer.totals[NUMBER].present == 4
    store.close()


def test_a_release_does_not_wait_for_those_who_shared_the_last_transaction(tmp_path: Path) -> None:
    runtime = GatherRuntime()
    with gate() as opening:
        store = opened(tmp_path, runtime=runtime)
    due = new_row(store)
    store.commit([put_unit(store, due)])
    shared_by_two(store, opening)
    runtime.gathers.clear()
    store.commit([release_unit(due, new_row(store).k)])
    assert runtime.gathers == []
    store.close()


def test_a_release_ends_the_wait_of_a_leader_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    due = new_row(store)
    store.commit([put_unit(store, due)])
    assert opening.batch(store, *(put_unit(store) for _ in range(3))) == [None] * 3
    before = store.group.batch_count
    # Three have shared a transaction, so the next leader waits for two more.
    monkeypatch.setattr(group_commit, "GATHER_SECONDS", 10 * JOIN_SECONDS)
    first = Running(lambda: store.commit([put_unit(store)]))
    queued(store, 1)
    assert first.is_under_way
    store.commit([release_unit(due, new_row(store).k)])
    first.finish()
    assert store.group.batch_count == before + 1
    store.close()
