"""How fast a foreign stream goes through the delay line, and how late what was delayed leaves."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.figures import Figure, at_least, at_most
from mayfly.lifetime.times import SystemClock
from mayfly.mqi.constants import MQRO_EXPIRATION
from mayfly.spark.delay_line import lifetime, prepare_session, write_stream
from mayfly.spark.session import create_session

_WARM_UP_ROWS, _ROWS, _FILES = 500_000, 1_000_000, 10
_BODY_BYTES = 200
_DELAY_MS_MIN, _DELAY_MS_MAX = 500, 8_000
_DELAYED_SHARE, _EXPIRING_SHARE = 0.2, 0.1
_WAIT_SECONDS = 300


class _Run(NamedTuple):
    """What a run showed: the stream's speed while input came, and how late each wait ended."""

    rows_per_second: float
    late_ms: list[float]
    note: str


def figures() -> Iterator[Figure]:
    """Send a million messages through at a trigger of a second, after half a million to warm up."""
    rows = int(os.environ.get("BENCH_DELAY_LINE_ROWS", _ROWS))
    spark = create_session("local[2]", "bench", {"spark.sql.shuffle.partitions": "2"})
    try:
        _run(prepare_session(spark), min(rows, _WARM_UP_ROWS))
        run = _run(spark, rows)
    finally:
        spark.stop()
    p50, p95, most = np.percentile(run.late_ms, [50, 95, 100])
    yield at_least("delay line, sustained", run.rows_per_second, 40_000, " rows/s", run.note)
    late = f"p50 {p50:,.0f} ms, most {most:,.0f} ms, of {len(run.late_ms):,} waits; written - due"
    yield at_most("delay line, release p95", p95, 2_500, " ms", late)


def _run(spark: SparkSession, count: int) -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _write_input(place / "in", count)
        written_ms: dict[int, int] = {}
        clock = SystemClock()

        def write(rows: DataFrame, batch_id: int) -> None:
            slim = rows.select("id", "outcome", "deliver_at_ms", "expire_at_ms", "delay", "payload")
            slim.write.mode("overwrite").parquet(str(place / "out" / f"b={batch_id}"))
            written_ms[batch_id] = clock.now_ms()

        stream = write_stream(lifetime(_messages(spark, place / "in")), place / "checkpoint")
        query = stream.foreachBatch(write).trigger(processingTime="1 second").start()
        try:
            for _ in range(_WAIT_SECONDS):
                query.awaitTermination(1)
                ended = _ended(place / "out", written_ms)
                if ended.num_rows >= count:
                    break
            busy = [p for p in query.recentProgress if p["numInputRows"]]
        finally:
            query.stop()
        return _measured(ended, written_ms, busy, count)


def _ended(out: Path, written_ms: dict[int, int]) -> pa.Table:
    """Return the rows of the batches that are written as a whole."""
    columns = ["id", "outcome", "deliver_at_ms", "expire_at_ms", "delay", "b"]
    if not written_ms:
        return pa.table({name: [] for name in columns})
    found = ds.dataset(out, format="parquet", partitioning="hive").to_table(columns=columns)
    return found.filter(pa.compute.is_in(found["b"], pa.array(list(written_ms), pa.int32())))


def _measured(
    ended: pa.Table, written_ms: dict[int, int], busy: Sequence[Mapping[str, object]], count: int
) -> _Run:
    rows = ended.to_pandas()
    assert len(rows) == rows["id"].nunique() == count, "not every row once"
    waits = rows[rows["delay"] > 0]
    due_ms = waits[["deliver_at_ms", "expire_at_ms"]].min(axis=1)
    late_ms = waits["b"].map(written_ms) - due_ms
    assert late_ms.min() >= 0, "released early"
    batches = [int(str(p["batchId"])) for p in busy]
    durations_ms = [int(str(p["batchDuration"])) for p in busy]
    begun_ms = written_ms[batches[0]] - durations_ms[0]
    seconds = (written_ms[batches[-1]] - begun_ms) / 1_000
    outcomes = ", ".join(f"{n:,} {name}" for name, n in rows["outcome"].value_counts().items())
    note = f"median batch {np.median(durations_ms):,.0f} ms; each once: {outcomes}"
    return _Run(count / seconds, list(late_ms), note)


def _messages(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the input as messages that are put when their micro-batch begins."""
    rows = spark.readStream.schema(spark.read.parquet(str(folder)).schema)
    return (
        rows.option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
        .withColumn("put_ms", f.unix_millis(f.current_timestamp()))
        .withColumn("delay", f.col("delay_ms"))
    )


def _write_input(folder: Path, count: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(1)
    share = rng.random(count)
    waits = rng.integers(_DELAY_MS_MIN, _DELAY_MS_MAX, count)
    delay = np.where(share < _DELAYED_SHARE + _EXPIRING_SHARE, waits, 0)
    expiring = share < _EXPIRING_SHARE
    body = rng.bytes(_BODY_BYTES)
    table = pa.table(
        {
            "id": np.arange(count),
            "queue": pa.array([f"Q{n % 16}" for n in range(count)]),
            "msg_id": pa.array([n.to_bytes(24, "big") for n in range(count)]),
            "delay_ms": delay,
            # D18: as long as the delay, so it is never released.
            "life_ms": pa.array(np.where(expiring, delay, 3_600_000)),
            "report": pa.array(np.where(expiring, MQRO_EXPIRATION, 0), pa.int32()),
            "reply_to_q": pa.array(["REPLIES"] * count),
            "payload": pa.array([body] * count, pa.binary()),
        }
    )
    size = count // _FILES
    for n in range(_FILES):
        pq.write_table(table.slice(n * size, size), folder / f"{n:03}.parquet", row_group_size=size)
