"""Exports ended messages of a lake to one file for other programs: Parquet, CSV or JSON lines.

A lake is a folder of Parquet files with the ledger of a queue manager. Rows are ordered by queue,
store and position. Spark sorts and writes, so memory stays bounded; the file appears atomically.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from mayfly.pipeline.lake.export_formats import FORMATS, ID_NAMES, check_export, export_condition
from mayfly.pipeline.lake.files import (
    Lease,
    check_complete,
    existing_lake,
    local_folder,
    move_into_place,
)
from mayfly.pipeline.lake.part import EVERYTHING, LakePart
from mayfly.pipeline.spark.lake import lives_of, rows_of


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
