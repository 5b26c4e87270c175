"""A lake of Delta tables, opened to add a ledger: each row once, without Spark and Java.

    LAKE/lives/, LAKE/balances/, LAKE/reports_owed/     one Delta table each (ledger_tables.py)

LAKE is a folder, or a URL of an object store (s3://…, az://…, gs://…). The ledger of each store of
a queue manager is one application of Delta (``mayfly-ledger-<instance id>``), whose version is the
last position that a table contains. A commit adds rows and raises that version, or does neither.

A commit uses the same table handle on which the version was read. So Delta refuses the commit of a
second process that copies the same ledger; a write by path would reload the table, and add the rows
twice.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    QueryBuilder,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.dataset import Dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.ledger_tables import (
    BALANCES,
    DUCKDB_MACROS,
    LEDGER_AGAIN,
    LIVES,
    TABLES,
    LedgerTables,
    OpenTable,
)
from mayfly.pipeline.lake.queries import EVERYTHING, LakePart
from mayfly.verbs.contracts.config_files import is_url, local_path
from mayfly.verbs.contracts.erasure import Erasure

#: A commit reads the log behind the last checkpoint, so it is made anew after this many commits.
_CHECKPOINT_EVERY = 100
#: A third of the size of snappy's, in the same time.
_WRITING = WriterProperties(compression="ZSTD", compression_level=1)
#: Files that no version of the last week names are removed.
_KEPT_HOURS = 168
#: An erasure that meets rows that come meanwhile begins again, this many times in all.
_TRIES = 5
_ROWS_AT_ONCE = 100_000
#: The table of the records of erasures, and its columns.
_ERASURES = "erasures"
_RECORD = pa.schema(
    [
        ("at_ms", pa.int64()),
        ("by", pa.string()),
        ("selected_by", pa.string()),
        ("reason", pa.string()),
        ("row_count", pa.int64()),
    ]
)
_COLOUR = re.compile(r"\x1b\[\d*m")


class Compacted(NamedTuple):
    """The number of files of a table before and after a compaction."""

    files_before: int
    files_after: int


class DeltaLake(LedgerTables):
    """The three tables of a lake, opened to add the ledger of one store of a queue manager."""

    _conflict = CommitFailedError

    def __init__(self, place: str | Path, instance_id: str) -> None:
        """Open the tables, which are created if they do not exist.

        ``place`` is a folder or a URL. Raises LakeError if a table cannot be opened, or the folder
        holds something else.
        """
        super().__init__()
        self.place = lake_url(place)
        self._app = _app(instance_id)
        self._commit_count = 0
        with self._errors():
            self._tables = {table.name: self._opened(table) for table in TABLES}

    def add(self, rows: pa.Table, until_position: int) -> None:
        """Add rows of the ledger, as LedgerTables does; write a checkpoint now and then."""
        super().add(rows, until_position)
        self._commit_count += 1
        if not self._commit_count % _CHECKPOINT_EVERY:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint of each table, so that readers need not read its whole log."""
        with self._errors():
            for table in self._tables.values():
                table.create_checkpoint()

    def _opened(self, table: OpenTable) -> DeltaTable:
        """Return a table, created empty if it does not exist."""
        url = f"{self.place}/{table.name}"
        if not DeltaTable.is_deltatable(url):
            DeltaTable.create(
                url,
                schema=self._schema(table, "comment"),
                mode="ignore",
                partition_by=table.partition,
                name=table.name,
                description=table.comment,
            )
        return DeltaTable(url)

    def _position_of(self, table: OpenTable) -> int:
        return self._tables[table.name].transaction_version(self._app) or 0

    def _append(self, table: OpenTable, shaped: pa.Table, until_position: int) -> None:
        commit = CommitProperties(app_transactions=[Transaction(self._app, until_position)])
        write_deltalake(
            self._tables[table.name],
            shaped,
            mode="append",
            schema_mode="merge",
            writer_properties=_WRITING,
            commit_properties=commit,
        )

    def _reload(self, table: OpenTable) -> None:
        self._tables[table.name].update_incremental()

    def _errors(self) -> AbstractContextManager[None]:
        return _delta_errors(self.place)


