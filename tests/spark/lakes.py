"""Lakes written by hand: lives and balances as the files of batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, LifeRecord
from mayfly.pipeline.bulk.schema import ledger_batch
from tests.bulk.books import START_MS

INSTANCE = "5" * 32
Entry = LifeRecord | tuple[Any, ...]


def balance(queue: str, puts: int, present: int = 0, **ended: int) -> tuple[Any, ...]:
    """A balance row but for its position."""
    return (
        KIND_BALANCE,
        queue,
        *[None] * 6,
        START_MS,
        *[None] * 13,
        puts,
        present,
        json.dumps(ended),
    )


def numbered(entries: Sequence[Entry], first: int = 1) -> list[tuple[Any, ...]]:
    """Return lives and balances as ledger rows, at positions from ``first`` on."""
    return [
        (
            first + n,
            *((KIND_LIFE, *entry, None, None, None) if isinstance(entry, LifeRecord) else entry),
        )
        for n, entry in enumerate(entries)
    ]


def rows_of(*entries: Entry, first: int = 1, instance: str = INSTANCE) -> pa.Table:
    """Return lives and balances as ledger rows, at positions from ``first`` on."""
    return pa.Table.from_batches([ledger_batch(numbered(entries, first), "QM1", instance)])


def write_lake(
    lake: Path,
    entries: Sequence[Entry],
    first: int = 1,
    instance: str = INSTANCE,
    *,
    date: str = "2023-11-14",
) -> Path:
    """Write lives and balances as a file of a lake, at positions from ``first`` on."""
    folder = lake / f"date={date}"
    folder.mkdir(parents=True, exist_ok=True)
    table = rows_of(*entries, first=first, instance=instance)
    file = folder / f"batch-{instance}-{first}.parquet"
    pq.write_table(table, file)
    return file


def forget_columns(file: Path, *names: str) -> None:
    """Write a file anew as a version that did not have some columns has written it."""
    pq.write_table(pq.ParquetFile(file).read().drop_columns([*names]), file)


def forget_outcomes(file: Path, *names: str) -> None:
    """Write a file anew as a version that did not know some outcomes has written it."""
    table = pq.ParquetFile(file).read()
    place = table.schema.get_field_index("ended")
    ended = table.column(place).combine_chunks()
    kept = [field for field in ended.type if field.name not in names]
    old = pa.StructArray.from_arrays(
        [ended.field(field.name) for field in kept], fields=kept, mask=ended.is_null()
    )
    pq.write_table(table.set_column(place, pa.field("ended", old.type), old), file)
