"""The trace: a table with one row per recorded message, sorted and split by queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mayfly.lifetime.columns import Ints, ints
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.pipeline.errors import ReplayError
from mayfly.verbs.contracts.files import local_path

#: ``seq`` numbers the messages of one queue in put order and decides between equal moments.
#: ``get_ms`` null: there is no get. For gets that take the first message, all rows share one
#: ``correl_id``.
TRACE_SCHEMA = pa.schema(
    [
        pa.field("queue", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("put_ms", pa.int64(), nullable=False),
        pa.field("delay_ms", pa.int64()),
        pa.field("life_ms", pa.int64()),
        pa.field("correl_id", pa.binary(), nullable=False),
        pa.field("get_ms", pa.int64()),
    ]
)
#: Optional columns of a trace: MQMD.Priority, and the recorded outcome.
OPTIONAL_FIELDS = (pa.field("priority", pa.int64()), pa.field("recorded", pa.string()))
FULL_TRACE_SCHEMA = pa.schema([*TRACE_SCHEMA, *OPTIONAL_FIELDS])
PRIORITY_MAX = 9
#: The largest value of each column of numbers; the smallest is 0. A delay is not among them: the
#: rules themselves refuse the put of one that is too long or negative.
LARGEST = {
    "seq": 2**63 - 1,
    "put_ms": LATEST_DUE_MS,
    "life_ms": LATEST_DUE_MS,
    "get_ms": LATEST_DUE_MS,
    "priority": PRIORITY_MAX,
}

_PUT_ORDER = ("put_ms", "seq")
#: Up to this number of queues their codes fit 16 bits, which NumPy sorts in one pass.
_SHORT_CODES_MAX = 2**15


class Trace(NamedTuple):
    """A sorted trace: queue ``n`` of ``queues`` has the rows ``bounds[n]`` to ``bounds[n + 1]``.

    The rows of a queue are sorted by put time and seq; ``rows`` has FULL_TRACE_SCHEMA.
    """

    rows: pa.Table
    queues: list[str]
    bounds: Ints


def as_trace(rows: pa.Table) -> pa.Table:
    """Return rows with exactly the columns of FULL_TRACE_SCHEMA; missing optional ones are null.

    Raises ReplayError if a required value is null.
    """
    for field in OPTIONAL_FIELDS:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    rows = rows.select(FULL_TRACE_SCHEMA.names)
    _check_nulls(rows)
    return rows.cast(FULL_TRACE_SCHEMA)


def arranged(trace: pa.Table) -> Trace:
    """Return a trace (recorded messages) sorted by queue, put time and seq, and checked.

    Raises ReplayError when two rows of a queue have the same seq, and for values that are missing
    or out of range, with the column, row and value.
    """
    rows = as_trace(trace).combine_chunks()
    for column, largest in LARGEST.items():
        check_range(rows[column], column, largest)
    names: Any = rows["queue"].combine_chunks().dictionary_encode()
    queues = names.dictionary.to_pylist()
    rank = np.argsort(np.argsort(np.array(queues, dtype=object)))
    codes = rank[np.asarray(names.indices)]
    if len(queues) < _SHORT_CODES_MAX:
        codes = codes.astype(np.int16)
    put_ms, seq = (numbers(rows[name]) for name in _PUT_ORDER)
    order = np.argsort(codes, kind="stable")
    if not _is_ordered(codes[order], put_ms[order], seq[order]):
        order = np.lexsort((seq, put_ms, codes))
    if np.any(order[1:] < order[:-1]):
        rows = _taken(rows, pa.array(order))
    in_order = Trace(rows, sorted(queues), _bounds(codes[order], len(queues)))
    _check_seq(in_order)
    return in_order


def numbers(column: pa.ChunkedArray | pa.Array) -> Ints:
    """Return an int64 column as an array, with NONE for nulls; without a copy if it has no null."""
    return ints(column) if column.null_count else np.asarray(column)


def check_range(column: pa.ChunkedArray, name: str, largest: int) -> None:
    """Raise ReplayError, with row (from 1) and value, for a value not from 0 to ``largest``."""
    bounds = pc.min_max(column).as_py()
    if bounds["min"] is None or (bounds["min"] >= 0 and bounds["max"] <= largest):
        return
    wrong = pc.or_(pc.less(column, 0), pc.greater(column, largest))
    row = pc.index(wrong, True).as_py()
    raise ReplayError(f"column {name} is {column[row]} in row {row + 1}, not from 0 to {largest}")


def _taken(rows: pa.Table, order: pa.Array) -> pa.Table:
    """Return the rows in the order of these row numbers; a column of nulls is not copied."""
    columns = [
        column if column.null_count == len(rows) else column.combine_chunks().take(order)
        for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema)


def _bounds(codes: Any, queue_count: int) -> Ints:
    """Return the first row of each queue, and the end; ``codes`` are sorted queue numbers."""
    return np.searchsorted(codes, np.arange(queue_count + 1))


def _is_ordered(codes: Any, put_ms: Ints, seq: Ints) -> bool:
    """Return True if rows are sorted by put time and seq within each queue."""
    later = put_ms[1:] > put_ms[:-1]
    later |= (put_ms[1:] == put_ms[:-1]) & (seq[1:] > seq[:-1])
    later |= codes[1:] != codes[:-1]
    return bool(later.all())


def _check_seq(trace: Trace) -> None:
    """Raise ReplayError if two rows of a queue have the same sequence number."""
    seq = numbers(trace.rows["seq"])
    rises = seq[1:] > seq[:-1]
    rises[trace.bounds[1:-1] - 1] = True
    if rises.all():
        return
    for queue, begin, end in zip(trace.queues, trace.bounds, trace.bounds[1:], strict=False):
        own = np.sort(seq[begin:end])
        twice = own[1:][own[1:] == own[:-1]]
        if len(twice):
            raise ReplayError(f"seq {twice[0]} occurs twice in queue {queue!r}")


def _check_nulls(rows: pa.Table) -> None:
    """Raise ReplayError, with column and row, for a null in a required column."""
    for field in TRACE_SCHEMA:
        column = rows[field.name]
        if column.null_count and not field.nullable:
            row = pc.index(pc.is_null(column), True).as_py()
            raise ReplayError(f"column {field.name} has no value in row {row + 1}")


# A trace split by queue: one folder queue=NAME each, so that one task reads one queue


_PREFIX = "queue="


def write_split(trace: pa.Table, folder: str | Path) -> None:
    """Write a trace (recorded messages) into folders ``queue=NAME``, replacing their files.

    Raises ReplayError for an invalid trace, or a URL of another machine.
    """
    ds.write_dataset(
        as_trace(trace),
        str(local_trace(folder)),
        format="parquet",
        partitioning=["queue"],
        partitioning_flavor="hive",
        existing_data_behavior="delete_matching",
        max_partitions=1_000_000,
    )


def local_trace(path: str | Path) -> Path:
    """Return the path of a trace (a file of recorded messages) on this machine.

    Raises ReplayError for a URL of another machine.
    """
    try:
        return local_path(path)
    except ValueError as error:
        raise ReplayError(str(error)) from error


def is_split(folder: Path) -> bool:
    """Return True if the folder has subfolders ``queue=NAME``: a trace split by queue."""
    return any(folder.glob(f"{_PREFIX}*"))


def queue_folders(folder: str | Path) -> list[Path]:
    """Return the folders ``queue=NAME`` sorted by path; raises ReplayError if none exists."""
    folders = sorted(local_trace(folder).absolute().glob(f"{_PREFIX}*"))
    if not folders:
        raise ReplayError(f"{folder} is not split by queue: it has no folder queue=NAME")
    return folders


def read_queue(folder: Path) -> pa.Table:
    """Return the recorded messages of one queue, as a trace, from its folder ``queue=NAME``.

    Raises ReplayError without a Parquet file, or for missing values.
    """
    rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in _files(folder)])
    name = queue_of(folder)
    if "queue" in rows.column_names:
        rows = rows.drop_columns("queue")
    return as_trace(rows.append_column("queue", pa.repeat(pa.scalar(name), len(rows))))


def queue_of(folder: Path) -> str:
    """Return the queue name in the name of a folder: ``queue=DEV.Q1`` -> ``DEV.Q1``."""
    return unquote(folder.name.removeprefix(_PREFIX))


def read_split(folder: str | Path) -> pa.Table:
    """Return the recorded messages of all folders ``queue=NAME`` as one trace.

    Raises ReplayError if no such folder exists, or for missing values.
    """
    return pa.concat_tables([read_queue(path) for path in queue_folders(folder)])


def _files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder; raises ReplayError if there are none."""
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise ReplayError(f"{folder} holds no Parquet file")
    return files