def compact_tables(place: str | Path) -> dict[str, Compacted]:
    """Replace small files of a lake by large ones, and remove those replaced a week ago.

    Readers and writers of the lake go on meanwhile. Return the number of files by table, before and
    after. Raises LakeError if a table cannot be read or written.
    """
    url = lake_url(place)
    done = {}
    with _delta_errors(url):
        for table in TABLES:
            delta = DeltaTable(f"{url}/{table.name}")
            file_count = len(delta.file_uris())
            delta.optimize.compact()
            delta.create_checkpoint()
            delta.vacuum(retention_hours=_KEPT_HOURS, dry_run=False)
            delta.cleanup_metadata()
            done[table.name] = Compacted(file_count, len(delta.file_uris()))
    return done


def has_tables(place: str | Path) -> bool:
    """Return True if the tables of a lake exist; raises LakeError if its store cannot be asked."""
    url = lake_url(place)
    with _delta_errors(url):
        return all(DeltaTable.is_deltatable(f"{url}/{table.name}") for table in TABLES)


def position_of(place: str | Path, instance_id: str) -> int:
    """Return the last position of a store's ledger that all tables of a lake contain, 0 for none.

    Raises LakeError if there is no lake.
    """
    url = lake_url(place)
    with _delta_errors(url):
        return DeltaTable(f"{url}/{LIVES.name}").transaction_version(_app(instance_id)) or 0


def _app(instance_id: str) -> str:
    """Return the application id under which Delta records the position of a store's ledger."""
    return f"mayfly-ledger-{instance_id}"


def erase_rows(place: str | Path, erased: pa.Table, record: Erasure) -> int:
    """Erase rows of a lake of Delta tables; return the number of files with the old rows.

    ``erased`` has columns ``instance_id``, ``position`` and ``date``, the date as text; the files
    of these dates are written again, with ids, users and programs empty in these rows. ``record``
    is the note about the erasure; it is stored before a file is changed. The first compaction after
    a week removes the old files, or :func:`vacuum`. Raises LakeError, also if another process adds
    rows of the dates again and again.
    """
    url = lake_url(place)
    add_record(url, record)
    old_file_count = 0
    with _delta_errors(url), duckdb.connect() as connection:
        connection.register("erased", erased)
        for table in TABLES:
            if not table.erased:
                continue
            dates = sorted(set(erased["date"].to_pylist())) if table.partition else [None]
            for date in dates:
                old_file_count += _write_again(f"{url}/{table.name}", table, date, connection)
    return old_file_count


def vacuum(place: str | Path) -> None:
    """Remove the files that commits have replaced, at once; older versions cannot be read then.

    Files of a commit that is under way stay. Raises LakeError.
    """
    url = lake_url(place)
    with _delta_errors(url):
        for table in TABLES:
            # ``full`` would remove files of a commit that is under way as well.
            DeltaTable(f"{url}/{table.name}").vacuum(
                retention_hours=0, enforce_retention_duration=False, dry_run=False, full=False
            )


def _write_again(
    url: str, table: OpenTable, date: str | None, connection: duckdb.DuckDBPyConnection
) -> int:
    """Write the rows of a date again, with empty ids, users and programs in the rows to erase.

    ``url`` is the table's, ``date`` None means all its rows. ``connection`` has the rows to erase
    as table ``erased``. Returns the number of files that are replaced. Raises CommitFailedError if
    another process adds rows of the date again and again.
    """
    columns = ", ".join(
        f"CASE WHEN erased.position IS NULL THEN rows.{name} END AS {name}" for name in table.erased
    )
    for tries_left in reversed(range(_TRIES)):
        delta = DeltaTable(url)
        of_date = [(str(table.partition), "=", date)] if date is not None else None
        connection.register("rows", rows_for_duckdb(url, delta, of_date))
        rows = connection.sql(
            f"SELECT rows.* REPLACE ({columns}) FROM rows LEFT JOIN "
            "(SELECT DISTINCT instance_id, position FROM erased) AS erased "
            "ON erased.instance_id = rows.instance_id AND erased.position = rows.position"
        )
        files_before = set(delta.file_uris())
        try:
            write_deltalake(
                delta,
                rows.to_arrow_reader(_ROWS_AT_ONCE),
                mode="overwrite",
                predicate=None if date is None else f"{table.partition} = '{date}'",
            )
        except CommitFailedError:
            if not tries_left:
                raise
        else:
            return len(files_before - set(delta.file_uris()))
    raise AssertionError("the last try has returned or raised")


