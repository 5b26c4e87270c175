"""An independent witness of Delta lakes: Spark 4.2 with the JARs of the Delta Lake project."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from deltalake import DeltaTable

from mayfly.pipeline.lake.delta import DeltaLake
from mayfly.pipeline.lake.ledger_tables import TABLES
from tests.cli.conftest import Invoke
from tests.cli.test_ledger_commands import said
from tests.cli.test_processes import WITH_FLIGHT, serving
from tests.lake.made import varied
from tests.spark.lakes import INSTANCE, balance, rows_of

ROOT = Path(__file__).parents[2]
JARS = sorted((ROOT / "interop" / "delta" / "target" / "dependency").glob("*.jar"))

pytestmark = [
    pytest.mark.spark,
    pytest.mark.interop,
    pytest.mark.skipif(
        not pyspark.__version__.startswith("4.2."), reason="Delta's JARs are those for Spark 4.2"
    ),
    pytest.mark.skipif(not JARS, reason="Delta's JARs are missing: make interop fetches them"),
]
#: What both engines are asked; each has the tables by their names.
QUESTIONS = (
    "SELECT outcome, count(*), sum(body_bytes), sum(waited_ms) FROM lives GROUP BY 1 ORDER BY 1",
    "SELECT queue, min(expire_at), max(ended_at) FROM lives GROUP BY 1 ORDER BY 1",
    "SELECT queue, sum(puts), sum(ended), max(counted_at) FROM balances GROUP BY 1 ORDER BY 1",
    "SELECT cause, count(*), count(DISTINCT msg_id) FROM reports_owed GROUP BY 1 ORDER BY 1",
)


def test_spark_reads_the_rows_types_and_sums_of_a_lake_that_duckdb_reads(
    queue: Invoke, home: Path, tmp_path: Path
) -> None:
    """The ledger of a served queue manager, and one of every kind of life in six commits."""
    lake = tmp_path / "lake"
    for text in ("a", "b"):
        queue("put", "QM1", "Q1", text)
        queue("get", "QM1", "Q1")
    with serving(home, "QM1", *WITH_FLIGHT):
        words = ("run", str(lake), "--qmgr", "QM1", "--available-now", "--format", "delta")
        assert said(queue, *words)[0] == 0
    rng = Random(1)
    with closing(DeltaLake(lake, INSTANCE)) as other:
        for first in range(1, 307, 51):
            lives = [varied(first + n, rng, 60_000) for n in range(50)]
            other.add(rows_of(*lives, balance("Q1", first, got=first - 1), first=first), first + 50)
    assert said(queue, "compact", str(lake))[0] == 0
    names = [table.name for table in TABLES]
    driver = [sys.executable, "-m", "tests.spark.drive_delta_read", ",".join(map(str, JARS))]
    given = [str(lake), str(tmp_path), json.dumps(names), json.dumps(QUESTIONS)]
    spark = subprocess.run([*driver, *given], cwd=ROOT, capture_output=True, text=True, check=False)
    assert spark.returncode == 0, spark.stderr
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in names:
        expected = DeltaTable(lake / name).to_pyarrow_table()
        connection.register(name, expected)
        assert plain(pq.read_table(tmp_path / f"{name}.parquet")) == plain(expected)
        assert expected.num_rows > 10
    for number, question in enumerate(QUESTIONS):
        answer = pq.read_table(tmp_path / f"{number}.parquet")
        assert values(answer) == values(connection.execute(question).to_arrow_table())


def plain(rows: pa.Table) -> pa.Table:
    """Return rows in the order of their positions, with names and types alone as schema."""
    order = [name for name in ("instance_id", "position", "cause") if name in rows.column_names]
    kinds = {field.name: field.type for field in rows.schema}
    texts = {name for name, kind in kinds.items() if pa.types.is_large_string(kind)}
    schema = pa.schema([(n, pa.string() if n in texts else kind) for n, kind in kinds.items()])
    return rows.cast(schema).sort_by([(name, "ascending") for name in order])


def values(rows: pa.Table) -> list[list[Any]]:
    """Return rows without the names of their columns, which engines make up."""
    return [[*row.values()] for row in rows.to_pylist()]
