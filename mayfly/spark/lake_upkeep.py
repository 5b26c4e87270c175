"""Change which files make up a lake, so that every reader at every moment has every row once.

Only whoever holds the maintenance lock changes the manifest. What it no longer names stays until
the last reader of an earlier generation is gone: a run lies beside the lake until then, and takes
the place of the batches' files afterwards. Each step may be cut off and is then done again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from mayfly.lake.files import (
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
from mayfly.spark.errors import LakeError

UPKEEP_STAGING = f"{STAGING}/upkeep"


class LakeBusy(LakeError):
    """Somebody else maintains the lake just now, or nobody may write to it."""


@contextlib.contextmanager
def upkeep(lake: Path) -> Iterator[None]:
    """Be the one who maintains a lake; raises LakeBusy when somebody else is, or nobody can be.

    What a killed predecessor left half done is finished or removed first, and what can be removed
    is removed afterwards.
    """
    with maintained(lake) as is_ours:
        if not is_ours:
            raise LakeBusy(f"lake {lake} is being maintained by another process, or read-only")
        sweep(lake)
        settle(lake)
        yield
        settle(lake)


def publish(lake: Path, manifest: Manifest) -> None:
    """Make a manifest the lake's, as the next generation, while nobody takes a snapshot."""
    with locked(lake):
        manifest.publish(lake)


def retire(manifest: Manifest, folder: str, names: Sequence[str]) -> None:
    """Note files that the next generation does not name."""
    for name in names:
        manifest.retired[f"{folder}/{name}"] = manifest.generation + 1


def sweep(lake: Path) -> None:
    """Remove what a killed maintainer had written and the manifest never came to name."""
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
    """Give runs their place in the lake and remove what nobody reads any longer, where possible."""
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
    """Put the runs of a date where its batches were, and remove those; tell if there were any."""
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
    return manifest.holds(date, name) or (is_run(name) and name not in entry.runs)


def _copy(source: Path, target: Path) -> None:
    """Give a file a second name, by copying it where the file system knows no second names."""
    unfinished = target.with_name(f".{target.name}")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(source, unfinished)
    except OSError:
        shutil.copyfile(source, unfinished)
        sync(unfinished)
    unfinished.replace(target)
