"""Compaction: merges the many small files of a lake into few large ones, by date.

A lake is a folder of Parquet files with the ledger of a queue manager. A merged file is a run,
sorted by queue. It is written beside the lake, synced, and then named by the manifest; only then
are the files it replaces removed. Runs of a date are merged again as more arrive, large ones
rarely. Spark sorts, and spills to disk where memory is short.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from mayfly.pipeline.lake.files import (
    RUNS,
    LakeFile,
    Manifest,
    Snapshot,
    batch_name,
    check_complete,
    existing_lake,
    move_into_place,
    run_path,
)
from mayfly.pipeline.spark.lake import rows_of
from mayfly.pipeline.spark.lake_upkeep import UPKEEP_STAGING, LakeBusy, publish, retire, upkeep
from mayfly.pipeline.spark.sketches import bring_up_to_date, small_tail

#: A date with at most this many files of batches is left alone, unless all is to be compacted.
FILES_LEFT_MAX = 7
#: Most runs of a date.
_RUNS_MAX = 4
#: One Spark job sorts no more than this, unless it is a single date.
_JOB_BYTES_MAX = 512 * 1024 * 1024
_JOB_DATES_MAX = 64
_RUN_ROWS_MAX = 20_000_000


class LakeCompaction(NamedTuple):
    """The numbers of a compaction: dates changed, files read, and files written instead."""

    dates: int
    files_before: int
    files_after: int


class _Task(NamedTuple):
    """The files of one date to be merged; ``sources`` is empty if there is nothing to do."""

    date: str
    sources: tuple[LakeFile, ...]
    size_bytes: int


def compact_lake(
    spark: SparkSession, lake_path: str | Path, *, is_thorough: bool = True
) -> LakeCompaction:
    """Merge the many small files of a lake into few for each date, and return the numbers.

    A second call at once changes nothing. Sketches (summaries) are updated first. With
    ``is_thorough`` False it skips dates with few files and leaves large files alone, as suits a
    lake that a stream still writes. Raises LakeError when there is no lake or a file of it is
    missing, LakeBusy when another process maintains it.
    """
    lake = existing_lake(lake_path)
    with upkeep(lake):
        bring_up_to_date(spark, lake)
        snapshot = Snapshot.take(lake)
        check_complete(snapshot)
        tasks = [task for task in _tasks(snapshot, is_thorough=is_thorough) if task.sources]
        written = sum(_compact(spark, lake, job) for job in _jobs(tasks))
    return LakeCompaction(len(tasks), sum(len(task.sources) for task in tasks), written)


def compact_beside(spark: SparkSession, lake_path: str | Path) -> None:
    """Compact the dates that need it while a stream writes the lake.

    Does nothing if another process maintains the lake. Raises LakeError if a file is missing.
    """
    with contextlib.suppress(LakeBusy):
        compact_lake(spark, lake_path, is_thorough=False)


def _tasks(snapshot: Snapshot, *, is_thorough: bool) -> Iterator[_Task]:
    """Yield the merge task of each date in order; ``sources`` is empty for nothing to merge."""
    by_date: dict[str, tuple[list[LakeFile], list[LakeFile]]] = {}
    for file in snapshot.runs:
        by_date.setdefault(file.date, ([], []))[0].append(file)
    for file in snapshot.batches:
        if batch_name(file.path.name) is not None:
            by_date.setdefault(file.date, ([], []))[1].append(file)
    for date, (runs, batches) in sorted(by_date.items()):
        sources = _all_of(runs, batches) if is_thorough else _to_merge(runs, batches)
        yield _Task(date, tuple(sources), sum(file.path.stat().st_size for file in sources))


def _all_of(runs: list[LakeFile], batches: list[LakeFile]) -> list[LakeFile]:
    """Return all files of a date to be merged, or [] if they are merged already.

    ``runs`` are files merged before, ``batches`` files of single batches.
    """
    # Runs of one generation are one sorted whole that was too large for one file.
    generations = {file.path.name.split("-")[1] for file in runs}
    is_done = not batches if len(generations) == 1 else len(runs) + len(batches) < 2
    return [] if is_done else runs + batches


def _to_merge(runs: list[LakeFile], batches: list[LakeFile]) -> list[LakeFile]:
    """Return the files of a date that are worth merging now; [] for few batch files.

    These are all batch files, and the last merged files (``runs``) if the date has many.
    """
    if len(batches) <= FILES_LEFT_MAX:
        return []
    if len(runs) < _RUNS_MAX:
        return batches
    # The batches together are the last and smallest run.
    sizes_bytes = [file.path.stat().st_size for file in runs]
    sizes_bytes.append(sum(file.path.stat().st_size for file in batches))
    return runs[len(runs) + 1 - small_tail(sizes_bytes) :] + batches


def _jobs(tasks: list[_Task]) -> Iterator[list[_Task]]:
    """Yield the merge tasks in groups, one for each Spark job, limited in bytes and dates."""
    job: list[_Task] = []
    for task in tasks:
        size_bytes = sum(other.size_bytes for other in job) + task.size_bytes
        if job and (size_bytes > _JOB_BYTES_MAX or len(job) == _JOB_DATES_MAX):
            yield job
            job = []
        job.append(task)
    if job:
        yield job


def _compact(spark: SparkSession, lake: Path, job: list[_Task]) -> int:
    """Merge the files of some dates and list the new ones in the manifest; return their number."""
    staging = lake / UPKEEP_STAGING / uuid.uuid4().hex
    sources = [file for task in job for file in task.sources]
    (
        rows_of(spark, sources)
        .coalesce(1)
        .sortWithinPartitions("date", "queue", "instance_id", "position")
        .write.partitionBy("date")
        .options(maxRecordsPerFile=str(_RUN_ROWS_MAX), compression="zstd")
        .parquet(str(staging))
    )
    manifest = Manifest.load(lake)
    written = 0
    for task in job:
        parts = sorted((staging / f"date={task.date}").glob("part-*.parquet"))
        names = [_move_in(part, lake, task.date, manifest.generation + 1) for part in parts]
        _name_runs(manifest, task, names)
        written += len(names)
    publish(lake, manifest)
    shutil.rmtree(staging)
    return written


def _move_in(part: Path, lake: Path, date: str, generation: int) -> str:
    """Move a merged file into the lake's hidden folder of a date; return its new name."""
    name = f"run-{generation:06d}-{uuid.uuid4().hex[:8]}.parquet"
    move_into_place(part, run_path(lake, date, name, is_hidden=True))
    return name


def _name_runs(manifest: Manifest, task: _Task, names: list[str]) -> None:
    """Replace the merged files of a date in the manifest by the new files ``names``, in memory."""
    entry = manifest.entry(task.date)
    replaced = {file.path.name for file in task.sources}
    retire(manifest, f"{RUNS}/date={task.date}", [n for n in entry.hidden if n in replaced])
    entry.runs = [name for name in entry.runs if name not in replaced] + names
    entry.hidden = [name for name in entry.hidden if name not in replaced] + names
    entry.since = manifest.generation + 1
    for file in task.sources:
        batch = batch_name(file.path.name)
        if batch is not None:
            entry.through[batch.store] = max(batch.batch, entry.through.get(batch.store, -1))
