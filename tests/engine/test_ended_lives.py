"""Questions about ended lives find what the ledger holds, page by page and by time."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mayfly import QueueManager
from mayfly.engine.api.operating import (
    EndedFilter,
    ended_messages,
    ended_summary,
    expired_present,
    write_trace,
)
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.pipeline.replay.trace import LIFE_COLUMNS, REPLAYED, read_trace, trace_of_lives
from mayfly.testing import VirtualClock


def all_lives(manager: QueueManager) -> list[dict[str, object]]:
    """Return all lives of the ledger, the newest first."""
    first = manager.ledger.first_position()
    rows = manager.ledger.page(first - 1, 100_000)
    lives = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in rows]
    return [life for life in reversed(lives) if life["kind"] == KIND_LIFE]


def positions(manager: QueueManager, where: EndedFilter, limit: int) -> list[int]:
    """Return the positions of all pages."""
    found, before, pages = list[int](), None, 0
    while True:
        page = ended_messages(manager.engine, where, limit, before)
        assert len(page.ended_messages) <= limit
        found += [position for position, _life in page.ended_messages]
        before, pages = page.next_before, pages + 1
        if before is None:
            return found


@pytest.mark.parametrize("seed", range(4))
def test_lives_are_found_by_queue_outcome_time_and_id(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.engine.ended_lives.READ_ROWS", 7)
    monkeypatch.setattr("mayfly.engine.ended_lives.MAX_ROWS", 20)
    chosen, clock = random.Random(seed), VirtualClock()
    with QueueManager("QM1", tmp_path if seed % 2 else None, clock=clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
        ids: list[bytes] = []
        with manager.session() as session:
            for _ in range(120):
                queue = chosen.choice(["Q1", "Q2"])
                if chosen.random() < 0.5:
                    life = chosen.choice([None, 100])
                    ids.append(
                        session.put(
                            queue, b"x", time_to_live_ms=life, persistent=chosen.random() < 0.5
                        )
                    )
                else:
                    session.get(queue)
                clock.advance(chosen.choice([0, 50, 90_000]))
        lives = all_lives(manager)
        low_ms, high_ms = sorted(
            chosen.choice([int(str(life["ended_ms"])) for life in lives]) for _ in "ab"
        )
        for where in (
            EndedFilter(),
            EndedFilter("Q1"),
            EndedFilter(outcome="expired"),
            EndedFilter(None, "got", low_ms, high_ms),
            EndedFilter("Q2", None, low_ms),
            EndedFilter(identifier=chosen.choice(ids)),
            EndedFilter("NONE"),
        ):
            wanted = [life for life in lives if is_meant(life, where)]
            for limit in (1, 6, 1_000):
                assert positions(manager, where, limit) == [life["position"] for life in wanted]
            summary = ended_summary(manager.engine, where)
            counts = Counter((str(life["queue"]), str(life["outcome"])) for life in wanted)
            assert (summary.counts, summary.is_cut) == (counts, False)


def is_meant(life: dict[str, object], where: EndedFilter) -> bool:
    """Return True if a filter matches a life."""
    ended_ms = int(str(life["ended_ms"]))
    return (
        where.queue in (None, life["queue"])
        and where.outcome in (None, life["outcome"])
        and (where.from_ms is None or ended_ms >= where.from_ms)
        and (where.before_ms is None or ended_ms < where.before_ms)
        and where.identifier in (None, life["msg_id"], life["correl_id"])
    )


@pytest.mark.interpreted
def test_a_summary_that_is_cut_says_so(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.engine.ended_lives.MAX_COUNTED", 3)
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with queue_manager.session() as session:
        for _ in range(5):
            session.put("Q1", b"x")
            session.get("Q1")
    summary = ended_summary(queue_manager.engine, EndedFilter())
    assert summary.is_cut
    assert summary.last_position - summary.first_position == 2
    assert summary.counts.total() <= 3


def test_E12_expired_messages_that_are_still_there_are_told(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
    start_ms = clock.now_ms()
    with queue_manager.session() as session, queue_manager.session(transacted=True) as unit:
        session.put("Q1", b"x", time_to_live_ms=10)
        for life_ms, persistent in ((20, True), (30, False)):
            session.put("Q1", b"x", time_to_live_ms=life_ms, persistent=persistent)
        session.put("Q2", b"x", time_to_live_ms=100)
        # The first one is got in a unit of work: it does not expire before that ends (E15).
        assert unit.get("Q1") is not None
        clock.advance(50)
        assert expired_present(queue_manager.engine) == [("Q1", 2, start_ms + 20)]
        unit.backout()
        assert expired_present(queue_manager.engine) == [("Q1", 3, start_ms + 10)]
        assert session.get("Q1") is None
        assert expired_present(queue_manager.engine) == []


def test_a_trace_of_the_ledger_is_that_of_a_lake(tmp_path: Path, clock: VirtualClock) -> None:
    """Both have the same lives, and say the same of each."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        with manager.session() as session:
            for n in range(12):
                life_ms = (None, 100, 5_000)[n % 3]
                session.put("Q1", b"x", time_to_live_ms=life_ms, priority=n % 4)
            session.put("Q1", b"x", delay_ms=50, time_to_live_ms=9_000, persistent=True)
            for _ in range(8):
                clock.advance(60)
                session.get("Q1")
            session.put("Q1", b"x", delay_ms=10_000)
        assert manager.mqsc("CLEAR QLOCAL(Q1)").ok
        written = tmp_path / "trace.csv"
        with written.open("w", encoding="utf-8") as output:
            is_cut = write_trace(manager.engine, EndedFilter(), 1_000, output.write)
        first = manager.ledger.first_position()
        batch = ledger_batch(manager.ledger.page(first - 1, 1_000), "QM1", "")
        lives = pa.Table.from_batches([batch])
        is_meant = (pc.field("kind") == KIND_LIFE) & pc.field("outcome").isin(REPLAYED)
        wanted = trace_of_lives(lives.filter(is_meant).select(list(LIFE_COLUMNS)))
        found = read_trace(written)
        assert found.select(wanted.column_names).to_pylist() == wanted.to_pylist()
        assert (is_cut, len(wanted) > 8) == (False, True)
        short = list[str]()
        assert write_trace(manager.engine, EndedFilter(), 3, short.append)
        assert len("".join(short).splitlines()) <= 4
