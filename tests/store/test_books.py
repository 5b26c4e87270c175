"""The ledger by position, totals and balances, and what retention does to readers."""

import subprocess
from pathlib import Path

import pytest

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, LEDGER_COLUMNS
from mayfly.store.ledger_writer import LIVES_BEFORE_BALANCE, POSITIONS_UNSAVED
from mayfly.store.store import Store
from mayfly.store.units import Unit
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.contracts.outcomes import unpack_counts
from tests.store.scene import (
    NOW_MS,
    NUMBER,
    get_unit,
    life,
    new_row,
    opened,
    put_unit,
    statement,
)

PLACE = {name: n for n, name in enumerate(LEDGER_COLUMNS)}


def live(store: Store, count: int) -> None:
    """Put and get messages, a transaction each way."""
    rows = [new_row(store) for _ in range(count)]
    store.commit([put_unit(store, *rows)])
    store.commit([get_unit(*rows)])


def positions(store: Store, after: int = 0, limit: int = 1_000_000) -> list[int]:
    return [row[0] for row in store.ledger.page(after, limit)]


@pytest.mark.parametrize("on_disk", [True, False])
def test_positions_are_dense_and_read_the_same_every_time(tmp_path: Path, on_disk: bool) -> None:
    store = opened(tmp_path if on_disk else None)
    assert (store.ledger.first_position(), store.ledger.last_position()) == (1, 0)
    assert positions(store) == []
    live(store, 5)
    store.write_balances()
    live(store, 4)
    assert (store.ledger.first_position(), store.ledger.last_position()) == (1, 10)
    rows = store.ledger.page(0, 100)
    assert [row[0] for row in rows] == list(range(1, 11))
    assert [row[PLACE["kind"]] for row in rows] == [KIND_LIFE] * 5 + [KIND_BALANCE] + [
        KIND_LIFE
    ] * 4
    assert store.ledger.page(3, 4) == rows[3:7]
    assert store.ledger.page(10, 4) == []
    store.close()
    if on_disk:
        again = opened(tmp_path)
        assert again.ledger.page(0, 100) == rows
        live(again, 1)
        assert positions(again, 10) == [11]
        again.close()


def test_lives_of_non_persistent_messages_come_with_the_next_reader(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(3)]
    for unit in (
        put_unit(store, *rows, persistent=False),
        get_unit(*rows[:2], persistent=False),
    ):
        store.commit([unit])
        with store.engine_lock:
            store.apply(unit)
    assert [row[PLACE["msg_id"]] for row in store.ledger.page(0, 10)] == [
        row.msg_id for row in rows[:2]
    ]
    totals = store.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, totals.present_volatile) == (3, 1, 1)
    store.close()


def test_a_balance_says_put_is_ended_and_present_at_its_position(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(LIVES_BEFORE_BALANCE)]
    store.commit([put_unit(store, *rows)])
    for part in (rows[:-2], rows[-2:-1]):
        store.commit([get_unit(*part)])
    ledger = store.ledger.page(0, 1_000_000)
    balances = [row for row in ledger if row[PLACE["kind"]] == KIND_BALANCE]
    assert len(balances) == 1
    position, ended = balances[0][0], unpack_counts(balances[0][PLACE["ended"]])
    lives_before = sum(row[0] < position for row in ledger)
    assert balances[0][PLACE["queue"]] == "Q1"
    assert balances[0][PLACE["ended_ms"]] == NOW_MS
    assert ended == {"got": lives_before}
    assert balances[0][PLACE["puts"]] == ended["got"] + balances[0][PLACE["present"]]
    assert [b.is_balanced() for b in store.ledger_writer.balances()] == [True]
    store.close()


def test_retention_trims_and_a_reader_of_what_is_gone_is_told(tmp_path: Path) -> None:
    store = opened(tmp_path)
    live(store, 10)
    assert store.retention.trim(10) == 0
    assert store.retention.trim(4) == 6
    assert (store.ledger.first_position(), store.ledger.last_position()) == (7, 10)
    assert positions(store, 6) == [7, 8, 9, 10]
    for after in (0, 5):
        with pytest.raises(PositionTrimmed) as gone:
            store.ledger.page(after, 100)
        assert (gone.value.after_position, gone.value.first_position) == (after, 7)
    store.close()


def test_positions_go_on_after_everything_was_trimmed_and_reopened(tmp_path: Path) -> None:
    store = opened(tmp_path)
    live(store, 3)
    assert store.retention.trim(0) == 3
    assert (store.ledger.first_position(), store.ledger.last_position()) == (4, 3)
    assert positions(store, 3) == []
    store.close()
    again = opened(tmp_path)
    assert again.ledger.last_position() == 3
    live(again, 1)
    assert positions(again, 3) == [4]
    with pytest.raises(PositionTrimmed):
        again.ledger.page(0, 10)
    again.close()


def test_totals_survive_reopening(tmp_path: Path) -> None:
    store = opened(tmp_path)
    live(store, 7)
    store.commit([put_unit(store)])
    store.close()
    again = opened(tmp_path)
    totals = again.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, sum(totals.ended.values())) == (8, 1, 7)
    again.close()


