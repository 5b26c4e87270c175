"""Rewrites the files of a lake: compaction merges small ones, erasure removes values of messages.

A lake is a folder of Parquet files with the ledger of a queue manager. Compaction merges them into
one for each date, with DuckDB. A merged file is a run, sorted by queue. It is written beside the
lake, synced, and then named by the manifest, the list of the lake's files; only then are the files
it replaces removed. Runs of a date are merged again as more arrive, large ones rarely. DuckDB
sorts, and spills to disk where memory is short.

Only the holder of the maintenance lock changes the manifest. Files that the manifest no longer
names stay until the last reader of an earlier generation has ended. Until then a run stays in
``_runs``, afterwards it replaces the files of the batches. Each step may be interrupted and is then
repeated.

Erasure keeps rows, positions, counts and proofs. Removed rows would leave gaps that no proof could
tell from a loss, and balances that do not add up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from mayfly.pipeline.errors import LakeError, PartError
from mayfly.pipeline.lake import files
from mayfly.pipeline.lake.answers import VIEW, ledger_view, write_run
from mayfly.pipeline.lake.files import (
    RUNS,
    STAGING,
    DateEntry,
    LakeFile,
    Manifest,
    Snapshot,
    add_record,
    batch_name,
    check_complete,
    existing_lake,
    held_alone,
    is_delta,
    is_run,
    locked,
    move_into_place,
    oldest_lease,
    run_path,
    sync,
)
from mayfly.pipeline.lake.queries import EVERYTHING, IS_LIFE
from mayfly.verbs.contracts.erasure import Erasure, of_id, of_user

#: A date with at most this many files of batches is left alone, unless all is to be compacted.
FILES_LEFT_MAX = 7
#: Most runs of a date.
_RUNS_MAX = 4
_STAGING = f"{STAGING}/upkeep"


class LakeBusy(LakeError):
    """Another process is maintaining the lake, or the lake is read-only."""


class LakeCompaction(NamedTuple):
    """The numbers of a compaction: dates changed, files read, and files written instead."""

    dates: int
    files_before: int
    files_after: int


def compact_lake(lake_path: str | Path, *, is_thorough: bool = True) -> LakeCompaction:
    """Merge the many small files of a lake into one for each date, and return the numbers.

    A second call at once changes nothing. With ``is_thorough`` False it skips dates with few files
    and leaves large files alone, as suits a lake that a stream still writes. Raises LakeError when
    there is no lake or a file of it is missing, LakeBusy when another process maintains it.
    """
    lake = existing_lake(lake_path)
    with maintenance(lake):
        snapshot = Snapshot.take(lake)
        check_complete(snapshot)
        if not snapshot.manifest.generation:
            # A copy of the dates alone: its runs stay readable only if a manifest names them.
            publish(lake, snapshot.manifest)
        to_merge = [*_files_to_merge(snapshot, is_thorough=is_thorough)]
        for sources in to_merge:
            _merge(lake, sources)
    return LakeCompaction(len(to_merge), sum(map(len, to_merge)), len(to_merge))


def erase_rows(lake_path: str | Path, erased: pa.Table, record: Erasure) -> int:
    """Erase rows of a lake of Parquet files; return how many files with the old rows still exist.

    ``erased`` has columns ``instance_id``, ``position`` and ``date``, the date as text. In these
    rows ids, users and programs become empty. All files of a date become one new file. The old
    files go when their last reader has ended, with the next compaction. ``record`` is the note
    about the erasure; it is stored before a file is changed. Raises LakeError if a file is missing
    or has a foreign name, LakeBusy when another process maintains the lake.
    """
    lake = existing_lake(lake_path)
    sources: list[LakeFile] = []
    with maintenance(lake):
        snapshot = Snapshot.take(lake)
        check_complete(snapshot)
        add_record(lake, record)
        for date in sorted(set(erased["date"].to_pylist())):
            of_date = [file for file in snapshot.files if file.date == date]
            for file in of_date:
                if not (is_run(file.path.name) or batch_name(file.path.name)):
                    raise LakeError(f"{file.path} has not the name of a batch or a run")
            _merge(lake, of_date, erased)
            sources += of_date
    return sum(file.path.exists() for file in sources)


def compact_beside(lake_path: str | Path) -> None:
    """Compact the dates that have many small files, while a stream writes the lake.

    Does nothing if another process maintains the lake. Raises LakeError if a file is missing.
    """
    with contextlib.suppress(LakeBusy):
        compact_lake(lake_path, is_thorough=False)


# Which files are merged


def _files_to_merge(snapshot: Snapshot, *, is_thorough: bool) -> Iterator[list[LakeFile]]:
    """Yield the files that are to become one, by date; dates with nothing to merge are left out.

    With ``is_thorough`` these are all files of a date, else those worth merging.
    """
    by_date: dict[str, tuple[list[LakeFile], list[LakeFile]]] = {}
    for file in snapshot.runs:
        by_date.setdefault(file.date, ([], []))[0].append(file)
    for file in snapshot.batches:
        if batch_name(file.path.name) is not None:
            by_date.setdefault(file.date, ([], []))[1].append(file)
    for _date, (runs, batches) in sorted(by_date.items()):
        sources = runs + batches if is_thorough else _worth_merging(runs, batches)
        if len(sources) > 1:
            yield sources


def _worth_merging(runs: list[LakeFile], batches: list[LakeFile]) -> list[LakeFile]:
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
    return runs[len(runs) + 1 - _small_tail(sizes_bytes) :] + batches


def _small_tail(sizes_bytes: Sequence[int]) -> int:
    """Return how many of the last files to merge, so that each byte is merged only a few times.

    At least two, or all if fewer exist. A file is included if it is at most twice as large as all
    files after it together.
    """
    count = min(2, len(sizes_bytes))
    while count < len(sizes_bytes) and sizes_bytes[-count - 1] <= 2 * sum(sizes_bytes[-count:]):
        count += 1
    return count


def _merge(lake: Path, sources: list[LakeFile], erased: pa.Table | None = None) -> None:
    """Merge files of one date into one, and list that file in the manifest in their place.

    In the rows that ``erased`` names by store and position, ids, users and programs become empty.
    """
    date = sources[0].date
    staging = lake / _STAGING / uuid.uuid4().hex
    staging.mkdir(parents=True)
    write_run([file.path for file in sources], staging / "run.parquet", erased)
    manifest = Manifest.load(lake)
    name = f"run-{manifest.generation + 1:06d}-{uuid.uuid4().hex[:8]}.parquet"
    move_into_place(staging / "run.parquet", run_path(lake, date, name, is_hidden=True))
    _name_run(manifest, sources, name)
    publish(lake, manifest)
    shutil.rmtree(staging)


def _name_run(manifest: Manifest, sources: list[LakeFile], name: str) -> None:
    """Replace the merged files of a date in the manifest by the run ``name``, in memory."""
    date = sources[0].date
    entry = manifest.entry(date)
    replaced = {file.path.name for file in sources}
    _retire(manifest, f"{RUNS}/date={date}", [n for n in entry.hidden if n in replaced])
    entry.runs = [*(n for n in entry.runs if n not in replaced), name]
    entry.hidden = [*(n for n in entry.hidden if n not in replaced), name]
    entry.since = manifest.generation + 1
    for file in sources:
        batch = batch_name(file.path.name)
        if batch is not None:
            entry.through[batch.store] = max(batch.batch, entry.through.get(batch.store, -1))


# Maintenance: files that no reader needs any more


@contextlib.contextmanager
def maintenance(lake: Path) -> Iterator[None]:
    """Return a context that holds the maintenance lock of a lake.

    Raises LakeBusy if another process holds it, or the lake is read-only. At its begin, unfinished
    work of a killed process is finished or removed. At its end, files that no reader needs are
    removed.
    """
    with held_alone(lake, "maintenance") as is_ours:
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


def _retire(manifest: Manifest, folder: str, names: Sequence[str]) -> None:
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
    shutil.rmtree(lake / _STAGING, ignore_errors=True)
    named = {lake / path for path in manifest.retired}
    named |= {
        run_path(lake, date, name, is_hidden=True)
        for date, entry in manifest.dates.items()
        for name in entry.hidden
    }
    for path in lake.glob(f"{RUNS}/date=*/*.parquet"):
        if path not in named:
            path.unlink()


def settle(lake: Path) -> None:
    """Move merged files to their final place, and remove files that no reader needs any more.

    Files of a date stay as they are while a reader still uses the old ones. The caller holds the
    maintenance lock.
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
    """Put a date's merged files in the place of its batch files, which are removed.

    Merged files may be hidden in ``_runs`` while readers need the old ones. Returns True if such
    files were moved, so that the caller must publish the manifest.
    """
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
    _retire(manifest, f"{RUNS}/date={date}", entry.hidden)
    entry.hidden = []
    return True


