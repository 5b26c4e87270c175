"""Reads a trace from a CSV, Parquet or Arrow file, or makes one of the rows of a ledger.

Columns are those of FULL_TRACE_SCHEMA; only ``queue`` and ``put_ms`` are required. Without ``seq``
rows are numbered in file order; without ``correl_id`` every get takes the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mayfly.lifetime.life import KIND_LIFE, State
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import NoLives, ReplayError
from mayfly.pipeline.replay.trace import (
    FULL_TRACE_SCHEMA,
    arranged,
    as_trace,
    check_range,
    is_split,
    local_trace,
    read_split,
)

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


# A trace of the ended messages in a ledger


#: Columns of a life that a replay needs.
LIFE_COLUMNS = (
    "manager",
    "position",
    "queue",
    "correl_id",
    "put_ms",
    "deliver_at_ms",
    "expire_at_ms",
    "ended_ms",
    "outcome",
    "priority",
)
#: The lives that can be replayed: ended by a get or by their deadline. A message that was
#: transmitted was got, by a channel. A staged message lives on in its life on the target. All other
#: lives were ended by an operator or a failure, not by a rule about time.
REPLAYED = (State.GOT.value, State.TRANSMITTED.value, State.EXPIRED.value)


def is_lake(folder: Path) -> bool:
    """Return True if the folder is a lake: Parquet files with the ledger of a queue manager.

    False if it does not exist.
    """
    return folder.is_dir() and ((folder / "_mayfly").is_dir() or any(folder.glob("date=*")))


def read_lives(files: Sequence[Path], lake: str | Path, manager: str | None = None) -> pa.Table:
    """Return the records of ended messages in Parquet files, with the columns LIFE_COLUMNS.

    ``files`` are read; ``lake`` is only the name that errors give. Only messages that were got,
    transmitted or expired are included. Raises NoLives when there are none, ReplayError when they
    are of several queue managers and ``manager`` names none of them.
    """
    schema = pa.schema([LEDGER.field(name) for name in (*LIFE_COLUMNS, "kind")])
    paths = [str(file) for file in files]
    if not paths:
        raise NoLives(f"no lives in {lake}")
    rows = ds.dataset(paths, schema=schema, format="parquet")
    is_life = (ds.field("kind") == KIND_LIFE) & ds.field("outcome").isin(REPLAYED)
    lives = rows.to_table(columns=list(LIFE_COLUMNS), filter=is_life)
    return lives.filter(pc.equal(lives["manager"], chosen_manager(_managers(lives), manager, lake)))


def chosen_manager(managers: list[str], manager: str | None, lake: str | Path) -> str:
    """Return the queue manager to replay: ``manager``, or for None the only one in the lake.

    Raises NoLives if there is none, and ReplayError if ``manager`` is None and there are several,
    or if ``manager`` is not in the lake.
    """
    if not managers:
        raise NoLives(f"no lives in {lake}")
    if manager is None and len(managers) > 1:
        raise ReplayError(
            f"{lake} has lives of queue managers {', '.join(managers)}: name one of them"
        )
    if manager is not None and manager not in managers:
        raise ReplayError(
            f"no lives of queue manager {manager!r} in {lake}; it has those of "
            f"{', '.join(managers)}"
        )
    return managers[0] if manager is None else manager


def trace_of_lives(lives: pa.Table, *, is_by_correl_id: bool = False) -> pa.Table:
    """Return records of ended messages as a trace: the table that a replay takes.

    Each message has a get at the moment it was got. Seq is the ledger position. A get takes the
    first message; with ``is_by_correl_id`` only the one with the same correlation id. The lifetime
    is the time from the put to the deadline, so an expiry cap has shortened it already.
    """
    is_got = pc.not_equal(lives["outcome"], State.EXPIRED.value)
    count = len(lives)
    nobody = pa.nulls(count, pa.int64())
    any_id = pa.repeat(pa.scalar(b"", pa.binary()), count)
    columns = {
        "queue": lives["queue"],
        "seq": lives["position"],
        "put_ms": lives["put_ms"],
        "delay_ms": pc.subtract(lives["deliver_at_ms"], lives["put_ms"]),
        "life_ms": pc.subtract(lives["expire_at_ms"], lives["put_ms"]),
        "correl_id": lives["correl_id"] if is_by_correl_id else any_id,
        "get_ms": pc.if_else(is_got, lives["ended_ms"], nobody),
        "priority": lives["priority"],
        "recorded": pc.if_else(is_got, State.GOT.value, State.EXPIRED.value),
    }
    return pa.table(columns).cast(FULL_TRACE_SCHEMA)


def _managers(lives: pa.Table) -> list[str]:
    """Return the names of the queue managers in the records, sorted and each once."""
    return sorted(pc.unique(lives["manager"]).to_pylist())
