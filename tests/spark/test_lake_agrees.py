"""DuckDB and Spark are asked the same of a lake, and answer the same."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.lake.ledger_tables import DUCKDB_MACROS, TABLES, OpenTable
from mayfly.pipeline.lake.lifetimes import By, LifetimeFigures
from mayfly.pipeline.lake.queries import EVERYTHING, LakePart, QueueReport, part_between
from mayfly.pipeline.spark.lake import analyze_lifetimes as analyze_in_spark
from mayfly.pipeline.spark.lake import export_lives, ledger_report, read_ledger, timeline_of
from tests.bulk.books import START_MS, life
from tests.examples import first_of
from tests.lake.made import varied, varied_lake
from tests.spark.lakes import write_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = [
    LakePart(START_MS + 1_000, START_MS + 40_000),
    part_between(None, None, ["ORDERS.*", "Q1"]),
    EVERYTHING,
]


def rounded(report: QueueReport | LifetimeFigures) -> dict[str, object]:
    """Return a report with its percentiles to the microsecond: sums in another order differ."""
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in vars(report).items()
    }


@pytest.mark.parametrize("part", first_of(2, *PARTS))
def test_reports_are_the_same(spark: SparkSession, tmp_path: Path, part: LakePart) -> None:
    lake = varied_lake(tmp_path, 1)
    found = answers.ledger_report(lake, part=part, late_after_ms=700)
    expected = ledger_report(spark, lake, part=part, late_after_ms=700)
    assert found
    assert list(map(rounded, found)) == list(map(rounded, expected))


@pytest.mark.long
@pytest.mark.parametrize("by", first_of(1, By.QUEUE, By.HOUR_OF_DAY))
def test_analyses_of_lifetimes_are_the_same(spark: SparkSession, tmp_path: Path, by: By) -> None:
    rng = Random(6)
    for first in (1, 1_001):
        lives = [
            varied(first + n, rng, 3_600_000)._replace(
                detected_by=rng.choice(("get", "claim", "scan", None)),
                ended_program=rng.choice((None, "till")),
                capped_by=rng.choice((None, "CAPEXPRY(5) of QLOCAL(Q1)")),
            )
            for n in range(450)
        ]
        write_lake(tmp_path, lives, first)
    found = answers.analyze_lifetimes(tmp_path, by=by, cap_ms=5_000, late_after_ms=700)
    expected = analyze_in_spark(spark, tmp_path, by=by, cap_ms=5_000, late_after_ms=700)
    assert found.lifetimes
    assert list(map(rounded, found.lifetimes)) == list(map(rounded, expected.lifetimes))
    for name in ("delays", "consumers"):
        rows = [
            [
                [round(v, 3) if isinstance(v, float) else v for v in row]
                for row in getattr(one, name)
            ]
            for one in (found, expected)
        ]
        assert rows[0] == rows[1]
        assert rows[0]


@pytest.mark.parametrize("within_ms", first_of(1, 60_000, 3_600_000))
def test_courses_are_the_same(spark: SparkSession, tmp_path: Path, within_ms: int) -> None:
    lake = varied_lake(tmp_path, 2, within_ms=within_ms)
    part = LakePart(until_ms=START_MS - START_MS % 3_600_000 + 2 * 3_600_000)
    found, expected = answers.timeline_of(lake, part=part), timeline_of(spark, lake, part=part)
    assert found.step_ms == expected.step_ms < 3_600_000
    assert found.starts.tolist() == expected.starts.tolist()
    assert (found.queues, found.staged) == (expected.queues, expected.staged)
    for name, counts in expected.ended.items():
        assert found.ended[name].tolist() == counts.tolist()
    for name, seconds in expected.waited_s.items():
        np.testing.assert_allclose(found.waited_s[name], seconds)


@pytest.mark.long
def test_exported_files_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """CSV byte by byte; of JSON and Parquet the values, their order and their types."""
    lake = varied_lake(tmp_path / "lake", 3)
    for kind in ("csv", "jsonl", "parquet"):
        ours, sparks = tmp_path / f"ours.{kind}", tmp_path / f"sparks.{kind}"
        assert answers.export_lives(lake, ours) == export_lives(spark, lake, sparks) == 300
        if kind == "csv":
            assert ours.read_bytes() == sparks.read_bytes()
        elif kind == "jsonl":
            lines, expected = (
                [json.loads(line) for line in file.read_text("utf-8").splitlines()]
                for file in (ours, sparks)
            )
            assert [list(line.items()) for line in lines] == [list(e.items()) for e in expected]
        else:
            found, table = pq.read_table(ours), pq.read_table(sparks)
            assert found.to_pylist() == table.to_pylist()
            assert found.schema.names == table.schema.names
            assert found.schema.types == table.schema.types


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_tables_of_an_open_lake_are_the_same(
    spark: SparkSession, tmp_path: Path, table: OpenTable
) -> None:
    """One SQL text for both; of a lake that DuckDB has compacted."""
    lake = varied_lake(tmp_path, 4)
    compact_lake(lake)
    rows = read_ledger(spark, lake)
    expected = [row.asDict() for row in spark.sql(table.query("{ledger}"), ledger=rows).collect()]
    with answers.ledger_view(lake, EVERYTHING) as connection:
        assert connection is not None
        connection.execute(DUCKDB_MACROS)
        relation = connection.sql(table.query(answers.VIEW))
        found = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert relation.columns == [column.name for column in table.columns]
    assert found
    assert in_order(found) == in_order(expected)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by position; moments without their zone, which Spark does not hand out."""
    plain = [
        {n: v.replace(tzinfo=None) if isinstance(v, datetime) else v for n, v in row.items()}
        for row in rows
    ]
    return sorted(plain, key=lambda row: (row["instance_id"], row["position"], row.get("cause")))


def test_the_lease_of_read_ledger_outlives_the_call(spark: SparkSession, tmp_path: Path) -> None:
    for first in (1, 3):
        write_lake(tmp_path, [life(first), life(first + 1)], first)
    (tmp_path / "_mayfly").mkdir()
    rows = read_ledger(spark, tmp_path)
    compact_lake(tmp_path)
    assert len(list(tmp_path.glob("date=*/batch-*"))) == 2
    assert rows.count() == read_ledger(spark, tmp_path).count() == 4