def _is_replaced(manifest: Manifest, entry: DateEntry, date: str, name: str) -> bool:
    """Return True if the rows of a date's file ``name`` are in another file.

    It is a batch that was merged, or a merged file that was merged again. ``entry`` is the
    manifest's for the date.
    """
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


#: A row that was erased before has no MsgId any more.
_FOUND = f"""
SELECT DISTINCT instance_id, position, CAST(date AS VARCHAR) AS date
FROM {VIEW} WHERE {IS_LIFE} AND octet_length(msg_id) > 0 AND (%s)"""
_WRONG_CONDITION = (duckdb.BinderException, duckdb.ParserException, duckdb.ConversionException)


class Selection(NamedTuple):
    """The rows to erase: ``selected_by`` is ``id``, ``user`` or ``where``, with its value.

    The value is an id of 24 bytes, the name of a user, or a condition in DuckDB's SQL over the
    columns of the ledger.
    """

    selected_by: str
    value: bytes | str


class LakeErasure(NamedTuple):
    """A finished erasure: its record, and the number of files with the old rows that still exist.

    They go as :func:`erase_lives` says.
    """

    record: Erasure
    old_file_count: int


def erase_lives(
    lake_path: str | Path,
    selection: Selection,
    begun: Erasure,
    *,
    is_vacuumed: bool = False,
) -> LakeErasure:
    """Erase ids, users and programs from the rows of some messages, and record it.

    ``begun`` is the record without a number of rows; it is stored only if there are rows. In a lake
    of Parquet files the files of their dates are written again. The old files go when their last
    reader has ended, with the next compaction. In Delta tables the old files go with the first
    compaction after a week, or with ``is_vacuumed`` at once. After a crash the caller erases again.
    Raises PartError for a wrong condition. Raises LakeError without a lake, for a lake that is not
    complete, and when another process maintains or changes it.
    """
    is_of_delta = is_delta(lake_path)
    if not is_of_delta:
        _finish_batches(existing_lake(lake_path))
    with ledger_view(lake_path, EVERYTHING) as ledger:
        if ledger is None:
            return LakeErasure(begun, 0)
        condition, values = _condition(selection)
        try:
            erased = ledger.execute(_FOUND % condition, values).to_arrow_table()
        except _WRONG_CONDITION as error:
            text = str(error).partition("\n")[0]
            raise PartError(f"{selection.value!r} is no condition: {text}") from error
    record = begun._replace(row_count=erased.num_rows)
    if not is_of_delta:
        old_file_count = 0
        if record.row_count:
            old_file_count = erase_rows(lake_path, erased, record)
        return LakeErasure(record, old_file_count)
    from mayfly.pipeline.lake import delta

    old_file_count = delta.erase_rows(lake_path, erased, record) if record.row_count else 0
    if is_vacuumed:
        # Also what an erasure before has left.
        delta.vacuum(lake_path)
        old_file_count = 0
    return LakeErasure(record, old_file_count)


