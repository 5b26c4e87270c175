"""What check_lake proves of lakes that Spark has compacted, and of several versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.spark.compaction import compact_lake
from mayfly.pipeline.spark.lake import read_lake
from mayfly.pipeline.spark.report import ledger_report
from tests.bulk.books import life
from tests.spark.lakes import (
    INSTANCE,
    balance,
    forget_columns,
    forget_outcomes,
    write_lake,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STORE = f"store {INSTANCE}"


def test_the_same_is_found_after_compaction(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), balance("Q1", 1, got=1)])
    write_lake(tmp_path, [life(2), balance("Q1", 3, got=3)], 3)
    write_lake(tmp_path, [life(3), life(4)], 6)
    before = check_lake(tmp_path)
    assert [problem.position for problem in before.problems] == [5, 4]
    compact_lake(spark, tmp_path)
    assert check_lake(tmp_path) == before


def test_files_of_versions_that_knew_fewer_outcomes_and_more_are_proved(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Today's files have no count of others; an outcome of a later version is counted there."""
    old = write_lake(tmp_path, [life(1), balance("Q1", 1, got=1)])
    forget_outcomes(old, "other", "lost_at_restart")
    forget_columns(old, "capped_by", "met_by", "ended_by", "ended_program")
    later = life(2)._replace(outcome="unheard_of", ended_by="app")
    write_lake(tmp_path, [later, balance("Q1", 2, got=1, unheard_of=1), life(3)], 3)
    assert check_lake(tmp_path).texts == []
    write_lake(tmp_path, [balance("Q1", 4, got=2, unheard_of=2)], 6)
    [problem] = check_lake(tmp_path).texts
    assert "lives other by the balances up to position 6" in problem
    report = {row.queue: row for row in ledger_report(spark, tmp_path)}
    assert report["Q1"].outcomes["other"] == 1
    for _ in range(2):
        rows = read_lake(spark, tmp_path).orderBy("position").select("ended_by", "met_by")
        assert [tuple(row) for row in rows.collect()] == [(None, None), ("app", None), (None, None)]
        compact_lake(spark, tmp_path)
