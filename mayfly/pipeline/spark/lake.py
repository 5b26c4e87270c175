"""The ledger lake: every ledger row of a queue manager, once, in Parquet files by date.

    LAKE/date=2026-11-20/batch-<instance>-<batch>.parquet    rows of one batch and date, by queue
    LAKE/date=2026-11-20/run-<generation>-<id>.parquet       rows of many batches: see compaction
    LAKE/_mayfly/<instance>.json                             the stream that writes them
    LAKE/_checkpoint/<instance>/                             its progress (unless elsewhere)
    LAKE/_staging/                                           files being written

Readers skip names that begin with an underscore; `lake/files.py` describes the other files. A
batch that Spark repeats after a crash has the same rows and the same file names, so it replaces
only its own files.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DateType, StructType

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.lake.files import (
    MARKS,
    STAGING,
    LakeFile,
    Manifest,
    check_complete,
    existing_lake,
    kept_snapshot,
    local_folder,
    locked,
    move_into_place,
    write_safely,
)
from mayfly.pipeline.spark.errors import LakeError
from mayfly.pipeline.spark.source import LEDGER_TYPE

#: A ledger row in the lake: ``date`` is the UTC date of ended_ms.
LAKE_TYPE: StructType = StructType([*LEDGER_TYPE.fields]).add("date", DateType())
_DAY_MS = 86_400_000
_BALANCE_COLUMNS = ("puts", "present", "ended")
#: 64 bits of a random id are enough in the names of files of one lake.
_SHORT_ID = 16


def ledger_to_lake(
    spark: SparkSession,
    url: str,
    token_file: str | Path | None,
    lake_path: str | Path,
    *,
    checkpoint: str | Path | None = None,
    available_now: bool = False,
    trigger: str = "1 second",
    manager: str | None = None,
    batch_rows_max: int = 200_000,
) -> StreamingQuery:
    """Start a Spark stream that copies a ledger into a lake, and return the running query.

    The caller stops or awaits the query. With ``available_now`` it ends at the present end of the
    ledger; else a batch of at most ``batch_rows_max`` rows begins every ``trigger``. ``manager``
    names the queue manager, for a server of several. ``checkpoint`` None puts it into the lake.
    Raises BulkError when the server does not answer. Raises LakeError when lake or checkpoint
    belongs to another stream, because to continue would lose rows or write them twice.
    """
    lake = local_folder(lake_path)
    with LedgerClient(url, token_file=token_file, manager=manager) as client:
        info = client.info()
    writer = _LakeWriter(lake, info.instance_id)
    checkpoint_folder = local_folder(
        lake / "_checkpoint" / info.instance_id if checkpoint is None else checkpoint
    )
    writer.claim(checkpoint_folder)
    options = {
        "url": url,
        "ledger": "true",
        "manager": info.manager,
        "maxRowsPerBatch": str(batch_rows_max),
        "partitions": str(spark.sparkContext.defaultParallelism),
    }
    if token_file is not None:
        options["tokenFile"] = str(local_folder(token_file))
    stream = (
        spark.readStream.format("mayfly")
        .options(**options)
        .load()
        .writeStream.queryName(f"ledger of {info.manager} to lake")
        .option("checkpointLocation", str(checkpoint_folder))
        .foreachBatch(writer.write)
    )
    if available_now:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=trigger).start()


def read_ledger(spark: SparkSession, lake_path: str | Path) -> DataFrame:
    """Return every ledger row of a lake, each once, even during a compaction.

    A row is an ended message or a queue's balance. The files stay as long as this process lives.
    Raises LakeError when the folder or a file is missing.
    """
    lake = existing_lake(lake_path)
    snapshot = kept_snapshot(lake)
    check_complete(snapshot)
    return rows_of(spark, snapshot.files)


def rows_of(spark: SparkSession, files: Iterable[LakeFile]) -> DataFrame:
    """Return the rows of these Parquet files of a lake, with the date of their folder.

    Without files the DataFrame is empty.
    """
    by_root: dict[Path, list[str]] = {}
    for file in files:
        by_root.setdefault(file.path.parents[1], []).append(str(file.path))
    frames = [
        spark.read.schema(LAKE_TYPE).option("basePath", str(root)).parquet(*paths)
        for root, paths in by_root.items()
    ]
    if not frames:
        return spark.createDataFrame([], LAKE_TYPE)
    return reduce(DataFrame.unionByName, frames)


def read_lake(spark: SparkSession, lake_path: str | Path) -> DataFrame:
    """Return the ended messages in a lake: a row for each stay of a message on a queue.

    Columns are LifeRecord's fields, and manager, instance_id, position and date. Raises LakeError
    when the folder or a file is missing.
    """
    return lives_of(read_ledger(spark, lake_path))


def lives_of(rows: DataFrame) -> DataFrame:
    """Return those ledger rows that are ended messages, without the columns of balances."""
    return rows.where(f.col("kind") == KIND_LIFE).drop("kind", *_BALANCE_COLUMNS)


def read_balances(spark: SparkSession, lake_path: str | Path) -> DataFrame:
    """Return the balance rows in a lake: the counts of a queue at a position of the ledger.

    Columns are Balance's fields, and manager, instance_id, position and date. Raises LakeError when
    the folder or a file is missing.
    """
    rows = read_ledger(spark, lake_path)
    return rows.where(f.col("kind") == KIND_BALANCE).select(
        "manager",
        "instance_id",
        "position",
        "queue",
        f.col("ended_ms").alias("at_ms"),
        *_BALANCE_COLUMNS,
        "date",
    )


class _LakeWriter:
    """Writes the batches of one stream into a lake; each batch and date has a fixed file name."""

    def __init__(self, lake: Path, instance_id: str) -> None:
        """Keep the lake's folder and the id of the store whose ledger is copied."""
        self._lake = lake
        self._instance_id = instance_id
        self._prefix = f"batch-{instance_id[:_SHORT_ID]}-"
        self._staging = lake / STAGING / instance_id

    def claim(self, checkpoint: Path) -> None:
        """Write a common id into lake and checkpoint, or check that both have the same one.

        Raises LakeError if the lake has rows that this checkpoint did not write, or the checkpoint
        is of another lake. Removes unfinished files of a killed run.
        """
        in_lake = self._lake / MARKS / f"{self._instance_id}.json"
        in_checkpoint = checkpoint / "_mayfly.json"
        stream_id = _read_mark(in_lake)
        if stream_id is None or stream_id != _read_mark(in_checkpoint):
            if self._has_rows():
                raise LakeError(
                    f"lake {self._lake} has rows of store {self._instance_id} that were not "
                    f"written with checkpoint {checkpoint}: name their checkpoint or a new lake"
                )
            if any(checkpoint.glob("offsets/*")):
                raise LakeError(
                    f"checkpoint {checkpoint} was not made for lake {self._lake}: the rows before "
                    "it would be missing"
                )
            stream_id = uuid.uuid4().hex
            _write_mark(in_lake, stream_id)
            _write_mark(in_checkpoint, stream_id)
        # Files that a killed run left behind.
        shutil.rmtree(self._staging, ignore_errors=True)

    def _has_rows(self) -> bool:
        """Return True if the lake has rows of the queue manager's store that this stream reads."""
        short_id = self._instance_id[:_SHORT_ID]
        return any(self._lake.glob(f"date=*/{self._prefix}*")) or Manifest.load(
            self._lake
        ).has_rows_of(short_id)

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write a batch as one file per date, then move the files into the lake.

        A repeated batch replaces its files, or is left out where a compaction has merged them.
        """
        # A folder of its own for each try: Java may outlive a killed driver for a moment and still
        # be writing to the former one.
        staging = self._staging / f"{batch_id}-{uuid.uuid4().hex}"
        dated = rows.withColumn("date", f.expr(f"date_from_unix_date(int(ended_ms div {_DAY_MS}))"))
        (
            dated.coalesce(1)
            .sortWithinPartitions("date", "queue", "position")
            .write.partitionBy("date")
            .options(maxRecordsPerFile="0", compression="zstd")
            .parquet(str(staging))
        )
        name = f"{self._prefix}{batch_id:012d}.parquet"
        # The lock keeps compaction out: a repeated batch may be in a run already.
        with locked(self._lake, is_shared=True):
            manifest = Manifest.load(self._lake)
            for written in _one_file_per_date(staging):
                if not manifest.holds(written.parent.name.removeprefix("date="), name):
                    move_into_place(written, self._lake / written.parent.name / name)
        shutil.rmtree(staging)


def _one_file_per_date(staging: Path) -> Iterator[Path]:
    """Yield the single file that Spark wrote for each date."""
    for folder in sorted(staging.glob("date=*")):
        [written] = folder.glob("part-*.parquet")
        yield written


def _read_mark(path: Path) -> str | None:
    """Return the stream id in a mark file of a lake or checkpoint, None without a file.

    Raises LakeError if the file is damaged.
    """
    try:
        stream_id: str = json.loads(path.read_text())["stream"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"{path} is damaged: {error}") from error
    return stream_id


def _write_mark(path: Path, stream_id: str) -> None:
    """Write the id of a stream into a mark file, atomically."""
    write_safely(path, json.dumps({"stream": stream_id}))
