"""Sketches: counts and duration summaries (KLL) per hour and queue, stored beside the lake.

A cell is one hour of one queue of one store: ended messages by outcome, reports owed, three
sketches of durations, and the newest balance. Cells are computed from batches that no stored sketch
counts yet; the manifest lists the counted ones. Merging two cells gives the cell of all their rows,
so a report never reads the rows again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from mayfly.pipeline.lake.files import (
    SKETCHES,
    LakeFile,
    Manifest,
    Snapshot,
    batch_name,
    existing_lake,
    maintained,
    move_into_place,
)
from mayfly.pipeline.lake.measures import (
    COUNT_NAMES,
    DURATIONS,
    IS_BALANCE,
    SKETCH_NAMES,
    conditions,
)
from mayfly.pipeline.lake.part import EVERYTHING, HOUR_MS, LakePart
from mayfly.pipeline.spark.errors import LakeError
from mayfly.pipeline.spark.lake import rows_of
from mayfly.pipeline.spark.lake_upkeep import UPKEEP_STAGING, publish, retire, settle, upkeep

#: KLL's k: ranks are right to about 1 %, and a full sketch takes some 5 KB.
SKETCH_K = 200
CELL_KEY = ("date", "hour", "manager", "instance_id", "queue")
#: More files of sketches than this are merged into fewer.
_FILES_MAX = 8
_SHUFFLED_BYTES_MIN = 64 * 1024 * 1024


def counts() -> list[Column]:
    """Return the aggregate columns COUNT_NAMES over ledger rows, each counting one condition."""
    return [f.count_if(f.expr(text)).alias(name) for name, text in conditions().items()]


def cells_of(rows: DataFrame) -> DataFrame:
    """Return counts and sketches of ledger rows: a row (cell) per hour, queue and store.

    A sketch summarizes durations, for estimated percentiles.
    """
    balance = f.struct("position", f.col("ended_ms").alias("at_ms"), "puts", "present", "ended")
    is_balance = f.expr(IS_BALANCE)
    sketched = [
        _unless_empty(f.kll_sketch_agg_bigint(f.expr(duration), SKETCH_K)).alias(name)
        for name, duration in DURATIONS.items()
    ]
    hour = f.expr(f"int(pmod(ended_ms div {HOUR_MS}, 24))").alias("hour")
    return (
        rows.groupBy("date", hour, "manager", "instance_id", "queue")
        .agg(
            *counts(),
            *sketched,
            f.max_by(f.when(is_balance, balance), f.when(is_balance, f.col("position"))).alias(
                "balance"
            ),
        )
        .select(*CELL_KEY, *COUNT_NAMES, *SKETCH_NAMES, "balance")
    )


def merging() -> list[Column]:
    """Return the aggregate columns that add counts and merge sketches, under the same names."""
    return [
        *(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in COUNT_NAMES),
        *(
            _unless_empty(f.kll_merge_agg_bigint(name, SKETCH_K)).alias(name)
            for name in SKETCH_NAMES
        ),
    ]


def merged(cells: DataFrame, *key: str) -> DataFrame:
    """Return one row for each value of ``key``: counts added, sketches merged, newest balance."""
    newest = f.max_by("balance", f.col("balance.position")).alias("balance")
    return cells.groupBy(*key).agg(*merging(), newest)


def _unless_empty(sketch: Column) -> Column:
    """Return a sketch column (summaries of durations) in which empty sketches are null."""
    # A quantile of an empty sketch is an error in Spark.
    return f.when(f.kll_sketch_get_n_bigint(sketch) > 0, sketch)


def stored_cells(spark: SparkSession, snapshot: Snapshot, part: LakePart = EVERYTHING) -> DataFrame:
    """Return the hourly counts and sketches of a part of a lake, a row (cell) per hour and queue.

    Rows of the lake that no stored sketch counts are computed now, and not stored. A key may occur
    several times; `merged` joins them. Raises LakeError when a file is missing.
    """
    fresh = part.files(snapshot.unsketched)
    paths = [snapshot.lake / SKETCHES / name for name in snapshot.manifest.sketches]
    for path in paths:
        if not path.exists():
            raise LakeError(f"{path} is missing: rebuild the sketches, or ask for a rescan")
    cells = cells_of(rows_of(spark, fresh))
    if paths:
        stored = spark.read.schema(cells.schema).parquet(*map(str, paths))
        if sum(path.stat().st_size for path in paths) < _SHUFFLED_BYTES_MIN:
            # One partition needs no shuffle.
            stored = stored.coalesce(1)
        cells = stored.unionByName(cells) if fresh else stored
    return cells.where(part.cell_condition())


# Keeping them up to date


def sketch_lake(spark: SparkSession, lake_path: str | Path) -> bool:
    """Update the stored sketches of a lake; return False if the lake cannot be maintained.

    That is so while another process maintains it, or if it is read-only. Returns True also if
    nothing was to be done. Raises LakeError without a lake.
    """
    lake = existing_lake(lake_path)
    if not Snapshot.take(lake).unsketched:
        return True
    with maintained(lake) as is_ours:
        if is_ours:
            bring_up_to_date(spark, lake)
            settle(lake)
        return is_ours


def rebuild_sketches(spark: SparkSession, lake_path: str | Path) -> None:
    """Compute all sketches of a lake again from its rows and replace the stored ones.

    Raises LakeError without a lake, LakeBusy while another process maintains it.
    """
    lake = existing_lake(lake_path)
    with upkeep(lake):
        manifest = Manifest.load(lake)
        retire(manifest, SKETCHES, manifest.sketches)
        manifest.sketches, manifest.sketched = [], {}
        publish(lake, manifest)
        bring_up_to_date(spark, lake)


def bring_up_to_date(spark: SparkSession, lake: Path) -> None:
    """Compute and store the sketches of rows that no stored sketch counts yet.

    Too many files of sketches are merged. The caller holds the maintenance lock.
    """
    snapshot = Snapshot.take(lake)
    manifest = snapshot.manifest
    # Files of other names have no number in the manifest: each report counts them for itself.
    files = [
        file
        for file in snapshot.unsketched
        if file in snapshot.runs or batch_name(file.path.name) is not None
    ]
    if files:
        cells = cells_of(rows_of(spark, files))
        manifest.sketches.append(_write(cells, lake, manifest.generation + 1))
        _note_sketched(manifest, files)
        publish(lake, manifest)
    _merge_files(spark, lake, manifest)


def _note_sketched(manifest: Manifest, files: Sequence[LakeFile]) -> None:
    """Record in the manifest, in memory, that the stored sketches count these files' batches."""
    for file in files:
        through = manifest.sketched.setdefault(file.date, {})
        batch = batch_name(file.path.name)
        held = manifest.entry(file.date).through if batch is None else {batch.store: batch.batch}
        for store, number in held.items():
            through[store] = max(number, through.get(store, -1))


