"""How fast a lake answers beside SQL by hand, is compacted, and is written as Delta tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import Figure, at_least, at_most, seconds_of, without_aim
from mayfly.lifetime.life import KIND_LIFE
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.lake.answers import analyze_lifetimes, ledger_report
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.lake.delta import DeltaLake
from mayfly.pipeline.lake.queries import LATE_AFTER_MS

_LIVES = int(os.environ.get("MAYFLY_BENCH_LIVES", "10000000"))
_FILE_LIVES = min(200_000, _LIVES)
_QUEUES, _DAYS, _DAY_MS = 40, 5, 86_400_000
_FIRST_DAY = datetime(2026, 11, 16, tzinfo=UTC)
_FIRST_MS = int(_FIRST_DAY.timestamp() * 1000)
_EXPIRING_SHARE = 0.1
_ZEROS = ("reason", "priority", "persistent", "report", "backout_count")

_DUCKDB = f"""
    select manager, queue, count(*) as lives,
        count_if(outcome = 'got') as got, count_if(outcome = 'expired') as expired,
        count_if(waited > {LATE_AFTER_MS}) as late,
        quantile_cont(waited, [0.5, 0.95, 0.99]) as waited,
        quantile_cont(remained, [0.5, 0.05, 0.01]) as remained
    from (
        select manager, queue, outcome,
            case when outcome = 'got' then ended_ms - deliver_at_ms end as waited,
            case when outcome = 'got' then expire_at_ms - ended_ms end as remained
        from read_parquet('LAKE/date=*/*.parquet') where kind = {KIND_LIFE})
    group by manager, queue order by manager, queue
