"""Copies of one publication store once what they have in common, as long as there is a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from mayfly.mqi.errors import ConnectionBroken, StoreDamaged
from mayfly.store.contents import LEAST_COPIES
from mayfly.store.keys import id_hash
from mayfly.store.store import Store
from mayfly.store.units import EndedMessages, StoredMessage, Unit
from tests.store.scene import (
    NOW_MS,
    NUMBER,
    contents,
    get_unit,
    held,
    new_copies,
    new_row,
    opened,
    put_unit,
    raw,
    statement,
)

LOW, HIGH = NUMBER << 48, (NUMBER + 1) << 48
BODY = b"what all have in common"


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store; what it holds when the test ends is in order."""
    store = opened(None if request.param == "memory" else tmp_path)
    yield store
    assert store.check() == []
    store.close()


def rows(store: Store) -> list[StoredMessage]:
    return store.persistent.in_order(LOW, HIGH, 1_000)


def own_bytes(store: Store) -> list[int]:
    """Return how long the data are that stand in the rows of messages themselves, by key."""
    found = store.persistent.fetch("SELECT length(body) FROM message ORDER BY k", ())
    return [length for (length,) in found]


@pytest.mark.parametrize("count", [1, LEAST_COPIES - 1, LEAST_COPIES, 64, 100])
def test_copies_share_their_content_from_the_fourth_on(store: Store, count: int) -> None:
    copies = new_copies(store, BODY, count)
    store.commit([put_unit(store, *copies)])
    shares = count >= LEAST_COPIES
    assert contents(store) == ([BODY] if shares else [])
    assert own_bytes(store) == [0 if shares else len(BODY)] * count
    assert rows(store) == copies


def test_every_read_shows_whole_copies(store: Store) -> None:
    copies = [
        row._replace(correl_hash=id_hash(b"c" * 24), correl_id=b"c" * 24, expire_at_ms=NOW_MS)
        for row in new_copies(store, BODY)
    ]
    store.commit([put_unit(store, *copies)])
    assert contents(store) == [BODY]
    messages, msg_id = store.persistent, copies[0].msg_id
    assert messages.row(copies[1].k) == copies[1]
    assert messages.by_msg_id(msg_id, LOW, HIGH, 9) == copies
    assert messages.by_correl_id(id_hash(b"c" * 24), LOW, HIGH, 9) == copies
    assert messages.expired(NOW_MS, 0, 0, 9) == copies
    assert messages.described(LOW, HIGH, 9) == [(row.k, row.descriptor) for row in copies]
    assert [one.body_bytes for one in messages.outlines(LOW, HIGH, 9)] == [len(BODY)] * 4
    assert [(one.body_bytes, one.row) for one in messages.with_id([NUMBER], msg_id, 9)] == [
        (len(BODY), row) for row in copies
    ]


def test_each_copy_has_its_own_times_ids_and_cap(store: Store) -> None:
    first, second, third, fourth = new_copies(store, BODY)
    copies = [
        first._replace(expire_at_ms=NOW_MS + 5, capped_by="Q1"),
        second._replace(correl_id=b"c" * 24, correl_hash=7),
        third._replace(put_ms=NOW_MS + 1),
        fourth,
    ]
    store.commit([put_unit(store, *copies)])
    assert contents(store) == [BODY]
    assert rows(store) == copies


@pytest.mark.parametrize(
    "change",
    [
        {"body": b"another"},
        {"topic": "a/c"},
        {"topic": None},
        {"descriptor": b"d"},
        {"msg_id": b"m" * 24},
        {"deliver_at_ms": NOW_MS},
        {"origin_id": b"o" * 24},
        {"backout_count": 1},
        {"only_here": 1},
        {"target": "Q2", "sub_id": b"s"},
        {"released_by": "anna"},
    ],
)
def test_what_is_different_is_stored_by_itself(store: Store, change: dict[str, Any]) -> None:
    *copies, other = new_copies(store, BODY, LEAST_COPIES + 1)
    both = [*copies, other._replace(**change), new_row(store)]
    store.commit([put_unit(store, *both)])
    assert contents(store) == [BODY]
    assert own_bytes(store) == [0] * LEAST_COPIES + [len(row.body) for row in both[-2:]]
    assert rows(store) == both


def test_publications_of_one_unit_have_each_their_content(store: Store) -> None:
    one, two = new_copies(store, b"one"), new_copies(store, b"two")
    mixed = [row for pair in zip(one, two, strict=True) for row in pair]
    store.commit([put_unit(store, *mixed)])
    assert contents(store) == [b"one", b"two"]
    assert rows(store) == sorted(mixed)
    store.commit([get_unit(*one)])
    assert contents(store) == [b"two"]
    assert rows(store) == two


def test_another_publication_with_the_same_msg_id_has_whole_copies(store: Store) -> None:
    first, second, third = (new_copies(store, body) for body in (b"one", b"two", b"three"))
    msg_id, msg_hash = first[0].msg_id, first[0].msg_hash
    second, third = (
        [row._replace(msg_id=msg_id, msg_hash=msg_hash) for row in copies]
        for copies in (second, third)
    )
    store.commit([put_unit(store, *first, *second)])
    assert contents(store) == [b"one"]
    found = store.persistent.by_msg_id(msg_id, LOW, HIGH, 9)
    assert found == [*first, *second]
    assert store.persistent.by_msg_id(msg_id, LOW, HIGH, 5) == [*first, second[0]]
    assert store.persistent.by_msg_id(msg_id, second[1].k, HIGH, 1) == [second[1]]
    store.commit([get_unit(*first)])
    store.commit([put_unit(store, *third)])
    assert contents(store) == [b"three"]
    assert store.persistent.by_msg_id(msg_id, LOW, HIGH, 9) == [*second, *third]
    assert [one.row for one in store.persistent.with_id([NUMBER], msg_id, 9)] == [*second, *third]


