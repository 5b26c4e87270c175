"""Copies the ledger of a queue manager into a lake, in one process and without Java.

A lake is of Parquet files (parquet.py) or of Delta tables (delta.py). Either keeps the position of
the last ledger row that it contains, and changes it together with its rows; so a copy that was
killed goes on without losing or doubling a row.
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