def saved_puts_and_ends(store: Store) -> tuple[int, int]:
    """Return the totals of Q1 as the table holds them."""
    [(puts, ended)] = store.database.writer.execute(
        "SELECT puts, ended FROM counter WHERE queue_id = ?", (NUMBER,)
    ).fetchall()
    return int(str(puts)), sum(unpack_counts(str(ended)).values())


def crashed_copy(folder: Path, copy: Path) -> Store:
    """Open what a crash would leave of a folder whose store is open."""
    copy.mkdir()
    # Not by this process: whoever closes a file gives up all locks that its process has on it.
    subprocess.run(["cp", "-r", f"{folder}/.", copy], check=True)
    return opened(copy)


def test_ends_alone_save_no_totals_and_an_opening_adds_them(tmp_path: Path) -> None:
    store = opened(tmp_path / "alive")
    rows = [new_row(store) for _ in range(5)]
    store.commit([put_unit(store, *rows)])
    for row in rows[:3]:
        store.commit([get_unit(row)])
    assert saved_puts_and_ends(store) == (5, 0)
    again = crashed_copy(tmp_path / "alive", tmp_path / "crashed")
    totals = again.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, sum(totals.ended.values())) == (5, 2, 3)
    assert totals.ended == store.ledger_writer.totals[NUMBER].ended
    # What the opening has added is saved with the next number of messages, and counted once.
    assert saved_puts_and_ends(again) == (5, 3)
    again.commit([get_unit(rows[3])])
    assert saved_puts_and_ends(again) == (5, 3)
    twice = crashed_copy(tmp_path / "crashed", tmp_path / "twice")
    assert twice.ledger_writer.totals[NUMBER].present == 1
    for each in (store, again, twice):
        each.close()


def test_an_opening_reads_no_more_than_the_lives_of_a_thousand_positions(tmp_path: Path) -> None:
    store = opened(tmp_path / "alive")
    rows = [new_row(store) for _ in range(POSITIONS_UNSAVED + 1)]
    store.commit([put_unit(store, *rows)])
    for row in rows[: POSITIONS_UNSAVED - 1]:
        store.commit([get_unit(row)])
    assert saved_puts_and_ends(store) == (POSITIONS_UNSAVED + 1, 0)
    store.commit([get_unit(rows[-2])])
    assert saved_puts_and_ends(store) == (POSITIONS_UNSAVED + 1, POSITIONS_UNSAVED)
    store.commit([get_unit(rows[-1])])
    again = crashed_copy(tmp_path / "alive", tmp_path / "crashed")
    totals = again.ledger_writer.totals[NUMBER]
    assert (totals.present, sum(totals.ended.values())) == (0, POSITIONS_UNSAVED + 1)
    store.close()
    again.close()


def test_the_totals_of_a_queue_at_rest_are_saved_with_those_of_a_busy_one(tmp_path: Path) -> None:
    """Else an opening would have to read back to when it was last busy."""
    store = opened(tmp_path / "alive")
    store.ledger_writer.totals.open_queue(2, "Q2")
    rows = [new_row(store) for _ in range(2)]
    store.commit([put_unit(store, *rows)])
    store.commit([get_unit(rows[0])])
    others = Unit()
    for _ in range(POSITIONS_UNSAVED):
        others.pass_through(2, life(b"other")._replace(queue="Q2"))
    store.commit([others])
    assert saved_puts_and_ends(store) == (2, 1)
    again = crashed_copy(tmp_path / "alive", tmp_path / "crashed")
    assert [again.ledger_writer.totals[n].present for n in (NUMBER, 2)] == [1, 0]
    store.close()
    again.close()


def test_what_retention_trims_has_been_added(tmp_path: Path) -> None:
    store = opened(tmp_path / "alive")
    rows = [new_row(store) for _ in range(4)]
    store.commit([put_unit(store, *rows)])
    for row in rows[:3]:
        store.commit([get_unit(row)])
    assert store.retention.trim(1) == 2
    again = crashed_copy(tmp_path / "alive", tmp_path / "crashed")
    totals = again.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, sum(totals.ended.values())) == (4, 1, 3)
    store.close()
    again.close()


def test_a_queue_of_a_deleted_ones_name_does_not_inherit_its_lives(tmp_path: Path) -> None:
    store = opened(tmp_path / "alive")
    row, new = new_row(store), new_row(store)
    store.commit([put_unit(store, row)])
    store.commit([get_unit(row)])
    store.ledger_writer.totals.forget_queue(NUMBER)
    store.commit([statement("DELETE FROM counter WHERE queue_id = ?", NUMBER)])
    store.ledger_writer.totals.open_queue(NUMBER, "Q1")
    store.commit([put_unit(store, new)])
    again = crashed_copy(tmp_path / "alive", tmp_path / "crashed")
    totals = again.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, sum(totals.ended.values())) == (1, 1, 0)
    store.close()
    again.close()
