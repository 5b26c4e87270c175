"""Iceberg tables of a lake: the columns of Delta tables, and each row once whatever happens."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pytest

from mayfly.cli.outcomes import ExitCode
from mayfly.mqi import constants as c
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.compaction import Selection, erase_lives
from mayfly.pipeline.lake.copying import CopiedBatch, LakeStore, convert_lake, opened
from mayfly.pipeline.lake.ledger_tables import BALANCES, DUCKDB_MACROS, LEDGER_AGAIN, LIVES, TABLES
from mayfly.verbs.contracts.erasure import Erasure
from tests.bulk.books import START_MS, life
from tests.cli.conftest import run_here, run_process
from tests.lake.test_conversion import OTHER, made, rows_in
from tests.spark.lakes import INSTANCE, balance, rows_of

pytest.importorskip("pyiceberg", reason="needs mayfly-mq[iceberg]")

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from mayfly.pipeline.lake.iceberg import IcebergPlace, IcebergTables, export_to_iceberg

KILLS = 30
STORE = LakeStore(INSTANCE, "QM1", 1)


def place_in(tmp_path: Path) -> IcebergPlace:
    return IcebergPlace(tmp_path / "ice berg", None, "mayfly")


@contextmanager
def catalog_in(tmp_path: Path) -> Iterator[Catalog]:
    """Open the catalog of a folder as any program of pyiceberg does."""
    folder = tmp_path / "ice berg"
    folder.mkdir(exist_ok=True)
    with SqlCatalog(
        "mayfly", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    ) as catalog:
        yield catalog


def tables_in(tmp_path: Path) -> dict[str, Table]:
    with catalog_in(tmp_path) as catalog:
        return {table.name: catalog.load_table(("mayfly", table.name)) for table in TABLES}


def ledger_in(tmp_path: Path) -> list[tuple[object, ...]]:
    """Return the ledger rows of Iceberg tables, from pyiceberg by Arrow to DuckDB, as rows_in."""
    columns = ", ".join(name for name in LEDGER.names if name != "ended")
    with duckdb.connect() as connection:
        connection.execute(DUCKDB_MACROS)
        for name, table in tables_in(tmp_path).items():
            connection.register(name, table.scan().to_arrow())
        return connection.sql(
            f"SELECT {columns}, ended.got, ended.other FROM ({LEDGER_AGAIN}) "
            "ORDER BY instance_id, position"
        ).fetchall()


def small(lake: Path) -> Path:
    """Write a lake of three lives, one of which owes a report, and a balance."""
    with opened(lake, INSTANCE, as_delta=False) as target:
        entries = life(1, report=c.MQRO_COD), balance("Q1", 1, got=1), life(2), life(3)
        target.add(rows_of(*entries), 4)
    return lake


# What a row says


def test_tables_have_the_columns_rows_and_comments_of_delta_tables(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    [*_delta] = convert_lake(source, tmp_path / "delta")
    [*_all] = export_to_iceberg(source, place_in(tmp_path))
    for name, table in tables_in(tmp_path).items():
        delta = deltalake.DeltaTable(tmp_path / "delta" / name)
        order = [(key, "ascending") for key in ("instance_id", "position", "queue")]
        if name == "reports_owed":
            order.append(("cause", "ascending"))
        found, expected = table.scan().to_arrow(), delta.to_pyarrow_table()
        assert found.num_rows > 0
        assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
        fields = json.loads(delta.schema().to_json())["fields"]
        assert {field.name: field.doc for field in table.schema().fields} == {
            field["name"]: field["metadata"]["comment"] for field in fields
        }
        [description] = [each.comment for each in TABLES if each.name == name]
        assert table.properties["comment"] == description
    lives = tables_in(tmp_path)["lives"]
    assert [field.name for field in lives.spec().fields] == ["ended_date"]
    assert str(lives.schema().find_type("put_at")) == "timestamptz"


# Each row once


@pytest.mark.long
def test_an_export_goes_on_where_the_one_before_ended(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    first = [*export_to_iceberg(source, place_in(tmp_path), batch_rows_max=50)]
    assert sum(batch.row_count for batch in first) == 240
    assert ledger_in(tmp_path) == rows_in(source)
    before = tables_in(tmp_path)["lives"].metadata_location
    assert [*export_to_iceberg(source, place_in(tmp_path))] == []
    assert tables_in(tmp_path)["lives"].metadata_location == before
    with opened(source, OTHER, as_delta=False) as lake:
        lake.add(rows_of(life(121, report=c.MQRO_COD), first=121, instance=OTHER), 121)
    assert [*export_to_iceberg(source, place_in(tmp_path))] == [CopiedBatch(121, 1)]
    assert ledger_in(tmp_path) == rows_in(source)


@pytest.mark.parametrize("until_table", [1, 2])
def test_an_end_between_two_tables_doubles_nothing(tmp_path: Path, until_table: int) -> None:
    """The next export cuts its batches elsewhere."""
    source = small(tmp_path / "source")
    rows = rows_of(life(1, report=c.MQRO_COD), balance("Q1", 1, got=1))
    with (
        catalog_in(tmp_path) as catalog,
        closing(IcebergTables(catalog, place_in(tmp_path), STORE, 0)) as tables,
    ):
        for table in TABLES[:until_table]:
            tables.add_to(table, rows, 2)
        assert tables.position == 0
    [*_rest] = export_to_iceberg(source, place_in(tmp_path))
    assert ledger_in(tmp_path) == rows_in(source)
    assert tables_in(tmp_path)["reports_owed"].scan().count() == 1


@pytest.mark.parametrize("has_lives", [True, False], ids=["lives", "a position alone"])
def test_a_second_export_of_the_same_ledger_is_refused(tmp_path: Path, has_lives: bool) -> None:
    rows = rows_of(*([life(1), life(2)] if has_lives else [balance("Q1", 0), balance("Q2", 0)]))
    with (
        catalog_in(tmp_path) as catalog,
        closing(IcebergTables(catalog, place_in(tmp_path), STORE, 0)) as first,
        closing(IcebergTables(catalog, place_in(tmp_path), STORE, 0)) as second,
    ):
        first.add_to(LIVES, rows, 2)
        with pytest.raises(LakeError, match="another process has changed the tables") as refused:
            second.add_to(LIVES, rows.slice(0, 1), 1)
        assert isinstance(refused.value.__cause__, CommitFailedException)
    lives = tables_in(tmp_path)["lives"]
    assert lives.properties[f"mayfly.position.{INSTANCE}"] == "2"
    assert lives.scan().count() == (2 if has_lives else 0)


def test_two_ledgers_and_a_program_that_changes_a_table_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    with (
        catalog_in(tmp_path) as catalog,
        closing(IcebergTables(catalog, place_in(tmp_path), STORE, 0)) as first,
        closing(
            IcebergTables(catalog, place_in(tmp_path), LakeStore(OTHER, "QM2", 1), 0)
        ) as second,
    ):
        for n in range(1, 4):
            first.add(rows_of(life(n), first=n), n)
            second.add(rows_of(life(n), first=n, instance=OTHER), n)
        assert (first.position, second.position) == (3, 3)
    lives = tables_in(tmp_path)["lives"].scan().to_arrow()
    assert sorted(lives["position"].to_pylist()) == [1, 1, 2, 2, 3, 3]


def test_rows_that_would_be_missing_are_refused(tmp_path: Path) -> None:
    """The lake of a ledger whose oldest rows retention has removed meanwhile."""
    for name, first in (("early", 1), ("late", 4)):
        with opened(tmp_path / name, INSTANCE, as_delta=False) as lake:
            lake.add(rows_of(life(first), life(first + 1), first=first), first + 1)
    [*_all] = export_to_iceberg(tmp_path / "early", place_in(tmp_path))
    with pytest.raises(LakeError, match=f"at position 2 of QM1, store {INSTANCE}, .*begins at 4"):
        next(export_to_iceberg(tmp_path / "late", place_in(tmp_path)))


@pytest.mark.soak
def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """kill -9 anywhere in an export; the next one goes on where it ended."""
    source = made(tmp_path / "source", lives=400)
    rng = random.Random(KILLS)
    for _ in range(KILLS):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.lake.drive_iceberg",
                source,
                str(place_in(tmp_path).folder),
            ],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(rng.randint(1, 3)):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
    [*_rest] = export_to_iceberg(source, place_in(tmp_path))
    assert ledger_in(tmp_path) == rows_in(source)


# Erasure, and columns of a later version


def test_an_export_after_an_erasure_is_refused_until_it_is_made_anew(tmp_path: Path) -> None:
    source, place = tmp_path / "source", place_in(tmp_path)
    with opened(source, INSTANCE, as_delta=False) as lake:
        lake.add(rows_of(life(1, user_identifier="alice"), life(2, user_identifier="bob")), 2)
    [*_all] = export_to_iceberg(source, place)
    erase_lives(source, Selection("user", "alice"), Erasure(START_MS, "admin", "user", "17", 0))
    with pytest.raises(LakeError, match=r"rows were erased .* still has them: export it anew"):
        next(export_to_iceberg(source, place))
    assert [*export_to_iceberg(source, place, is_anew=True)] == [CopiedBatch(2, 2)]
    lives = tables_in(tmp_path)["lives"].scan().to_arrow().sort_by("position")
    assert lives["user_id"].to_pylist() == [None, "bob"]
    files = (tmp_path / "ice berg" / "mayfly" / "lives" / "data").rglob("*.parquet")
    assert b"alice" not in b"".join(file.read_bytes() for file in files)
    assert [*export_to_iceberg(source, place)] == []


def test_columns_that_a_table_lacks_are_added(tmp_path: Path) -> None:
    with catalog_in(tmp_path) as catalog:
        catalog.create_namespace("mayfly")
        older = pa.schema([("position", pa.int64()), ("queue", pa.string())])
        catalog.create_table(("mayfly", "balances"), older)
        tables = IcebergTables(catalog, place_in(tmp_path), STORE, 0)
        with closing(tables):
            tables.add_to(BALANCES, rows_of(balance("Q1", 3, 1, got=2)), 1)
    found = tables_in(tmp_path)["balances"]
    assert found.properties["commit.retry.num-retries"] == "0"
    [row] = found.scan().to_arrow().to_pylist()
    assert (row["position"], row["queue"], row["puts"], row["got"]) == (1, "Q1", 3, 2)


# The command


def test_the_command_copies_and_says_how_many_rows(tmp_path: Path) -> None:
    source, target = small(tmp_path / "source"), tmp_path / "tables"
    copied = run_here(tmp_path, "ledger", "iceberg", str(source), str(target))
    assert copied.exit_code == 0, copied.output
    assert copied.stdout == f"4 rows copied into {target}, namespace mayfly\n"
    again = run_here(tmp_path, "ledger", "iceberg", str(source), str(target), "--json")
    assert json.loads(again.stdout) == {
        "folder": str(target),
        "catalog": None,
        "namespace": "mayfly",
        "rows": 0,
    }


@pytest.mark.long
def test_a_catalog_of_pyicebergs_configuration_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process of its own, because pyiceberg reads its configuration once."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", warehouse)
    source = small(tmp_path / "source")
    words = ["--catalog", "prod", "--namespace", "messaging"]
    copied = run_process(tmp_path, "ledger", "iceberg", str(source), *words)
    assert copied.stdout == "4 rows copied into catalog prod, namespace messaging\n"
    with SqlCatalog("prod", uri=uri) as catalog:
        assert catalog.load_table("messaging.lives").scan().count() == 3


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    source = small(tmp_path / "source")
    for words in ((), (str(tmp_path / "x"), "--catalog", "prod")):
        refused = run_here(tmp_path, "ledger", "iceberg", str(source), *words)
        assert refused.exit_code == ExitCode.USAGE
        assert refused.stderr == "mayfly: give either a folder or --catalog\n"
    unknown = run_here(tmp_path, "ledger", "iceberg", str(source), "--catalog", "nowhere")
    assert unknown.exit_code == ExitCode.PIPELINE
    assert unknown.stderr.startswith("mayfly: catalog nowhere, namespace mayfly: URI missing")
    assert unknown.stderr.count("\n") == 1