def erasures(lake_path: str | Path) -> list[Erasure]:
    """Return the records of erasures from a lake, oldest first; raises LakeError without a lake."""
    if is_delta(lake_path):
        from mayfly.pipeline.lake import delta

        return delta.records_in(lake_path)
    return files.records_in(existing_lake(lake_path))


def copy_records(source: str | Path, target: str | Path) -> None:
    """Add to one lake the records of erasures that only the other has; raises LakeError."""
    known = erasures(target)
    for record in erasures(source):
        if record in known:
            continue
        if is_delta(target):
            from mayfly.pipeline.lake import delta

            delta.add_record(target, record)
        else:
            files.add_record(existing_lake(target), record)


def _condition(selection: Selection) -> tuple[str, list[bytes | str]]:
    """Return the SQL condition of a selection, and the values of its parameters."""
    match selection.selected_by:
        case "id":
            return of_id("$1"), [selection.value]
        case "user":
            return of_user("$1"), [selection.value]
        case _:
            return str(selection.value), []


def _finish_batches(lake: Path) -> None:
    """Move what killed copies have left into the lake; a copy that is at work does so itself."""
    from mayfly.pipeline.lake.parquet import ParquetLake

    for staging in (lake / files.STAGING).glob("*/"):
        if any(staging.glob("*.parquet")):
            with suppress(LakeError):
                ParquetLake(lake, staging.name).close()
