"""How long the trace of a message takes in a ledger, and in a lake, of ten million lives."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from bench.figures import Figure, at_most, median, seconds_of
from bench.lake import write_batches
from mayfly import QueueManager
from mayfly.cli.lake_engine import LakeArchive
from mayfly.lifetime.life import LEDGER_COLUMNS
from mayfly.store.units import Unit
from mayfly.testing import VirtualClock

_LIVES, _AT_ONCE, _ASKED, _START_MS = 10_000_000, 500_000, 40, 1_700_000_000_000
_STORY_MS, _LAKE_S, _INDEX_US = 50.0, 3.0, 5.0
#: Every second message has a CorrelId of its own, every tenth expired.
_FILL = f"""
WITH RECURSIVE numbers (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
INSERT INTO ledger (position, kind, queue, msg_id, correl_id, put_ms, deliver_at_ms,
    expire_at_ms, ended_ms, outcome, reason, priority, persistent, body_bytes, report, reply_to_q,
    backout_count, user_identifier)
SELECT ?3 + n, 0, 'Q' || (n % 40), CAST(printf('AMQ BENCH       %08d', n) AS BLOB),
    CASE n % 2 WHEN 0 THEN randomblob(24) END, {_START_MS} + n, {_START_MS} + n,
    {_START_MS} + n + 5000, {_START_MS} + n + 5000,
    CASE n % 10 WHEN 0 THEN 'expired' ELSE 'got' END, 0, 4, 1, 200, 0, '', 0, 'anna'
FROM numbers"""


def figures() -> Iterator[Figure]:
    """Measure on disk; the lives are written by SQL, as nothing else would end in time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "BENCH"
        with _opened(folder) as manager:
            asked = _fill(manager)
        clock = VirtualClock(_START_MS + _LIVES)
        with _opened(folder, clock) as manager:
            index_us = 1e6 * seconds_of(lambda: clock.advance(2_000)) / _LIVES
            yield at_most("ids of a life made findable", index_us, _INDEX_US, " µs", "afterwards")
            for kind, ids in asked.items():
                yield _figure(manager, kind, ids)
            yield _figure(manager, "an unknown id", [random.randbytes(24) for _ in range(_ASKED)])

    with tempfile.TemporaryDirectory() as name:
        lake = Path(name)
        for _file in write_batches(lake, with_correl_ids=True):
            pass
        yield from _lake_figures(lake)


def _lake_figures(lake: Path) -> Iterator[Figure]:
    asked: dict[str, list[bytes]] = {"MsgId": [], "CorrelId": []}
    for file in sorted(lake.glob("date=*/*.parquet"))[::10]:
        rows = pq.ParquetFile(file).read_row_group(0, ["msg_id", "correl_id"]).slice(1_000, 2)
        asked["MsgId"].append(rows["msg_id"][0].as_py())
        asked["CorrelId"] += [each for each in rows["correl_id"].to_pylist() if each]
    with QueueManager("BENCH", clock=VirtualClock(_START_MS)) as manager:
        manager.traces.archives.append(LakeArchive(lake))
        for kind, ids in asked.items():
            assert all(manager.traces.of(each).is_known for each in ids[:1])
            times = sorted(seconds_of(_asking(manager, each)) for each in ids)
            note = f"slowest of {len(ids)}; median {median(times):.2g} s; DuckDB, 50 files"
            yield at_most(
                f"trace from a lake of 10M lives, by {kind}", times[-1], _LAKE_S, " s", note
            )


def _figure(manager: QueueManager, kind: str, ids: list[bytes]) -> Figure:
    times_ms = sorted(1e3 * seconds_of(_asking(manager, each)) for each in ids)
    assert all(manager.why(each).is_known for each in ids[:3]) or "unknown" in kind
    note = f"slowest of {len(ids)}; median {median(times_ms):.3g} ms"
    return at_most(f"trace of 1 of 10M lives, by {kind}", times_ms[-1], _STORY_MS, " ms", note)


def _asking(manager: QueueManager, identifier: bytes) -> Callable[[], object]:
    return lambda: manager.traces.of(identifier)


def _opened(folder: Path, clock: VirtualClock | None = None) -> QueueManager:
    kept = {"ledger.retention_count": 2 * _LIVES}
    return QueueManager("BENCH", folder, clock or VirtualClock(_START_MS), settings=kept)


def _fill(manager: QueueManager) -> dict[str, list[bytes]]:
    """Write the lives, of which the queue manager knows when it is next opened; return some ids."""
    store = manager.engine.store
    last = store.ledger.last_position()
    for begin in range(0, _LIVES, _AT_ONCE):
        unit = Unit()
        unit.statements.append((_FILL, (begin + 1, begin + _AT_ONCE, last)))
        store.group.commit(unit)
    picked = random.Random(1).sample(range(2, _LIVES, 2), _ASKED)
    rows = [store.ledger.page(last + each - 1, 1)[0] for each in picked]
    manager.crash()
    msg_id, correl_id = (LEDGER_COLUMNS.index(name) for name in ("msg_id", "correl_id"))
    return {"MsgId": [row[msg_id] for row in rows], "CorrelId": [row[correl_id] for row in rows]}
