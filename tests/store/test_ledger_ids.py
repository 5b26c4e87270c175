"""Ids of lives are found by their hashes: every life, after any trim, and again after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.testing import VirtualClock
from tests.store.scene import raw

BLOCK = 32
LEFT = 64


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mayfly.store.ledger.BLOCK_ROWS", BLOCK)
    monkeypatch.setattr("mayfly.store.ledger.LEFT_ROWS", LEFT)


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "QM1"


def opened(place: Path | None, clock: VirtualClock, kept: int = 1_000_000) -> QueueManager:
    manager = QueueManager("QM1", place, clock, settings={"ledger.retention_count": kept})
    assert manager.mqsc("DEFINE QLOCAL(Q1) REPLACE").ok
    return manager


def live(manager: QueueManager, count: int) -> list[tuple[bytes, bytes]]:
    """Let messages live and end; every third has a CorrelId. Return the ids."""
    ids = []
    with manager.session(transacted=True) as unit:
        for number in range(count):
            correl_id = b"" if number % 3 else b"C%d" % number
            msg_id = unit.put("Q1", b"", correl_id=correl_id or None)
            assert unit.get("Q1") is not None
            ids.append((msg_id, correl_id))
        unit.commit()
    return ids


def delay(manager: QueueManager, clock: VirtualClock, count: int) -> list[bytes]:
    """Delay messages, some with a given MsgId, of which one is given to all; return their MsgIds.

    They are released or cancelled.
    """
    with manager.session(transacted=True) as unit:
        ids = [unit.put("Q1", b"", delay_ms=1_000, persistent=True) for _ in range(count)]
        late = [unit.put("Q1", b"", delay_ms=9_000, persistent=True) for _ in range(count // 4)]
        for number in range(count // 4):
            given = b"given %d" % number if number % 2 else b"given to all"
            ids.append(unit.put("Q1", b"", msg_id=given, delay_ms=1_000, persistent=True))
        unit.commit()
        for msg_id in late:
            unit.schedule.cancel(msg_id)
        unit.commit()
    clock.advance(1_000)
    return [*ids, *late]


def held(manager: QueueManager) -> dict[bytes, list[int]]:
    """Return the positions of each id in the ledger, read row by row."""
    found: dict[bytes, list[int]] = {}
    after = manager.ledger.first_position() - 1
    for row in manager.ledger.page(after, 100_000):
        life = dict(zip(LEDGER_COLUMNS, row, strict=True))
        if life["kind"] == KIND_LIFE:
            for identifier in {life["msg_id"], life["correl_id"]} - {b"", None}:
                found.setdefault(identifier, []).append(life["position"])
    return found


def pages(manager: QueueManager, identifier: bytes) -> Iterator[int]:
    """Yield how many lives with an id each page has that a search reads."""
    for _oldest_ms, lives in manager.ledger.search(identifier, 100):
        yield len(lives)


def test_every_id_is_found_and_few_pages_are_read(place: Path | None, clock: VirtualClock) -> None:
    with opened(place, clock) as manager:
        live(manager, 500)
        clock.advance(2_000)
        held_ids = held(manager)
        assert len(held_ids) == 500 + 167
        for identifier, positions in held_ids.items():
            found = list(pages(manager, identifier))
            assert sum(found) == len(positions)
            # The end of the ledger, and the block of the life: another one by chance alone.
            assert len(found) <= 3, identifier
        assert list(pages(manager, b"unknown".ljust(24, b"\0"))) in ([0], [0, 0])


def test_ids_are_found_before_and_after_they_get_their_hashes_and_after_a_restart(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with opened(tmp_path, clock) as manager:
        early = live(manager, 5 * BLOCK)
        assert all(manager.why(msg_id).is_known for msg_id, _ in early[::7])
        clock.advance(2_000)
        assert all(manager.why(msg_id).is_known for msg_id, _ in early)
    with opened(tmp_path, clock) as manager:
        late = live(manager, 3 * BLOCK)
        assert all(manager.why(msg_id).is_known for msg_id, _ in (*early, *late))
        clock.advance(2_000)
        assert all(sum(pages(manager, each)) == len(at) for each, at in held(manager).items())


@pytest.mark.parametrize("kept", [1, BLOCK, LEFT + 3 * BLOCK + 1, LEFT + 4 * BLOCK])
def test_trimmed_lives_are_found_no_more_and_their_hashes_go(
    tmp_path: Path, clock: VirtualClock, kept: int
) -> None:
    with opened(tmp_path, clock) as manager:
        ids = live(manager, 12 * BLOCK)
        clock.advance(2_000)
    with opened(tmp_path, clock, kept) as manager:
        clock.advance(2_000)
        known = held(manager)
        assert len(manager.ledger.page(manager.ledger.first_position() - 1, 10_000)) == kept
        for msg_id, _correl_id in ids:
            assert manager.why(msg_id).is_known == (msg_id in known)
        # What ends from here on is found as well, wherever the ledger begins by now.
        live(manager, LEFT + 2 * BLOCK)
        clock.advance(2_000)
        first_block = (manager.ledger.first_position() - 1) // BLOCK
        blocks = {
            after // BLOCK
            for msg_id, _correl_id in ids
            for after, _until in manager.engine.store.ids.blocks_with(msg_id)
        }
        assert min(blocks, default=first_block) >= first_block
        assert all(sum(pages(manager, each)) == len(at) for each, at in held(manager).items())


def test_a_CorrelId_that_all_lives_share_is_told_by_the_latest(
    place: Path | None, clock: VirtualClock
) -> None:
    with opened(place, clock) as manager:
        with manager.session() as session:
            for _ in range(6 * BLOCK):
                session.put("Q1", b"", correl_id=b"all")
                session.get("Q1")
        clock.advance(2_000)
        found = manager.why(b"all")
        assert found.is_cut
        newest = held(manager)[b"all".ljust(24, b"\0")][-1]
        assert manager.ledger.last_position() >= newest
        assert len(found.entries) == 50


@pytest.mark.interpreted
def test_delayed_messages_are_found_by_each_of_their_ids_and_few_pages_are_read(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with opened(tmp_path, clock) as manager:
        ids = delay(manager, clock, 4 * LEFT)
        clock.advance(2_000)
        # Lives of before are behind the end of the ledger that is searched row by row.
        live(manager, 2 * LEFT)
        clock.advance(2_000)
    with opened(tmp_path, clock) as manager:
        assert manager.engine.store.ids.until_position > 5 * LEFT
        known = held(manager)
        assert all(msg_id in known for msg_id in ids)
        for identifier, positions in known.items():
            found = list(pages(manager, identifier))
            assert sum(found) == len(positions), identifier
            assert len(found) <= 3 or len(positions) > 3, identifier
        assert all(manager.why(msg_id).is_known for msg_id in ids)


@pytest.mark.interpreted
def test_lives_of_delayed_messages_whose_index_finds_them_get_no_hashes(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with opened(tmp_path, clock) as manager:
        with manager.session() as session:
            for _ in range(LEFT + 8 * BLOCK):
                session.put("Q1", b"", delay_ms=1_000, persistent=True)
        clock.advance(1_000)
        group = manager.engine.store.group
        before = group.batch_count
        clock.advance(2_000)
        # The balance rows of a release, and blocks by fours.
        assert group.batch_count - before <= 4
        assert manager.engine.store.ids.until_position >= 8 * BLOCK
    with raw(tmp_path) as connection:
        sizes = connection.execute("SELECT sum(length(hashes)) FROM ledger_ids").fetchall()
        assert sizes == [(0,)]
