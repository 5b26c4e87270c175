"""The rows of a lake of Parquet files as DataFrames of Spark; lake/files.py describes the files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, StructType

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE
from mayfly.pipeline.lake.files import LakeFile, check_complete, existing_lake, kept_snapshot
from mayfly.pipeline.spark.source import LEDGER_TYPE

#: A ledger row in the lake: ``date`` is the UTC date of ended_ms.
LAKE_TYPE: StructType = StructType([*LEDGER_TYPE.fields]).add("date", DateType())
_BALANCE_COLUMNS = ("puts", "present", "ended")


def read_ledger(spark: SparkSession, lake_path: str | Path) -> DataFrame:
    """Return every ledger row of a lake, each once, even during a compaction.

    A row is an ended message or a queue's balance. Spark may read the files later: they stay as
    ``lake.files.kept_snapshot`` says. Raises LakeError when the folder or a file is missing.
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
