"""Reads a trace from a CSV, Parquet or Arrow file, and checks it.

Columns are those of FULL_TRACE_SCHEMA; only ``queue`` and ``put_ms`` are required. Without ``seq``
rows are numbered in file order; without ``correl_id`` every get takes the first message.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.replay.split import is_split, local_trace, read_split
from mayfly.pipeline.replay.trace import FULL_TRACE_SCHEMA, arranged, as_trace, check_range

_REQUIRED = ("queue", "put_ms")
_SUFFIXES = ".csv, .parquet, .arrow or .feather"


def read_trace(path: str | Path) -> pa.Table:
    """Return the checked trace, a row for each recorded message, in a file or a folder by queue.

    The suffix decides the format: .csv, .parquet, .arrow or .feather. Raises ReplayError for a file
    that is no trace, with the column, row and value; OSError if it cannot be read.
    """
    file = local_trace(path)
    if file.is_dir():
        if not is_split(file):
            raise ReplayError(f"{file} is neither a lake nor a trace split by queue (queue=NAME)")
        return checked(read_split(file), str(file))
    try:
        rows = _read(file)
    except pa.ArrowInvalid as error:
        raise ReplayError(f"{file} cannot be read: {_first_line(error)}") from error
    return checked(rows, str(file))


def parquet_row_count(files: list[Path]) -> int:
    """Return the number of rows in Parquet files, which their footers say."""
    return sum(pq.read_metadata(file).num_rows for file in files)


def trace_row_count(trace: str | Path) -> int | None:
    """Return the number of messages in a trace of Parquet files; None for a file of another kind.

    The trace is a file, or a folder split by queue. Raises ReplayError for a URL of another
    machine, ArrowInvalid for a damaged file.
    """
    file = local_trace(trace)
    if is_split(file):
        return parquet_row_count([*file.glob("queue=*/*.parquet")])
    return parquet_row_count([file]) if file.suffix.lower() == ".parquet" else None


def check_trace_schema(schema: pa.Schema, name: str) -> None:
    """Raise ReplayError unless Spark can replay rows of these columns; ``name`` is the file's name.

    ``seq`` is required: rows that workers share have no order by which to number them.
    """
    _check_columns(schema.empty_table(), name)
    if "seq" not in schema.names:
        raise ReplayError(f"{name} has no column 'seq', which a replay in Spark needs")


def checked(rows: pa.Table, name: str) -> pa.Table:
    """Return rows as a trace (a row for each recorded message), with missing columns added.

    Raises ReplayError for a wrong column or value; ``name`` is the file's name in its text.
    """
    _check_columns(rows, name)
    columns = {column: _cast(rows[column], column, name) for column in rows.column_names}
    count = len(rows)
    columns.setdefault("seq", pa.array(np.arange(1, count + 1)))
    columns.setdefault("correl_id", pa.repeat(pa.scalar(b"", pa.binary()), count))
    for field in FULL_TRACE_SCHEMA:
        columns.setdefault(field.name, pa.nulls(count, field.type))
    try:
        trace = as_trace(pa.table(columns))
        check_range(trace["delay_ms"], "delay_ms", LATEST_DUE_MS)
        arranged(trace)
    except ReplayError as error:
        raise ReplayError(f"{name}: {error}") from error
    return trace


def _read(file: Path) -> pa.Table:
    """Return the rows of a file, read by its suffix; raises ReplayError for another suffix."""
    suffix = file.suffix.lower()
    if suffix == ".csv":
        return _read_csv(file)
    if suffix == ".parquet":
        return pq.read_table(file, partitioning=None)
    if suffix in (".arrow", ".feather"):
        with pa.OSFile(str(file)) as source:
            return pa.ipc.open_file(source).read_all()
    raise ReplayError(f"{file}: the suffix is not {_SUFFIXES}")


def _read_csv(file: Path) -> pa.Table:
    """Return the rows of a CSV file with all cells as text; an empty cell is null.

    As text, because an error can name the column later.
    """
    with pyarrow.csv.open_csv(file) as reader:
        names = reader.schema.names
    options = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    return pyarrow.csv.read_csv(file, convert_options=options)


def _check_columns(rows: pa.Table, name: str) -> None:
    """Raise ReplayError if a trace has an unknown or repeated column, or lacks queue or put_ms."""
    known = FULL_TRACE_SCHEMA.names
    for column in rows.column_names:
        if column not in known:
            raise ReplayError(f"{name} has a column {column!r}; known are {', '.join(known)}")
        if rows.column_names.count(column) > 1:
            raise ReplayError(f"{name} has the column {column!r} twice")
    for column in _REQUIRED:
        if column not in rows.column_names:
            raise ReplayError(f"{name} has no column {column!r}")


def _cast(column: pa.ChunkedArray, column_name: str, name: str) -> pa.ChunkedArray:
    """Return a column with the type that a trace needs; raises ReplayError for a wrong value."""
    try:
        return column.cast(FULL_TRACE_SCHEMA.field(column_name).type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ReplayError(f"{name}: column {column_name}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return str(error).partition("\n")[0]
