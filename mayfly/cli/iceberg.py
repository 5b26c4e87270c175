"""``mayfly ledger iceberg``: copy a lake into Iceberg tables for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.lake_engine import Lake, check_lake, lake_errors
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, print_json, seconds_shown
from mayfly.cli.values import local_path


def iceberg(
    lake: Lake,
    folder: Annotated[
        Path | None,
        typer.Argument(
            parser=local_path,
            metavar="[FOLDER]",
            help="Folder of the tables and their catalog, catalog.db of SQLite.",
        ),
    ] = None,
    *,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="NAME",
            help="Instead of a folder, a catalog of pyiceberg's own configuration.",
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Namespace of the tables.")
    ] = "mayfly",
    anew: Annotated[
        bool,
        typer.Option("--anew", help="Remove the tables first, with all their files."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a lake into Iceberg tables: lives, balances and reports_owed.

    When it is run again, also after a kill, only rows that the tables lack are added. Needs
    mayfly-mq[iceberg]. After `mayfly ledger erase` the tables still have what was erased: --anew
    removes and fills them again.

    \b
    Examples:
      mayfly ledger iceberg lake tables
      mayfly ledger iceberg s3://bucket/lake --catalog prod --namespace messaging
    """
    if (folder is None) == (catalog is None):
        raise CommandFailed(ExitCode.USAGE, "give either a folder or --catalog")
    check_lake(lake)
    row_count = 0
    with lake_errors(), seconds_shown(sys.stderr, "the lake is copied"):
        from mayfly.pipeline.lake.iceberg import IcebergPlace, export_to_iceberg

        place = IcebergPlace(folder, catalog, namespace)
        for progress in export_to_iceberg(lake, place, is_anew=anew):
            row_count += progress.row_count
    if as_json:
        print_json(
            {
                "folder": None if folder is None else str(folder),
                "catalog": catalog,
                "namespace": namespace,
                "rows": row_count,
            }
        )
    else:
        print(f"{row_count:,} rows copied into {place}")
