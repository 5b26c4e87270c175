"""Upkeep of a lake: changes which files make it up, while each reader has every row once.

Only the holder of the maintenance lock changes the manifest, the list of files in the lake. Files
that the manifest no longer names stay until the last reader of an earlier generation has ended.
Until then a merged file (a run) stays in ``_runs``, afterwards it replaces the files of the
batches. Each step may be interrupted and is then repeated.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from mayfly.pipeline.lake.files import (
    RUNS,
    SKETCHES,
    STAGING,
    DateEntry,
    Manifest,
    is_run,
    locked,
    maintained,
    oldest_lease,
    run_path,
    sync,
)
from mayfly.pipeline.spark.errors import LakeError

UPKEEP_STAGING = f"{STAGING}/upkeep"


class LakeBusy(LakeError):
    """Another process is maintaining the lake, or the lake is read-only."""


@contextlib.contextmanager
def upkeep(lake: Path) -> Iterator[None]:
    """Return a context that holds the maintenance lock of a lake.

    Raises LakeBusy if another process holds it, or the lake is read-only. At its begin, unfinished
    work of a killed process is finished or removed. At its end, files that no reader needs are
    removed.
    """
    with maintained(lake) as is_ours:
        if not is_ours:
            raise LakeBusy(f"lake {lake} is being maintained by another process, or read-only")
        sweep(lake)
        settle(lake)
        yield
        settle(lake)


def publish(lake: Path, manifest: Manifest) -> None:
    """Store a manifest (the list of a lake's files) as the next generation, under a lock."""
    with locked(lake):
        manifest.publish(lake)


def retire(manifest: Manifest, folder: str, names: Sequence[str]) -> None:
    """Record files in the manifest for removal, when none of the present readers is left.

    The manifest is changed in memory only.
    """
    for name in names:
        manifest.retired[f"{folder}/{name}"] = manifest.generation + 1


def sweep(lake: Path) -> None:
    """Remove files that a killed process wrote and that the manifest never named.

    The caller holds the maintenance lock.
    """
    manifest = Manifest.load(lake)
    shutil.rmtree(lake / UPKEEP_STAGING, ignore_errors=True)
    named = {lake / path for path in manifest.retired}
    named |= {lake / SKETCHES / name for name in manifest.sketches}
    named |= {
        run_path(lake, date, name, is_hidden=True)
        for date, entry in manifest.dates.items()
        for name in entry.hidden
    }
    for path in [*lake.glob(f"{SKETCHES}/*.parquet"), *lake.glob(f"{RUNS}/date=*/*.parquet")]:
        if path not in named:
            path.unlink()


def settle(lake: Path) -> None:
    """Move merged files to their final place, and remove files that no reader needs any more.

    A date waits while a reader of an earlier generation is active. The caller holds the maintenance
    lock.
    """
    with locked(lake):
        manifest = Manifest.load(lake)
        oldest = oldest_lease(lake)
        ready = [
            date
            for date, entry in manifest.dates.items()
            if oldest is None or oldest >= entry.since
        ]
        if sum(_take_place(lake, date, manifest) for date in ready):
            manifest.publish(lake)
        gone = [
            path
            for path, generation in manifest.retired.items()
            if oldest is None or oldest >= generation
        ]
        for path in gone:
            (lake / path).unlink(missing_ok=True)
            del manifest.retired[path]
        if gone:
            manifest.publish(lake)


def _take_place(lake: Path, date: str, manifest: Manifest) -> bool:
    """Replace a date's batch files by the merged files; return True if hidden ones were moved."""
    entry = manifest.dates[date]
    folder = run_path(lake, date, "", is_hidden=False)
    for name in entry.hidden:
        hidden = run_path(lake, date, name, is_hidden=True)
        if not (folder / name).exists():
            _copy(hidden, folder / name)
    for path in folder.glob("*.parquet"):
        if _is_replaced(manifest, entry, date, path.name):
            path.unlink()
    if not entry.hidden:
        return False
    sync(folder)
    retire(manifest, f"{RUNS}/date={date}", entry.hidden)
    entry.hidden = []
    return True


def _is_replaced(manifest: Manifest, entry: DateEntry, date: str, name: str) -> bool:
    """Return True if a file's rows are in another file: a merged batch, or a file merged again."""
    return manifest.holds(date, name) or (is_run(name) and name not in entry.runs)


def _copy(source: Path, target: Path) -> None:
    """Make ``target`` a hard link to ``source``, or a copy if the file system has no links."""
    unfinished = target.with_name(f".{target.name}")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(source, unfinished)
    except OSError:
        shutil.copyfile(source, unfinished)
        sync(unfinished)
    unfinished.replace(target)
