"""Copies a lake into Iceberg tables, for programs that read these: each row once.

The tables are those of ledger_tables.py. A catalog of pyiceberg knows where they are: one that is
configured, or a file ``catalog.db`` of SQLite in a folder, which has the tables as well.

    FOLDER/catalog.db, FOLDER/NAMESPACE/lives/, …/balances/, …/reports_owed/

A commit adds rows and sets the table property ``mayfly.position.<instance id>`` to the last ledger
position that the table contains. pyiceberg would repeat a refused commit on the newer table, which
adds rows a second time; so the tables say ``commit.retry.num-retries=0``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table, TableProperties
from sqlalchemy.exc import SQLAlchemyError

from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.compaction import erasures
from mayfly.pipeline.lake.copying import (
    BATCH_ROWS_MAX,
    CopiedBatch,
    LakeStore,
    add_store,
    stores_of,
)
from mayfly.pipeline.lake.ledger_tables import TABLES, LedgerTables, OpenTable

#: The catalog in a folder has this name, which its readers must know.
FOLDER_CATALOG = "mayfly"
_NO_RETRIES = {TableProperties.COMMIT_NUM_RETRIES: "0"}
_PROPERTIES = {
    **_NO_RETRIES,
    # Each commit writes the whole metadata again; the last 100 of them are kept.
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
}
#: pyiceberg's errors have no common base. Errors of SQLite and of the network are not its own.
_ERRORS: tuple[type[Exception], ...] = (
    *(
        kind
        for kind in vars(exceptions).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
    SQLAlchemyError,
    OSError,
    ValueError,
)


class IcebergPlace(NamedTuple):
    """Where Iceberg tables are: a catalog, and the namespace of the tables in it.

    The catalog is ``catalog_name`` of pyiceberg's own configuration, or the one in ``folder``. One
    of them is None.
    """

    folder: Path | None
    catalog_name: str | None
    namespace: str

    def identifier(self, table: OpenTable) -> str:
        """Return the name of a table in the catalog; a dot in the namespace is a level of it."""
        return f"{self.namespace}.{table.name}"

    def __str__(self) -> str:
        """Return the place for messages: the folder or the catalog, and the namespace."""
        catalog = self.folder if self.catalog_name is None else f"catalog {self.catalog_name}"
        return f"{catalog}, namespace {self.namespace}"


def export_to_iceberg(
    source: str | Path,
    place: IcebergPlace,
    *,
    is_anew: bool = False,
    batch_rows_max: int = BATCH_ROWS_MAX,
) -> Iterator[CopiedBatch]:
    """Copy a lake into Iceberg tables, and yield the progress after each batch.

    Nothing is copied before the first item is asked for. The tables are created if they do not
    exist; rows that they have are left out. With ``is_anew`` the tables are removed first, with all
    their files. Raises LakeError if the source is no lake or not complete, if another process
    copies the same ledger into the tables, if a catalog does not answer, or if the tables end
    before the first row that the lake has of a ledger. It is also raised if rows were erased from
    the lake after they had come into the tables.
    """
    erasure_count, stores = len(erasures(source)), stores_of(source)
    with _opened_catalog(place) as catalog:
        if is_anew:
            with _iceberg_errors(place):
                for table in TABLES:
                    if catalog.table_exists(place.identifier(table)):
                        catalog.purge_table(place.identifier(table))
        for store in stores:
            tables = IcebergTables(catalog, place, store, erasure_count)
            try:
                yield from add_store(source, store, tables, batch_rows_max)
            finally:
                tables.close()


class IcebergTables(LedgerTables):
    """The three tables of a namespace, opened to add the ledger of one store."""

    _conflict = exceptions.CommitFailedException

    def __init__(
        self, catalog: Catalog, place: IcebergPlace, store: LakeStore, erasure_count: int
    ) -> None:
        """Open the tables, which are created if they do not exist.

        ``erasure_count`` is the number of erasures from the lake until now. Raises LakeError if the
        tables lack rows before the first one of ``store``, or have rows of before an erasure.
        """
        super().__init__()
        self._catalog, self._place = catalog, place
        self._position_key = f"mayfly.position.{store.instance_id}"
        self._erasures_key = f"mayfly.erasures.{store.instance_id}"
        self._erasure_count = erasure_count
        with self._errors():
            catalog.create_namespace_if_not_exists(place.namespace)
            self._tables = {table.name: self._opened(table) for table in TABLES}
        if self.position and store.first_position > self.position + 1:
            raise LakeError(
                f"{place} ends at position {self.position} of {store.manager}, store "
                f"{store.instance_id}, and the lake begins at {store.first_position}: rows between "
                "them would be missing; name a new folder or namespace"
            )
        known = [
            int(table.properties[self._erasures_key])
            for table in self._tables.values()
            if self._erasures_key in table.properties
        ]
        if known and min(known) < erasure_count:
            raise LakeError(
                f"rows were erased from the lake, and {place} still has them: export it anew"
            )

    def _opened(self, table: OpenTable) -> Table:
        """Return a table, created empty if it does not exist, with all columns."""
        identifier = self._place.identifier(table)
        schema = self._schema(table, "doc")
        if not self._catalog.table_exists(identifier):
            properties = {**_PROPERTIES, "comment": table.comment}
            with self._catalog.create_table_transaction(
                identifier, schema, properties=properties
            ) as creation:
                if table.partition is not None:
                    with creation.update_spec() as spec:
                        spec.add_identity(table.partition)
        opened = self._catalog.load_table(identifier)
        if opened.properties.get(TableProperties.COMMIT_NUM_RETRIES) != "0":
            with opened.transaction() as change:
                change.set_properties(_NO_RETRIES)
        if set(schema.names) - set(opened.schema().column_names):
            with opened.update_schema() as columns:
                columns.union_by_name(schema)
        return opened

    def _position_of(self, table: OpenTable) -> int:
        return int(self._tables[table.name].properties.get(self._position_key, 0))

    def _append(self, table: OpenTable, shaped: pa.Table, until_position: int) -> None:
        opened = self._tables[table.name]
        properties = {
            self._position_key: str(until_position),
            self._erasures_key: opened.properties.get(self._erasures_key, str(self._erasure_count)),
        }
        with opened.transaction() as commit:
            # Also without rows: a snapshot makes the catalog refuse a commit on an older one.
            commit.append(shaped)
            commit.set_properties(properties)

    def _reload(self, table: OpenTable) -> None:
        self._tables[table.name].refresh()

    def _errors(self) -> AbstractContextManager[None]:
        return _iceberg_errors(self._place)


@contextmanager
def _opened_catalog(place: IcebergPlace) -> Iterator[Catalog]:
    """Return a context with a catalog; raises LakeError if it cannot be opened."""
    with _iceberg_errors(place):
        if place.folder is None:
            catalog = load_catalog(place.catalog_name)
        else:
            folder = place.folder.absolute()
            folder.mkdir(parents=True, exist_ok=True)
            catalog = SqlCatalog(
                FOLDER_CATALOG,
                uri=f"sqlite:///{folder / 'catalog.db'}",
                warehouse=f"file://{folder}",
            )
    with catalog:
        yield catalog


@contextmanager
def _iceberg_errors(place: IcebergPlace) -> Iterator[None]:
    """Turn errors of pyiceberg, of its catalog and of its files into LakeError."""
    try:
        yield
    except exceptions.CommitFailedException as error:
        raise LakeError(
            f"{place}: another process has changed the tables meanwhile; one copies a ledger at a "
            f"time ({error})"
        ) from error
    except _ERRORS as error:
        text = " ".join(str(error).split())
        raise LakeError(f"{place}: {text}") from error
