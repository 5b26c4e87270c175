"""A lake of Parquet files, opened to add a ledger: each row once, whatever stops its writer.

    LAKE/date=D/batch-<store>-<n>.parquet    rows of batch n that ended on a UTC date, by queue
    LAKE/_mayfly/<instance id>.json          the mark: last position and batch of the ledger
    LAKE/_mayfly/<instance id>.lock          held by the process that copies this ledger
    LAKE/_staging/<instance id>/             files of one batch, until they are in their place

A batch is written to the staging folder. The mark, which is replaced atomically, then makes it part
of the lake, and its files are moved into their place. A process that is killed before the mark has
added nothing; one that is killed behind it has left files in the staging folder, and the next one
moves them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.pipeline.bulk.schema import rows_after
from mayfly.pipeline.errors import LakeError, LedgerInUse
from mayfly.pipeline.lake.answers import VIEW, ledger_view
from mayfly.pipeline.lake.files import (
    MARKS,
    STAGING,
    Manifest,
    batch_name,
    held_alone,
    local_folder,
    locked,
    move_into_place,
    sync,
    write_safely,
)
from mayfly.pipeline.lake.queries import DAY_MS, EVERYTHING

#: 64 bits of a random id are enough in the names of files of one lake.
_SHORT_ID = 16
_EPOCH = date(1970, 1, 1)


class _Mark(NamedTuple):
    """The last position of a ledger that a lake contains, and the number of the batch it is in."""

    position: int = 0
    batch: int = -1


class ParquetLake:
    """The folder of a lake, opened to add the ledger of one store of a queue manager."""

    def __init__(self, lake_path: str | Path, instance_id: str) -> None:
        """Open the lake, which is created if it does not exist, and finish a batch of a killed run.

        A mark is the file that says up to which position the lake has this store's ledger. A lake
        without it goes on behind its last row: it is a copy of the folders of dates, or an older
        version wrote it. Raises LakeError if another process copies the same ledger into it, if the
        lake cannot be written, if its mark is damaged, or if it has no mark and lacks rows.
        """
        self._lake = local_folder(lake_path)
        self._instance_id = instance_id
        self._staging = self._lake / STAGING / instance_id
        self._mark_file = _mark_file(self._lake, instance_id)
        with contextlib.ExitStack() as opened, _file_errors(self._lake):
            if not opened.enter_context(held_alone(self._lake, f"{instance_id}.lock")):
                raise LedgerInUse(
                    f"lake {self._lake}: another process copies the ledger of store {instance_id}, "
                    "or the lake is read-only"
                )
            self._staging.mkdir(parents=True, exist_ok=True)
            sync(self._staging.parent)
            sync(self._lake)
            self._mark = _read_mark(self._mark_file) or self._mark_of_rows()
            self._finish_batch()
            self._lock = opened.pop_all()

    @property
    def position(self) -> int:
        """The last position of the ledger that the lake contains, 0 at first."""
        return self._mark.position

    def add(self, rows: pa.Table, until_position: int) -> None:
        """Add rows of schema LEDGER, by position; rows that the lake has are left out.

        The lake then contains the ledger up to ``until_position``. Each date gets one file. Raises
        LakeError if the files cannot be written; the lake has then either all of the rows or none.
        """
        if until_position <= self.position:
            return
        missing = rows_after(rows, self.position)
        mark = _Mark(until_position, self._mark.batch + 1)
        name = f"batch-{self._instance_id[:_SHORT_ID]}-{mark.batch:012d}.parquet"
        with _file_errors(self._lake):
            self._finish_batch()
            for ended_on, of_date in _by_date(missing):
                staged = self._staging / f"{ended_on} {name}"
                pq.write_table(of_date, staged, compression="zstd")
                sync(staged)
            sync(self._staging)
            write_safely(self._mark_file, json.dumps(mark._asdict()))
            self._mark = mark
            self._finish_batch()

    def close(self) -> None:
        """Release the lock on this ledger, so that other processes may copy it."""
        self._lock.close()

    def _finish_batch(self) -> None:
        """Move the staged files of the last batch into the lake; remove all other staged files.

        That batch is the one in the lake's mark, the file with the position of this ledger.
        """
        # The lock keeps compaction out, which may have merged the file before a crash undid a move.
        with locked(self._lake, is_shared=True):
            manifest = Manifest.load(self._lake)
            for staged in sorted(self._staging.iterdir()):
                ended_on, _, name = staged.name.partition(" ")
                found = batch_name(name)
                is_marked = found is not None and found.batch == self._mark.batch
                if is_marked and not manifest.holds(ended_on, name):
                    move_into_place(staged, self._lake / f"date={ended_on}" / name)
                elif staged.is_dir():
                    # Of a killed Spark of an older version.
                    shutil.rmtree(staged)
                else:
                    staged.unlink()

    def _mark_of_rows(self) -> _Mark:
        """Return the mark that fits the rows of the lake.

        Raises LakeError if a row before the last one is missing.
        """
        with ledger_view(self._lake, EVERYTHING) as ledger:
            if ledger is None:
                return _Mark()
            first, last, count = ledger.execute(
                f"SELECT min(position), max(position), count(*) FROM {VIEW} WHERE instance_id = ?",
                [self._instance_id],
            ).fetchall()[0]
        batch = max(self._batches(), default=-1)
        if last is None:
            return _Mark(batch=batch)
        if count != last - first + 1:
            name = f"batch-{self._instance_id[:_SHORT_ID]}-{batch:012d}.parquet"
            raise LakeError(
                f"lake {self._lake} has no mark of store {self._instance_id}, and rows before "
                f"position {last} are missing or doubled (mayfly ledger verify): if a killed run "
                f"has left {name} on some dates only, remove these files; else name a new lake"
            )
        return _Mark(last, batch)

    def _batches(self) -> list[int]:
        """Return the numbers of the ledger's batches, also of those that are merged into runs."""
        store = self._instance_id[:_SHORT_ID]
        names = (batch_name(path.name) for path in self._lake.glob("date=*/batch-*.parquet"))
        merged = (entry.through.get(store) for entry in Manifest.load(self._lake).dates.values())
        return [name.batch for name in names if name is not None and name.store == store] + [
            batch for batch in merged if batch is not None
        ]