"""


def figures() -> Iterator[Figure]:
    """Make a lake as a stream leaves it, ask it and compact it; write its rows to Delta tables."""
    with tempfile.TemporaryDirectory() as name:
        yield from _of_parquet(Path(name, "parquet"))
        yield from _of_delta(Path(name, "delta"))


def _of_parquet(lake: Path) -> Iterator[Figure]:
    lake.mkdir()
    file_count = sum(1 for _ in write_batches(lake))
    fresh_seconds = seconds_of(lambda: ledger_report(lake))
    note = f"{_LIVES:,} lives, {file_count} files, {_QUEUES} queues x {_DAYS} days"
    yield at_most("ledger report", fresh_seconds, 4, " s", note)
    compact_seconds = seconds_of(lambda: compact_lake(lake))
    note = f"{_LIVES:,} lives to {len(list(lake.glob('date=*/*.parquet')))} files"
    yield at_most("compaction", compact_seconds, 25, " s", note)
    report = ledger_report(lake)
    report_seconds = min(seconds_of(lambda: ledger_report(lake)) for _ in range(3))
    rows = _duckdb(lake)
    duckdb_seconds = min(seconds_of(lambda: _duckdb(lake)) for _ in range(3))
    assert [
        (r.queue, r.lives, r.outcomes["got"], r.outcomes["expired"], r.late) for r in report
    ] == [row[1:6] for row in rows]
    p99_ms = np.array([[r.waited_p99_ms, row[6][2]] for r, row in zip(report, rows, strict=True)])
    assert np.allclose(p99_ms[:, 0], p99_ms[:, 1])
    note = f"ours {report_seconds:.1f} s, SQL by hand {duckdb_seconds:.1f} s, same files"
    yield at_most("report beside SQL by hand", report_seconds / duckdb_seconds, 2, "x", note)
    analyze_seconds = min(seconds_of(lambda: analyze_lifetimes(lake)) for _ in range(3))
    note = f"ours {analyze_seconds:.1f} s, report {report_seconds:.1f} s, same files"
    yield at_most(
        "ledger analyze beside the report", analyze_seconds / report_seconds, 8, "x", note
    )
    check_seconds = seconds_of(lambda: check_lake(lake))
    yield without_aim("ledger verify", _LIVES / check_seconds, " lives/s", is_rate=True)


def _of_delta(lake: Path) -> Iterator[Figure]:
    rng = np.random.default_rng(7)
    batches = [
        _lives(rng, first, _FILE_LIVES, _FIRST_MS)
        for first in range(1, min(_LIVES, 1_000_000) + 1, _FILE_LIVES)
    ]
    count = sum(batch.num_rows for batch in batches)
    with closing(DeltaLake(lake, "5" * 32)) as delta_lake:
        position, seconds = 0, 0.0
        for batch in batches:
            position += batch.num_rows
            seconds += seconds_of(partial(delta_lake.add, batch, position))
    note = f"{count:,} lives in commits of {_FILE_LIVES:,}"
    yield at_least("ledger rows into Delta tables", count / seconds, 120_000, " lives/s", note)
    report_seconds = min(seconds_of(lambda: ledger_report(lake)) for _ in range(3))
    yield without_aim("report of Delta tables", count / report_seconds, " lives/s", is_rate=True)


def _duckdb(lake: Path) -> list[tuple[Any, ...]]:
    # It ships types of its own making; nothing but this measurement uses it.
    duckdb = import_module("duckdb")
    with duckdb.connect(config={"threads": 2}) as connection:
        rows: list[tuple[Any, ...]] = connection.sql(_DUCKDB.replace("LAKE", str(lake))).fetchall()
    return rows


def write_batches(lake: Path, *, with_correl_ids: bool = False) -> Iterator[Path]:
    """Yield the files of a stream that brought the lives of each day in batches."""
    rng = np.random.default_rng(7)
    position = 1
    for batch in range(-(-_LIVES // _FILE_LIVES)):
        day = batch % _DAYS
        count = min(_FILE_LIVES, _LIVES + 1 - position)
        folder = lake / f"date={(_FIRST_DAY + timedelta(days=day)).date()}"
        folder.mkdir(exist_ok=True)
        file = folder / f"batch-{'5' * 16}-{batch:012d}.parquet"
        lives = _lives(rng, position, count, _FIRST_MS + day * _DAY_MS)
        if with_correl_ids:
            column = lives.schema.get_field_index("correl_id")
            lives = lives.set_column(column, lives.schema.field(column), _ids(rng, count))
        pq.write_table(lives, file)
        position += count
        yield file


def _lives(rng: np.random.Generator, first: int, count: int, day_ms: int) -> pa.Table:
    """Return lives that ended on a day, sorted by queue as a stream sorts its batches."""
    ended_ms = day_ms + rng.integers(0, _DAY_MS, count)
    is_expired = rng.random(count) < _EXPIRING_SHARE
    waited_ms = rng.lognormal(7, 2, count).astype(np.int64)
    deliver_at_ms = ended_ms - waited_ms
    expire_at_ms = np.where(is_expired, ended_ms, ended_ms + rng.integers(1, 600_000, count))
    queues = np.sort(rng.integers(0, _QUEUES, count))
    names = pa.array([f"ORDERS.{n:02d}" for n in range(_QUEUES)])
    given: dict[str, Any] = {
        "manager": pa.repeat("BENCH", count),
        "instance_id": pa.repeat("5" * 32, count),
        "position": np.arange(first, first + count),
        "kind": np.full(count, KIND_LIFE, np.int8),
        "queue": names.take(pa.array(queues)),
        "msg_id": _ids(rng, count),
        "put_ms": deliver_at_ms,
        "deliver_at_ms": deliver_at_ms,
        "expire_at_ms": expire_at_ms,
        "ended_ms": ended_ms,
        "outcome": pa.array(["got", "expired"]).take(pa.array(is_expired.astype(np.int8))),
        "body_bytes": rng.integers(100, 1000, count),
        "reply_to_q": pa.repeat("", count),
        "user_identifier": pa.repeat("anna", count),
        **{name: np.zeros(count, np.int32) for name in _ZEROS},
    }
    columns = [
        pa.array(given[field.name], field.type)
        if isinstance(given.get(field.name), np.ndarray)
        else given.get(field.name, pa.nulls(count, field.type))
        for field in LEDGER
    ]
    return pa.table(columns, schema=LEDGER)


def _ids(rng: np.random.Generator, count: int) -> pa.Array:
    data: npt.NDArray[np.uint8] = rng.integers(0, 256, count * 24, np.uint8)
    fixed = pa.Array.from_buffers(pa.binary(24), count, [None, pa.py_buffer(data.tobytes())])
    return fixed.cast(pa.binary())
