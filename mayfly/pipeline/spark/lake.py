"""A lake of Parquet files by Spark: its rows, report, timeline, lifetimes and export."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, StructType

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE
from mayfly.pipeline.lake import lifetimes
from mayfly.pipeline.lake.files import (
    LakeFile,
    Lease,
    Snapshot,
    check_complete,
    existing_lake,
    kept_snapshot,
    local_folder,
    move_into_place,
)
from mayfly.pipeline.lake.lifetimes import LifetimeAnalysis, analysis_from
from mayfly.pipeline.lake.queries import (
    EVERYTHING,
    FORMATS,
    ID_NAMES,
    LATE_AFTER_MS,
    SPAN,
    STAGED,
    WORST_QUEUES,
    LakePart,
    QueueReport,
    check_export,
    course_of_lives,
    export_condition,
    report_of_queues,
    reports_of,
)
from mayfly.pipeline.lake.timeline import PLOT_RANKS, LakeTimeline, course_from, step_between
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


# The report and the timeline


def ledger_report(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    late_after_ms: int = LATE_AFTER_MS,
) -> list[QueueReport]:
    """Return a report for each queue in a part of a lake, by queue manager and name.

    A message got more than ``late_after_ms`` after its delivery time counts as late. Queues without
    messages are left out. Raises LakeError without a lake, or when a file of it is missing.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        ledger = _rows_of_part(spark, lease.snapshot, part)
        query = report_of_queues(exact_percentiles, late_after_ms)
        return reports_of(row.asDict() for row in spark.sql(query, ledger=ledger).collect())
    finally:
        lease.close()


def timeline_of(
    spark: SparkSession, lake_path: str | Path, *, part: LakePart = EVERYTHING
) -> LakeTimeline:
    """Return the timeline of a part of a lake: messages that ended, by time step.

    Raises LakeError without a lake or a file of it, PlotError without ended messages.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        ledger = _rows_of_part(spark, lease.snapshot, part)

        def rows(query: str) -> list[dict[str, Any]]:
            return [row.asDict() for row in spark.sql(query, ledger=ledger).collect()]

        step_ms = step_between(lake_path, rows(SPAN)[0])
        by_step = course_of_lives(exact_percentiles, step_ms, tuple(PLOT_RANKS.values()))
        return course_from(step_ms, rows(by_step), rows(WORST_QUEUES), rows(STAGED))
    finally:
        lease.close()


def _rows_of_part(spark: SparkSession, snapshot: Snapshot, part: LakePart) -> DataFrame:
    """Return the ledger rows of a part of a lake; raises LakeError when a file is missing."""
    check_complete(snapshot)
    return rows_of(spark, part.files(snapshot.files)).where(part.condition())


def exact_percentiles(value: str, ranks: Sequence[float]) -> str:
    """Return SQL for an array of exact percentiles of ``value``, interpolated between two values.

    ``ranks`` are from 0 to 1. The SQL is null if there are no values. A list that is sorted at the
    end is four times faster than Spark's own exact percentile, which counts in a table of objects.
    """
    picked = ", ".join(_at(f"(size(v) - 1) * {rank}D") for rank in ranks)
    # As the only element of an array the list is sorted once for all ranks.
    one = f"array(sort_array(collect_list({value})))"
    return f"get(transform({one}, v -> CASE WHEN size(v) > 0 THEN array({picked}) END), 0)"


def _at(place: str) -> str:
    """Return SQL for the value at a fractional index of array ``v``, interpolated."""
    low, high = (f"get(v, CAST({edge}({place}) AS INT))" for edge in ("floor", "ceil"))
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))"


# Whether lifetimes are right


def analyze_lifetimes(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    by: lifetimes.By = lifetimes.By.QUEUE,
    cap_ms: int | None = None,
    late_after_ms: int = LATE_AFTER_MS,
) -> LifetimeAnalysis:
    """Return what ``lake.answers.analyze_lifetimes`` does, of a lake of Parquet files.

    The arguments are the same. Raises LakeError without a lake, or when a file is missing.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        check_complete(lease.snapshot)
        files = part.files(lease.snapshot.files)
        ledger = rows_of(spark, files).where(part.condition())

        def rows(query: str) -> list[dict[str, Any]]:
            return [row.asDict() for row in spark.sql(query, ledger=ledger).collect()]

        return analysis_from(
            by,
            cap_ms,
            lifetimes=rows(lifetimes.lifetimes(by, cap_ms)),
            delays=rows(lifetimes.delays(late_after_ms)),
            consumers=rows(lifetimes.consumers()),
        )
    finally:
        lease.close()


# Export to one file


def export_lives(
    spark: SparkSession,
    lake_path: str | Path,
    target: str | Path,
    *,
    part: LakePart = EVERYTHING,
    outcomes: Sequence[str] = (),
    late_after_ms: int | None = None,
    where: str | None = None,
) -> int:
    """Write the ended messages of a lake that pass all filters to a new file; return how many.

    A row is the record of a message's stay on one queue. The suffix of ``target`` decides the
    format. Columns are those of `read_lake`; in CSV and JSON ids are hexadecimal, and JSON leaves
    out nulls. ``outcomes`` () keeps all. ``late_after_ms`` keeps messages that were got later than
    this after their delivery time; ``where`` is an SQL condition over the columns. Raises LakeError
    without a lake, and ExportError for an unknown suffix or outcome, or a file that exists.
    """
    lake, file = existing_lake(lake_path), local_folder(target)
    check_export(file, outcomes)
    lease = Lease(lake)
    try:
        check_complete(lease.snapshot)
        rows = rows_of(spark, part.files(lease.snapshot.files))
        lives = lives_of(rows).where(export_condition(part, outcomes, late_after_ms))
        if where is not None:
            lives = lives.where(where)
        return _write(lives, file, FORMATS[file.suffix])
    finally:
        lease.close()


def _write(lives: DataFrame, file: Path, kind: str) -> int:
    """Write rows to one file of a kind (parquet, csv, json), even if none; return their number."""
    if kind != "parquet":
        lives = lives.withColumns({name: f.lower(f.hex(name)) for name in ID_NAMES})
    staging = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
    counted = Observation()
    ordered = (
        lives.observe(counted, f.count(f.lit(1)).alias("rows"))
        .coalesce(1)
        .sortWithinPartitions("queue", "instance_id", "position")
    )
    options = {"header": "true", "emptyValue": "", "escape": '"'} if kind == "csv" else {}
    try:
        ordered.write.format(kind).options(**options).save(str(staging))
        for written in staging.glob("part-*"):
            move_into_place(written, file)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    # Without rows Spark may write no file at all.
    file.touch()
    row_count: int = counted.get["rows"]
    return row_count
