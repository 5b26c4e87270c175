"""The trace: a table with one row per recorded message, read from a file or from a ledger.

Columns of a CSV, Parquet or Arrow file are those of FULL_TRACE_SCHEMA; only ``queue`` and
``put_ms`` are required. Without ``seq`` rows are numbered in file order; without ``correl_id``
every get takes the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mayfly.lifetime.columns import Ints, ints
from mayfly.lifetime.life import KIND_LIFE, State
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import NoLives, ReplayError
from mayfly.verbs.contracts.config_files import local_path

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
