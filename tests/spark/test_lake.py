"""The rows of a lake as DataFrames of Spark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from mayfly.lifetime.life import LifeRecord, State
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.copying import copy_ledger
from mayfly.pipeline.lake.parquet import ParquetLake
from mayfly.pipeline.spark.lake import read_balances, read_lake
from mayfly.servers.flight import FlightServer
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES
from tests.bulk.books import START_MS, TOKEN, KeptBooks, life

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HOUR_MS = 3_600_000


def life_of(row: Row) -> LifeRecord:
    """Return the life in a row; Spark gives bytes as bytearray."""
    values = (row[name] for name in LifeRecord._fields)
    return LifeRecord._make(bytes(v) if isinstance(v, bytearray) else v for v in values)


def test_lives_and_balances_come_out_as_they_went_in(
    spark: SparkSession, books: KeptBooks, server: FlightServer, tmp_path: Path
) -> None:
    lives = [life(n, f"Q{n % 3}", ended_ms=START_MS + n * 12 * HOUR_MS) for n in range(1, 7)]
    lives[3] = lives[3]._replace(
        capped_by="CAPEXPRY(600) of QALIAS(A1)",
        detected_by="get",
        ended_by="app",
        ended_program="till",
    )
    books.end(*lives)
    books.balance()
    with (
        LedgerClient(server.url, token=TOKEN) as client,
        closing(ParquetLake(tmp_path, books.ledger.instance_id)) as lake,
    ):
        [*_batches] = copy_ledger(client, lake)
    rows = read_lake(spark, tmp_path).orderBy("position").collect()
    assert [life_of(row) for row in rows] == lives
    assert {(row["manager"], row["instance_id"]) for row in rows} == {
        ("QM1", books.ledger.instance_id)
    }
    balances = read_balances(spark, tmp_path).orderBy("queue").collect()
    assert [(row["queue"], row["at_ms"], row["puts"], row["present"]) for row in balances] == [
        ("Q0", START_MS, 2, 0),
        ("Q1", START_MS, 2, 0),
        ("Q2", START_MS, 2, 0),
    ]
    ended = {**dict.fromkeys([*OUTCOME_CODES, OTHER_OUTCOMES], 0), State.GOT.value: 2}
    assert [row["ended"].asDict() for row in balances] == [ended] * 3


def test_a_lake_elsewhere_or_nowhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="s3://bucket/lake is no path of this machine"):
        read_lake(spark, "s3://bucket/lake")
    with pytest.raises(LakeError, match="there is no lake at"):
        read_lake(spark, tmp_path / "none")