def _merge_files(spark: SparkSession, lake: Path, manifest: Manifest) -> None:
    """Merge the last files of sketches into one; does nothing for _FILES_MAX files or fewer."""
    names = manifest.sketches
    if len(names) <= _FILES_MAX:
        return
    paths = [lake / SKETCHES / name for name in names]
    tail = small_tail([path.stat().st_size for path in paths])
    schema = cells_of(rows_of(spark, [])).schema
    cells = spark.read.schema(schema).parquet(*map(str, paths[-tail:]))
    anew = _write(merged(cells, *CELL_KEY), lake, manifest.generation + 1)
    retire(manifest, SKETCHES, names[-tail:])
    manifest.sketches = [*names[:-tail], anew]
    publish(lake, manifest)


def small_tail(sizes_bytes: Sequence[int]) -> int:
    """Return how many of the last files to merge, so that each byte is merged only a few times.

    At least two, or all if fewer exist. A file is included if it is at most twice as large as all
    files after it together.
    """
    count = min(2, len(sizes_bytes))
    while count < len(sizes_bytes) and sizes_bytes[-count - 1] <= 2 * sum(sizes_bytes[-count:]):
        count += 1
    return count


def _write(cells: DataFrame, lake: Path, generation: int) -> str:
    """Write hourly counts and sketches to a new file in the lake; return the file's name."""
    staging = lake / UPKEEP_STAGING / uuid.uuid4().hex
    name = f"sketches-{generation:06d}-{uuid.uuid4().hex[:8]}.parquet"
    ordered = cells.coalesce(1).sortWithinPartitions(*CELL_KEY)
    ordered.write.options(compression="zstd").parquet(str(staging))
    [written] = staging.glob("part-*.parquet")
    move_into_place(written, lake / SKETCHES / name)
    shutil.rmtree(staging)
    return name