def position_of(place: str | Path, instance_id: str) -> int:
    """Return the last position of a store's ledger that a lake contains, 0 for none.

    The lake may be open elsewhere. Raises LakeError if its mark is damaged.
    """
    mark = _read_mark(_mark_file(local_folder(place), instance_id))
    return 0 if mark is None else mark.position


def complete_position(place: str | Path, instance_id: str) -> int:
    """Return the position up to which a lake has all rows of a store, 0 for none.

    A batch that a killed process has left is moved into the lake first. Another process may copy
    the ledger meanwhile. Raises LakeError if that one is moving the files of a batch just now, if
    the lake is damaged, or if it is read-only.
    """
    try:
        with contextlib.closing(ParquetLake(place, instance_id)) as opened:
            return opened.position
    except LedgerInUse:
        lake = local_folder(place)
        with _file_errors(lake), locked(lake):
            mark = _read_mark(_mark_file(lake, instance_id)) or _Mark()
            staged = (lake / STAGING / instance_id).iterdir()
            if any(path.name.endswith(f"-{mark.batch:012d}.parquet") for path in staged):
                raise LakeError(f"lake {lake}: a batch is being added; try again") from None
            return mark.position


def _mark_file(lake: Path, instance_id: str) -> Path:
    """Return the file that has the mark of a ledger."""
    return lake / MARKS / f"{instance_id}.json"


def _read_mark(file: Path) -> _Mark | None:
    """Return the mark of a ledger, None without one; raises LakeError if it is damaged."""
    try:
        held = json.loads(file.read_text())
        # The mark of Spark's stream named its checkpoint, which had the position.
        return None if "stream" in held else _Mark(int(held["position"]), int(held["batch"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"{file} is damaged: {error}") from error


def _by_date(rows: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    """Yield the UTC dates of rows by ``ended_ms``, each with its rows by queue and position."""
    days = rows["ended_ms"].to_numpy() // DAY_MS
    keys = pa.table([days, rows["queue"], rows["position"]], ["day", "queue", "position"])
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    ordered = rows.take(order).combine_chunks()
    begin = 0
    for day, count in zip(*np.unique(days, return_counts=True), strict=True):
        yield _EPOCH + timedelta(days=int(day)), ordered.slice(begin, int(count))
        begin += int(count)


@contextlib.contextmanager
def _file_errors(lake: Path) -> Iterator[None]:
    """Turn errors of files into LakeError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise LakeError(f"lake {lake} cannot be written: {error}") from error
