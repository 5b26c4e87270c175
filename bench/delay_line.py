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

from bench.child import in_child
from bench.figures import Figure, at_least, at_most
from mayfly.mqi.constants import MQRO_EXPIRATION
from mayfly.pipeline.spark.delay_line import lifetime, prepare_session, write_stream
from mayfly.pipeline.spark.session import create_session
from mayfly.runtime.clocks import SystemClock

_ROWS = 1_000_000
#: The first batches of a stream run slowly: workers start, and Java compiles what it runs.
_WARM_UP_BATCHES, _BATCHES = 20, 20
#: Into so many partitions a topic would be parted; a batch has a file of each.
_FILES_PER_BATCH = 2
_BODY_BYTES = 200
_DELAY_MS_MIN, _DELAY_MS_MAX = 500, 8_000
_DELAYED_SHARE, _EXPIRING_SHARE = 0.2, 0.1
_WAIT_SECONDS = 600


class _Run(NamedTuple):
    """Figures of a run: the speed of the stream while input came, the lateness of each wait."""

    rows_per_second: float
    late_ms: list[float]
    note: str


class _Written(NamedTuple):
    """A micro-batch that is written: when, and how many rows it has."""

    at_ms: int
    row_count: int


def figures() -> Iterator[Figure]:
    """Send a million messages through at a trigger of a second, after a million to warm up."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    run = in_child(_run, cpus)
    p50, p95, most = np.percentile(run.late_ms, [50, 95, 100])
    yield at_least("delay line, sustained", run.rows_per_second, 40_000, " rows/s", run.note)
    late = f"p50 {p50:,.0f} ms, most {most:,.0f} ms, of {len(run.late_ms):,} waits; written - due"
    yield at_most("delay line, release p95", p95, 2_500, " ms", late)
    if len(cpus) > 1:
        alone = in_child(_run, cpus[:1])
        gain = run.rows_per_second / alone.rows_per_second
        note = f"one core: {alone.rows_per_second:,.0f} rows/s, {alone.note}"
        yield at_least("delay line, two cores against one", gain, 1.3, " x", note)


def _run(cpus: Sequence[int]) -> _Run:
    """Measure with this process, its Java and its workers on some processors only."""
    os.sched_setaffinity(0, cpus)
    batch_rows = int(os.environ.get("BENCH_DELAY_LINE_ROWS", _ROWS)) // _BATCHES
    session = {"spark.sql.shuffle.partitions": "2"}
    spark = prepare_session(create_session(f"local[{len(cpus)}]", "bench", session))
    try:
        with tempfile.TemporaryDirectory() as folder:
            _write_input(Path(folder) / "in", batch_rows)
            return _streamed(spark, Path(folder), batch_rows)
    finally:
        spark.stop()


def _streamed(spark: SparkSession, place: Path, batch_rows: int) -> _Run:
    written: dict[int, _Written] = {}
    clock = SystemClock()

    def write(rows: DataFrame, batch_id: int) -> None:
        slim = rows.select("id", "outcome", "deliver_at_ms", "expire_at_ms", "delay", "payload")
        out = place / "out" / f"b={batch_id}"
        slim.write.mode("overwrite").parquet(str(out))
        at_ms = clock.now_ms()
        files = out.glob("*.parquet")
        written[batch_id] = _Written(at_ms, sum(pq.read_metadata(file).num_rows for file in files))

    count = (_WARM_UP_BATCHES + _BATCHES) * batch_rows
    stream = write_stream(lifetime(_messages(spark, place / "in")), place / "checkpoint")
    query = stream.foreachBatch(write).trigger(processingTime="1 second").start()
    try:
        for _ in range(_WAIT_SECONDS):
            query.awaitTermination(1)
            if sum(batch.row_count for batch in list(written.values())) >= count:
                break
        busy = [p for p in query.recentProgress if p["numInputRows"]]
    finally:
        query.stop()
    ended = ds.dataset(place / "out", format="parquet", partitioning="hive").to_table(
        columns=["id", "outcome", "deliver_at_ms", "expire_at_ms", "delay", "b"]
    )
    return _measured(ended, written, busy, batch_rows)


def _measured(
    ended: pa.Table,
    written: Mapping[int, _Written],
    busy: Sequence[Mapping[str, object]],
    batch_rows: int,
) -> _Run:
    rows = ended.to_pandas()
    count = (_WARM_UP_BATCHES + _BATCHES) * batch_rows
    assert len(rows) == rows["id"].nunique() == count, "not every row once"
    assert [p["numInputRows"] for p in busy] == [batch_rows] * len(busy), "other batches than meant"
    rows = rows[rows["id"] >= _WARM_UP_BATCHES * batch_rows]
    waits = rows[rows["delay"] > 0]
    due_ms = waits[["deliver_at_ms", "expire_at_ms"]].min(axis=1)
    late_ms = (
        waits["b"].map({batch_id: batch.at_ms for batch_id, batch in written.items()}) - due_ms
    )
    assert late_ms.min() >= 0, "released early"
    batches = [int(str(p["batchId"])) for p in busy]
    begun_ms, ended_ms = (written[batches[n]].at_ms for n in (_WARM_UP_BATCHES - 1, -1))
    durations_ms = [int(str(p["batchDuration"])) for p in busy[_WARM_UP_BATCHES:]]
    outcomes = ", ".join(f"{n:,} {name}" for name, n in rows["outcome"].value_counts().items())
    note = f"median batch {np.median(durations_ms):,.0f} ms; each once: {outcomes}"
    return _Run(len(rows) / (ended_ms - begun_ms) * 1_000, list(late_ms), note)


def _messages(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the input as messages that are put when their micro-batch begins."""
    rows = spark.readStream.schema(spark.read.parquet(str(folder)).schema)
    return (
        rows.option("maxFilesPerTrigger", _FILES_PER_BATCH)
        .parquet(str(folder))
        .withColumn("put_ms", f.unix_millis(f.current_timestamp()))
        .withColumn("delay", f.col("delay_ms"))
    )


def _write_input(folder: Path, batch_rows: int) -> None:
    folder.mkdir()
    count = (_WARM_UP_BATCHES + _BATCHES) * batch_rows
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
    size = batch_rows // _FILES_PER_BATCH
    for n in range(count // size):
        pq.write_table(table.slice(n * size, size), folder / f"{n:03}.parquet", row_group_size=size)
