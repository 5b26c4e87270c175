"""Staged messages go to their target together: those that were meant, whatever lies between."""

import enum
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS
from mayfly.store.store import Store
from mayfly.store.units import StagedMove, StoredMessage, Unit
from mayfly.testing import VirtualClock
from tests.spec.scene import bodies, local
from tests.store.scene import NOW_MS, NUMBER, get_unit, held, new_row, opened, put_unit

#: Moved keys lie behind all others.
_NEW_KEY = (NUMBER << 48) + (1 << 47)


class Kind(enum.Enum):
    """How a move says which keys it is about; the last is what intents of older versions say."""

    RUN = "run"
    PAIRS = "pairs"
    RUN_OF_PAIRS = "run of pairs"


def move_unit(rows: Sequence[StoredMessage], new_keys: Sequence[int], kind: Kind) -> Unit:
    """Return a unit that moves messages as a release does: it says between which keys they are."""
    unit = Unit()
    keys = json.dumps({row.k: key for row, key in zip(rows, new_keys, strict=True)})
    old_keys = [row.k for row in rows] if kind == Kind.RUN else None
    common = ("Q1", NOW_MS, "released", 5, 0, "", "", 208)
    first_new_key = 0 if kind == Kind.PAIRS else new_keys[0]
    between = rows[0].k, rows[-1].k
    move = StagedMove(
        "" if old_keys else keys, len(rows), *common, *between, first_new_key, old_keys
    )
    unit.move(NUMBER, NUMBER, move)
    return unit


def lives(store: Store) -> list[tuple[int, bytes | None]]:
    sql = "SELECT position, correl_id FROM ledger ORDER BY position"
    found: Any = store.database.writer.execute(sql).fetchall()
    return [(position, msg_id or None) for position, msg_id in found]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("stays", [(), (0,), (3,), (5,), (0, 2, 3, 5)])
def test_only_the_messages_that_were_meant_move(
    tmp_path: Path, stays: tuple[int, ...], kind: Kind
) -> None:
    store = opened(tmp_path)
    rows = [new_row(store, b"%d" % n) for n in range(6)]
    got = new_row(store)
    store.commit([put_unit(store, *rows, got)])
    store.commit([get_unit(got)])
    moved = [row for n, row in enumerate(rows) if n not in stays]
    left = [row for n, row in enumerate(rows) if n in stays]
    step = 2 if kind == Kind.PAIRS else 1
    new_keys = [_NEW_KEY + step * n for n in range(len(moved))]
    store.commit([move_unit(moved, new_keys, kind)])
    assert held(store) == [row.msg_id for row in (*left, *moved)]
    assert [store.persistent.row(key) is not None for key in new_keys] == [True] * len(moved)
    assert lives(store)[1:] == [(n, row.msg_id) for n, row in enumerate(moved, 2)]
    totals = store.ledger_writer.totals[NUMBER]
    assert (totals.present, totals.ended["released"]) == (6, len(moved))
    store.close()


@pytest.mark.parametrize("stays", [(), (700,)])
def test_a_run_of_several_parts_keeps_its_order(tmp_path: Path, stays: tuple[int, ...]) -> None:
    store = opened(tmp_path)
    rows = [new_row(store, b"%d" % n) for n in range(1_100)]
    store.commit([put_unit(store, *rows)])
    moved = [row for n, row in enumerate(rows) if n not in stays]
    new_keys = range(_NEW_KEY, _NEW_KEY + len(moved))
    store.commit([move_unit(moved, new_keys, Kind.RUN)])
    found = [store.persistent.row(key) for key in new_keys]
    assert [row and row.body for row in found] == [row.body for row in moved]
    assert held(store)[: len(stays)] == [rows[n].msg_id for n in stays]
    assert lives(store) == [(n, row.msg_id) for n, row in enumerate(moved, 1)]
    store.close()


def test_a_run_one_of_which_is_gone_moves_nothing_and_stops_the_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(3)]
    store.commit([put_unit(store, *rows)])
    store.commit([get_unit(rows[1])])
    with pytest.raises(AssertionError):
        store.commit([move_unit(rows, range(_NEW_KEY, _NEW_KEY + 3), Kind.RUN)])
    assert held(store) == [rows[0].msg_id, rows[2].msg_id]
    store.close()


def test_two_targets_whose_messages_alternate_get_theirs_in_due_order(tmp_path: Path) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm:
        names = [local(qm), local(qm, "Q2")]
        with qm.session(transacted=True) as session:
            for n in range(10):
                delay_ms = SECOND_MS + 10 - n
                session.put(names[n % 2], b"%d" % n, persistent=True, delay_ms=delay_ms)
            session.commit()
        clock.advance(2 * SECOND_MS)
        with qm.session() as session:
            assert bodies(session, "Q1") == [b"8", b"6", b"4", b"2", b"0"]
            assert bodies(session, "Q2") == [b"9", b"7", b"5", b"3", b"1"]
        assert qm.verify().ok
