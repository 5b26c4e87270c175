"""Copies the ledger of a queue manager into a lake, and a lake into the other format, without Java.

A lake is of Parquet files (parquet.py) or of Delta tables (delta.py). Either keeps the position of
the last ledger row that it contains, and changes it together with its rows; so a copy that was
killed goes on without losing or doubling a row. Rows of a lake that is converted go through the
same writers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.answers import VIEW, ledger_view
from mayfly.pipeline.lake.compaction import copy_records
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.lake.queries import EVERYTHING
from mayfly.verbs.contracts.config_files import local_path

#: Rows of one batch. They are in memory, some 500 bytes each, until they are in the lake.
BATCH_ROWS_MAX = 200_000


class LedgerTarget(Protocol):
    """A lake that is open to add the ledger of one store of a queue manager."""

    @property
    def position(self) -> int:
        """The last position of the ledger that the lake contains, 0 at first."""

    def add(self, rows: pa.Table, until_position: int) -> None:
        """Add rows of schema LEDGER, by position; rows that the lake has are left out.

        The lake then contains the ledger up to ``until_position``. Raises LakeError if the lake
        fails.
        """


class CopiedBatch(NamedTuple):
    """A batch: the last position that the lake contains, and the number of its ledger rows."""

    position: int
    row_count: int


@contextmanager
def opened(place: str | Path, instance_id: str, *, as_delta: bool) -> Iterator[LedgerTarget]:
    """Return a context with a lake that is opened to add the ledger of one store.

    ``place`` is a folder, or with ``as_delta`` a URL as well; a new lake is created. Raises
    LakeError if it cannot be opened.
    """
    if as_delta:
        # Each format has a package that the other does not need.
        from mayfly.pipeline.lake.delta import DeltaLake

        with closing(DeltaLake(place, instance_id)) as delta_lake:
            yield delta_lake
            delta_lake.checkpoint()
    else:
        from mayfly.pipeline.lake.parquet import ParquetLake

        with closing(ParquetLake(place, instance_id)) as parquet_lake:
            yield parquet_lake


def copy_ledger(
    client: LedgerClient, lake: LedgerTarget, *, batch_rows_max: int = BATCH_ROWS_MAX
) -> Iterator[CopiedBatch]:
    """Copy the ledger up to its present end, and yield the progress after each batch.

    Nothing is copied before the first item is asked for. ``lake`` was opened for the store of
    ``client``. A new lake begins with the oldest row that the ledger has. The next batch is read
    while one is written. Raises BulkError if the server fails, PositionTrimmed if retention has
    removed rows that the lake lacks, and LakeError if the lake fails.
    """
    info = client.info()
    position, last = lake.position or info.first_position - 1, info.last_position

    def read(after: int) -> tuple[pa.Table, int]:
        """Return the batch behind a position, and the position of its last row."""
        until = min(after + batch_rows_max, last)
        batches = client.read(after, until, instance_id=info.instance_id)
        return pa.Table.from_batches(list(batches), LEDGER), until

    with ThreadPoolExecutor(1, "mayfly-ledger") as reader:
        coming = reader.submit(read, position) if position < last else None
        while coming is not None:
            rows, until = coming.result()
            coming = reader.submit(read, until) if until < last else None
            lake.add(rows, until)
            yield CopiedBatch(until, rows.num_rows)


_STORES = f"""
SELECT instance_id, any_value(manager), min(position)
FROM {VIEW} GROUP BY instance_id ORDER BY instance_id"""
#: In order of the positions, by which the new lake knows where it is.
_ROWS = f"""
SELECT {", ".join(LEDGER.names)} FROM {VIEW}
WHERE instance_id = ? AND position > ? AND position <= ? ORDER BY position"""


class LakeStore(NamedTuple):
    """A store of which a lake has rows: its id, its queue manager, and its first position there."""

    instance_id: str
    manager: str
    first_position: int


def convert_lake(
    source: str | Path, target: str | Path, *, batch_rows_max: int = BATCH_ROWS_MAX
) -> Iterator[CopiedBatch]:
    """Copy a lake of one format into one of the other, and yield the progress after each batch.

    Nothing is copied before the first item is asked for. Rows that the target has are left out. The
    rows of a batch are in memory. Raises LakeError if the source is no lake or not complete, or if
    another process copies a ledger into the target. It is also raised if the target is of the same
    format, or has rows that the source lacks.
    """
    as_delta = not is_delta(source)
    _check_format(source, target, as_delta=as_delta)
    stores = stores_of(source)
    _check_target(stores, source, target, as_delta=as_delta)
    for store in stores:
        with opened(target, store.instance_id, as_delta=as_delta) as lake:
            yield from add_store(source, store, lake, batch_rows_max)
    if stores:
        copy_records(source, target)


def add_store(
    source: str | Path, store: LakeStore, target: LedgerTarget, batch_rows_max: int
) -> Iterator[CopiedBatch]:
    """Add to a target the rows of a store that it lacks, and yield the progress after each batch.

    ``source`` is the lake that has the rows; rows that come into it meanwhile may be left out.
    Raises LakeError if it cannot be read.
    """
    last_position = _complete_until(source, store)
    with ledger_view(source, EVERYTHING) as ledger:
        assert ledger is not None, "a lake with a store has rows"
        found = ledger.execute(_ROWS, [store.instance_id, target.position, last_position])
        for batch in found.to_arrow_reader(batch_rows_max):
            rows = pa.Table.from_batches([batch]).cast(LEDGER)
            until = rows["position"][-1].as_py()
            target.add(rows, until)
            yield CopiedBatch(until, rows.num_rows)


def _check_format(source: str | Path, target: str | Path, *, as_delta: bool) -> None:
    """Raise LakeError if the target is, or can only be, of the source's own format.

    ``as_delta`` says that the target is to be of Delta tables.
    """
    is_parquet = not is_delta(target) and any(local_path(target).glob("date=*"))
    if is_parquet if as_delta else is_delta(target):
        format_name = "Parquet files" if as_delta else "Delta tables"
        raise LakeError(f"{source} and {target} are both lakes of {format_name}")


def _check_target(
    stores: list[LakeStore], source: str | Path, target: str | Path, *, as_delta: bool
) -> None:
    """Raise LakeError if the target has rows of a store, or first rows, that the source lacks."""
    if not _exists(target, as_delta=as_delta):
        return
    first_positions = {store.instance_id: store.first_position for store in stores}
    for store in stores_of(target):
        position = _complete_until(target, store)
        # Where none is complete, a killed conversion has left rows in one of several tables.
        if position and first_positions.get(store.instance_id) != store.first_position:
            raise LakeError(
                f"lake {target} has the ledger of {store.manager}, store {store.instance_id}, "
                f"from position {store.first_position} on, and {source} has not: name a new lake"
            )


def _exists(target: str | Path, *, as_delta: bool) -> bool:
    """Return True if there is a lake at a place.

    It is looked for as Delta tables with ``as_delta``, else as a folder of Parquet files.
    """
    if as_delta:
        from mayfly.pipeline.lake.delta import has_tables

        return has_tables(target)
    return local_path(target).is_dir()


def stores_of(place: str | Path) -> list[LakeStore]:
    """Return the stores of which a lake has rows, [] if it is new; raises LakeError."""
    with ledger_view(place, EVERYTHING) as ledger:
        return (
            []
            if ledger is None
            else [LakeStore(*row) for row in ledger.execute(_STORES).fetchall()]
        )


def _complete_until(place: str | Path, store: LakeStore) -> int:
    """Return the position up to which a lake has all rows of a store; raises LakeError.

    A lake may have some rows after that position as well.
    """
    if is_delta(place):
        from mayfly.pipeline.lake.delta import position_of

        return position_of(place, store.instance_id)
    from mayfly.pipeline.lake.parquet import complete_position

    return complete_position(place, store.instance_id)
