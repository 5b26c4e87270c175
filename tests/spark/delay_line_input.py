"""Messages in files for a real delay line, its sink, and what must have come out of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mayfly.mqi.constants import MQRO_EXPIRATION
from mayfly.pipeline.spark.delay_line import lifetime, prepare_session, write_stream

INPUT_TYPE = (
    "id bigint, queue string, delay_ms bigint, life_ms bigint, report int, reply_to_q string, "
    "payload binary"
)
#: Of ten rows four wait and are released, one waits and expires (D18), one is refused (D7).
_DELAYS = (0, 0, 0, 0, 1, 1, 1, 1, 1, 9_999)
EXPIRING, REFUSED = 8, 9


def write_file(folder: Path, number: int, row_count: int, delay_ms: int) -> None:
    """Write one file of ``row_count`` messages; ids go on from file to file."""
    ids = range(number * row_count, (number + 1) * row_count)
    delays = [_DELAYS[n % 10] * (delay_ms + n % 7 * 100) for n in ids]
    lives = [
        {EXPIRING: delay, REFUSED: 1}.get(n % 10) for n, delay in zip(ids, delays, strict=True)
    ]
    rows = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "queue": pa.array([f"Q{n % 3}" for n in ids]),
            "delay_ms": pa.array(delays, pa.int64()),
            "life_ms": pa.array(lives, pa.int64()),
            "report": pa.array([MQRO_EXPIRATION] * row_count, pa.int32()),
            "reply_to_q": pa.array(["R1"] * row_count),
            "payload": pa.array([b"%d" % n for n in ids]),
        }
    )
    folder.mkdir(exist_ok=True)
    unfinished = folder / f"_{number}"
    pq.write_table(rows, unfinished)
    unfinished.rename(folder / f"{number:04}.parquet")


def delay_line(
    spark: SparkSession, folder: Path, *, slot_ms: int = 100, shards: int = 2
) -> DataStreamWriter:
    """Return the stream from ``folder``/in, a file a batch, to ``folder``/out, a folder a batch."""
    rows = (
        prepare_session(spark)
        .readStream.schema(INPUT_TYPE)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "in"))
        .withColumn("put_ms", f.unix_millis(f.current_timestamp()))
    )
    out = folder / "out"

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(out / f"b={batch_id}"))

    ended = lifetime(rows, slot_ms=slot_ms, shards=shards)
    stream = write_stream(ended, folder / "checkpoint")
    return stream.foreachBatch(write).trigger(processingTime="0 seconds")


def commit_count(folder: Path) -> int:
    """Return how many batches the checkpoint says are done."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def ended(folder: Path) -> pa.Table:
    """Return what came out in batches that the checkpoint says are done, with ``b``, the batch."""
    done = {file.name for file in (folder / "checkpoint" / "commits").glob("[0-9]*")}
    files = [file for b in done for file in (folder / "out" / f"b={b}").glob("*.parquet")]
    if not files:
        return pa.table({"id": pa.array([], pa.int64())})
    found = ds.dataset([str(file) for file in files], partitioning="hive", format="parquet")
    table: pa.Table = found.to_table()
    return table


def check_ended(table: pa.Table, row_count: int) -> None:
    """Assert that every message came out once, with the outcome that its id says."""
    rows = table.select(
        ["id", "put_ms", "deliver_at_ms", "expire_at_ms", "outcome", "reason", "ended_ms"]
    ).to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(row_count))
    for row in rows:
        kind = row["id"] % 10
        wanted = {EXPIRING: ("expired", 0), REFUSED: ("dead_lettered", 2013)}
        assert (row["outcome"], row["reason"]) == wanted.get(kind, ("released", 0)), row
        due_ms = row["put_ms"] if kind == REFUSED else row["deliver_at_ms"]
        assert row["ended_ms"] >= due_ms, row
    reports = [report for report in table["report_owed"].to_pylist() if report is not None]
    expired = [b"%d" % row["id"] for row in rows if row["outcome"] == "expired"]
    assert len(reports) == len(expired)
    assert {(report["queue"], report["feedback"]) for report in reports} == {("R1", 258)}
