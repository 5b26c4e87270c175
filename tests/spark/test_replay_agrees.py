"""One kernel run three ways, in Spark, by numba and by Python: the same table, row for row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.failures import failure_of
from mayfly.pipeline.replay import kernel
from mayfly.pipeline.replay.compare import compare
from mayfly.pipeline.replay.run import replay_in_process
from mayfly.pipeline.replay.settings import Settings, WhatIf
from mayfly.pipeline.replay.trace import read_trace, trace_of_lives, write_split
from mayfly.pipeline.spark.replay import (
    compare_in_spark,
    compare_trace_in_spark,
    lives_in_lake,
    lives_to_replay,
    ordered,
    replay_in_spark,
    replay_split_in_spark,
)
from tests.replay import lakes, walk
from tests.replay.walk import Message, trace_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_any = walk.what_ifs | walk.consumer_what_ifs
#: Longer than what the model walks through: a job costs as much for many queues as for one.
_rows = st.lists(walk.message, min_size=1, max_size=60).map(
    lambda rows: [row | {"seq": seq, "queue": f"Q{seq % 9}"} for seq, row in enumerate(rows)]
)


@given(_rows, st.fixed_dictionaries({"*": _any, "Q0": _any}))
@settings(
    max_examples=8,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_spark_numba_and_python_give_the_same_table(
    spark: SparkSession, rows: list[Message], what_if: Settings
) -> None:
    """Gets or consumers, each queue with settings of its own, times that are equal more often
    than not."""
    trace = trace_of(rows)
    plain = replay_in_process(trace, what_if, with_kernel=kernel.PLAIN)
    assert replay_in_process(trace, what_if, with_kernel=kernel.compiled()) == plain
    in_spark = replay_in_spark(spark.createDataFrame(trace), what_if).toArrow()
    assert ordered(in_spark) == plain


@pytest.mark.long
def test_a_folder_split_by_queue_is_read_by_the_workers_with_the_same_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Written by us or by Spark's partitionBy; names that a path cannot hold included."""
    rows = [
        {
            "queue": f"A/{seq % 3}",
            "seq": seq,
            "put_ms": seq // 7,
            "life_ms": 9,
            "priority": seq % 10,
        }
        | {"correl_id": b"", "get_ms": 5 + seq % 11, "delay_ms": seq % 3, "recorded": None}
        for seq in range(200)
    ]
    trace, what_if = trace_of(rows), {"A/1": WhatIf(consumers=2, service_ms=3)}
    alone = replay_in_process(trace, what_if)
    write_split(trace, tmp_path / "ours")
    frame = spark.createDataFrame(trace)
    frame.write.partitionBy("queue").parquet(str(tmp_path / "sparks"))
    for name in ("ours", "sparks"):
        outcomes = replay_split_in_spark(spark, tmp_path / name, what_if)
        assert ordered(outcomes.toArrow()) == alone
        assert compare_trace_in_spark(spark, tmp_path / name, what_if) == compare(trace, what_if)
    with pytest.raises(ReplayError, match="no message of the trace is on queue 'Q9'"):
        replay_split_in_spark(spark, tmp_path / "ours", {"Q9": WhatIf()})
    with pytest.raises(ReplayError, match="no message of the trace is on queue 'Q9'"):
        replay_in_spark(frame, {"Q9": WhatIf()})


def test_a_lake_compared_in_spark_is_the_lake_compared_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By queue and by message: both tables equal."""
    lake = lakes.live(tmp_path)
    what_if = {"Q1": WhatIf(cap_ms=15_000), "*": WhatIf(consumers=1, service_ms=4_000)}
    here = compare(trace_of_lives(lives_in_lake(lake)), what_if)
    there = compare_in_spark(lives_to_replay(spark, lake), what_if, prepare=trace_of_lives)
    assert there == here
    assert len(here.changed) > 20


def test_a_trace_that_spark_reads_itself_is_the_trace_compared_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A Parquet file that only has some columns, and a CSV file; one Spark job, no row twice."""
    rows = [
        {"queue": f"Q{seq % 3}", "put_ms": seq, "life_ms": 20, "get_ms": seq + seq % 30, "seq": seq}
        for seq in range(100)
    ]
    parquet, csv = tmp_path / "trace.parquet", tmp_path / "trace.csv"
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows), csv)
    what_if = {"Q1": WhatIf(cap_ms=10)}
    here = compare(read_trace(parquet), what_if)
    assert len(here.changed) > 5
    before = _job_count(spark)
    assert compare_trace_in_spark(spark, parquet, what_if) == here
    assert _job_count(spark) - before <= 3  # the schema, the shuffle and the result
    assert compare_trace_in_spark(spark, csv, what_if) == here
    with pytest.raises(ReplayError, match="no message of the trace is on queue 'Q9'; it has Q0"):
        compare_trace_in_spark(spark, parquet, {"Q9": WhatIf()})
    pq.write_table(pa.Table.from_pylist([row | {"priority": 12} for row in rows]), parquet)
    with pytest.raises(PySparkException) as refused:
        compare_trace_in_spark(spark, parquet, what_if)
    said = f"{parquet}: column priority is 12 in row 1, not from 0 to 9"
    assert said in failure_of(refused.value).text
    pq.write_table(pa.Table.from_pylist(rows).drop_columns("seq"), parquet)
    with pytest.raises(ReplayError, match="has no column 'seq', which a replay in Spark needs"):
        compare_trace_in_spark(spark, parquet, what_if)


def _job_count(spark: SparkSession) -> int:
    """Return the number of jobs that this session has run."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