def records_in(place: str | Path) -> list[Erasure]:
    """Return the records of erasures from a lake of Delta tables, oldest first; [] without any.

    Raises LakeError if their table cannot be read.
    """
    url = f"{lake_url(place)}/{_ERASURES}"
    with _delta_errors(url):
        if not DeltaTable.is_deltatable(url):
            return []
        rows = DeltaTable(url).to_pyarrow_table().sort_by("at_ms").to_pylist()
    return [Erasure(**row) for row in rows]


def add_record(place: str | Path, record: Erasure) -> None:
    """Add the record of an erasure to a table of its own; raises LakeError."""
    url = f"{lake_url(place)}/{_ERASURES}"
    with _delta_errors(url):
        write_deltalake(url, pa.Table.from_pylist([record._asdict()], _RECORD), mode="append")


def lake_url(place: str | Path) -> str:
    """Return the place of a lake without a slash at its end: an absolute path, or a URL.

    ``s3a://`` and ``file://`` become what delta-rs reads.
    """
    if is_url(place):
        return str(place).rstrip("/").replace("s3a://", "s3://", 1)
    return str(local_path(place).absolute())


def ledger_rows(
    connection: duckdb.DuckDBPyConnection, place: str | Path, part: LakePart = EVERYTHING
) -> duckdb.DuckDBPyRelation:
    """Return the ledger rows of an open lake; views of its tables are made in ``connection``.

    Only files of the dates of ``part`` are read. Raises LakeError if a table cannot be read.
    """
    url = lake_url(place)
    connection.execute(DUCKDB_MACROS)
    with _delta_errors(url):
        for table in (LIVES, BALANCES):
            dates = part.dates(table.partition) if table.partition else None
            of_table = f"{url}/{table.name}"
            rows = rows_for_duckdb(of_table, DeltaTable(of_table), dates)
            connection.register(table.name, rows)
    return connection.sql(LEDGER_AGAIN)


def rows_for_duckdb(
    url: str, delta: DeltaTable, dates: list[tuple[str, str, str]] | None
) -> Dataset | StreamedRows:
    """Return the rows of a table for DuckDB to register: all, or those of the dates given.

    ``dates`` are conditions that all hold: column, operator, date as text.

    DuckDB begins to scan a dataset while its thread holds the interpreter's lock, and waits for
    threads that read ahead. If these read by the file system in Python that delta-rs gives a
    dataset, they wait for that lock, now and then for ever; and they abort a process that ends
    meanwhile. So Arrow itself reads a folder, and delta-rs itself an object store, as a stream.
    """
    if is_url(url):
        return StreamedRows(delta, dates or [])
    folder = SubTreeFileSystem(url, LocalFileSystem())
    return delta.to_pyarrow_dataset(filesystem=folder, file_pruning_predicate=dates)


class StreamedRows:
    """The rows of a table of an object store, which each query reads once, in every column."""

    def __init__(self, delta: DeltaTable, dates: list[tuple[str, str, str]]) -> None:
        """Take the rows that all of ``dates`` keep: column, operator, date as text."""
        conditions = " AND ".join(
            f"{column} {operator} '{date}'" for column, operator, date in dates
        )
        self._delta = delta
        self._query = f"SELECT * FROM rows WHERE {conditions or 'TRUE'}"

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new stream of the rows, which delta-rs reads without Python."""
        reader = QueryBuilder().register("rows", self._delta).execute(self._query)
        return reader.__arrow_c_stream__(requested_schema)


@contextlib.contextmanager
def _delta_errors(place: str) -> Iterator[None]:
    """Turn errors of delta-rs and of its object store into LakeError."""
    try:
        yield
    except CommitFailedError as error:
        raise LakeError(
            f"lake {place}: another process has written the same ledger, or the same dates, "
            f"meanwhile; run one for each queue manager ({_one_line(error)})"
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        raise LakeError(f"lake {place}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    """Return the text of an error, which may have colours and causes on lines of their own."""
    return " ".join(_COLOUR.sub("", str(error)).replace("\u21b3", "<-").split())