def test_a_content_goes_with_the_last_copy_and_not_before(store: Store) -> None:
    copies = new_copies(store, BODY, 5)
    store.commit([put_unit(store, *copies)])
    while copies:
        assert contents(store) == [BODY]
        store.commit([get_unit(copies.pop())])
        assert rows(store) == copies
    assert contents(store) == []


@pytest.mark.parametrize("count", [LEAST_COPIES, 70])
@pytest.mark.parametrize("step", [1, 2])
def test_a_content_goes_with_all_copies_at_once(store: Store, count: int, step: int) -> None:
    """A run of keys is deleted as a range, others by a list."""
    copies = new_copies(store, BODY, count * step)[::step]
    store.commit([put_unit(store, *copies)])
    assert contents(store) == [BODY]
    store.commit([get_unit(*copies)])
    assert contents(store) == []


def test_a_content_goes_whichever_statement_removes_its_copies(store: Store) -> None:
    store.commit([put_unit(store, *new_copies(store, BODY))])
    store.commit([statement("DELETE FROM message WHERE put_ms > 0")])
    assert contents(store) == []


def test_a_content_comes_and_goes_in_one_transaction(store: Store) -> None:
    copies = new_copies(store, BODY)
    store.commit([put_unit(store, *copies)])
    unit = put_unit(store, *new_copies(store, b"new"))
    for row in copies:
        unit.deletes.append((row.k,))
    store.commit([unit])
    assert contents(store) == [b"new"]


def test_copies_of_a_unit_that_fails_leave_no_content(store: Store) -> None:
    copies = new_copies(store, BODY)
    with pytest.raises(apsw.ConstraintError):
        store.commit([put_unit(store, *copies, copies[0])])
    assert contents(store) == []
    assert rows(store) == []
    # The trigger that would remove the next one has gone as well.
    copies = new_copies(store, BODY)
    store.commit([put_unit(store, *copies)])
    store.commit([get_unit(*copies)])
    assert contents(store) == []


def together(rows: list[StoredMessage]) -> Unit:
    """Return the unit that ends lives that are alike."""
    keys = [row.k for row in rows]
    lives = EndedMessages(keys, "Q1", NOW_MS, "got", 0, 0, "", "", None, None, None)
    unit = Unit()
    unit.end_all(NUMBER, [], [(key,) for key in keys], [lives])
    return unit


def test_records_of_lives_are_read_off_copies_with_their_content(store: Store) -> None:
    copies = new_copies(store, BODY, 20)
    store.commit([put_unit(store, *copies)])
    for part in (copies[:8], copies[8::2], copies[9::2]):
        store.commit([together(part)])
    found = store.persistent.fetch("SELECT msg_id, body_bytes FROM ledger ORDER BY position", ())
    assert found == [(copies[0].msg_id, len(BODY))] * 20
    assert contents(store) == []


def test_a_restart_finds_copies_and_content(tmp_path: Path) -> None:
    store = opened(tmp_path)
    copies = new_copies(store, BODY)
    store.commit([put_unit(store, *copies)])
    store.close()
    store = opened(tmp_path)
    assert rows(store) == copies
    store.commit([together(copies)])
    assert contents(store) == []
    found = store.persistent.fetch("SELECT msg_id, body_bytes FROM ledger", ())
    assert found == [(copies[0].msg_id, len(BODY))] * len(copies)
    assert store.check() == []
    store.close()


def damage(folder: Path, sql: str) -> None:
    """Publish, and run a statement by hand on the folder."""
    store = opened(folder)
    store.commit([put_unit(store, *new_copies(store, BODY))])
    store.close()
    connection = raw(folder)
    connection.execute(sql)
    connection.close()


def test_verify_finds_a_content_without_copies(tmp_path: Path) -> None:
    damage(tmp_path, "INSERT INTO content VALUES (7, 1, x'', x'', x'', 'a')")
    store = opened(tmp_path)
    assert store.check() == ["content 7 has no copy"]
    assert len(held(store)) == LEAST_COPIES
    store.close()


def test_a_copy_without_its_content_is_damage_and_verify_finds_it(tmp_path: Path) -> None:
    damage(tmp_path, "DELETE FROM content")
    store = opened(tmp_path)
    assert store.check() == ["content 1, to which copies refer, is missing"]
    with pytest.raises(StoreDamaged, match="content 1 of copies is missing"):
        held(store)
    with pytest.raises(ConnectionBroken):
        store.commit([put_unit(store)])
    store.close()
    store = opened(tmp_path)
    with pytest.raises(StoreDamaged):
        store.persistent.outlines(LOW, HIGH, 9)
    with pytest.raises(StoreDamaged):
        store.persistent.page(LOW, HIGH, 9, 1_000)
    store.close()
