"""Adds a ledger to the three tables of a table format, each row once (delta.py, iceberg.py).

Each table keeps the last ledger position that it contains, and changes it in the commit that adds
the rows. So a process that is killed between two tables leaves each of them exact, and the next run
adds to each what it lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import duckdb
import pyarrow as pa

from mayfly.pipeline.bulk.schema import LEDGER, rows_after
from mayfly.pipeline.lake.open_tables import DUCKDB_MACROS, LIVES, TABLES, OpenTable

_ROWS = "ledger"


class LedgerTables(ABC):
    """The three tables, opened to add the ledger of one store of a queue manager."""

    #: The error of ``_append`` if another process has changed the table since it was loaded.
    _conflict: type[Exception]

    def __init__(self) -> None:
        """Open DuckDB, which makes rows of the tables from rows of the ledger."""
        self._sql = duckdb.connect()
        self._sql.execute(DUCKDB_MACROS)

    @property
    def position(self) -> int:
        """Return the last position of the ledger that all tables contain, 0 at first."""
        return self._position_of(LIVES)

    def add(self, rows: pa.Table, until_position: int) -> None:
        """Add rows of the ledger, by position; rows that the tables have are left out.

        The tables then contain the ledger up to ``until_position``. Raises LakeError if another
        process adds this ledger as well, or the tables cannot be written.
        """
        for table in TABLES:
            self.add_to(table, rows, until_position)

    def add_to(self, table: OpenTable, rows: pa.Table, until_position: int) -> None:
        """Add the rows that a table lacks, in one commit, which records ``until_position``.

        A table without such rows gets no commit. LIVES gets one all the same: the position that it
        records is the position of the lake.
        """
        with self._errors():
            has_position = self._position_of(table)
            if has_position >= until_position:
                return
            shaped = self._shaped(table, rows_after(rows, has_position))
            if not shaped.num_rows and table is not LIVES:
                return
            for is_last in (False, True):
                try:
                    self._append(table, shaped, until_position)
                    return
                except self._conflict:
                    self._reload(table)
                    # The same position: an erasure or another program has replaced files, and no
                    # other copy has added rows.
                    if is_last or self._position_of(table) != has_position:
                        raise

    def close(self) -> None:
        """Close DuckDB; the tables need no closing."""
        self._sql.close()

    def _schema(self, table: OpenTable, comment_key: str) -> pa.Schema:
        """Return the schema of a table; its fields have their comments under ``comment_key``."""
        comments = {column.name: column.comment for column in table.columns}
        shaped = self._shaped(table, LEDGER.empty_table()).schema
        return pa.schema(
            [field.with_metadata({comment_key: comments[field.name]}) for field in shaped]
        )

    def _shaped(self, table: OpenTable, rows: pa.Table) -> pa.Table:
        """Return ledger rows as rows of a table."""
        self._sql.register(_ROWS, rows)
        try:
            return self._sql.execute(table.query(_ROWS)).to_arrow_table()
        finally:
            self._sql.unregister(_ROWS)

    @abstractmethod
    def _position_of(self, table: OpenTable) -> int:
        """Return the last position of the ledger that a table contains, 0 for a new one."""

    @abstractmethod
    def _append(self, table: OpenTable, shaped: pa.Table, until_position: int) -> None:
        """Add rows of a table and record its position, in one commit or not at all."""

    @abstractmethod
    def _reload(self, table: OpenTable) -> None:
        """Load a table as it is now."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Return a context that turns errors of the tables' library into LakeError."""
