"""What the report counts and what verify_lake finds, in lakes written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.lifetime.life import OUTCOMES, LifeRecord, State
from mayfly.spark.report import ledger_report, verify_lake
from tests.bulk.books import START_MS, life
from tests.spark.lakes import INSTANCE, Entry, balance, write_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def waited(number: int, waited_ms: int, queue: str = "Q1") -> LifeRecord:
    """A life got ``waited_ms`` after its delivery time, which was an hour after its put."""
    deliver_at_ms = START_MS + 3_600_000
    return life(
        number,
        queue,
        put_ms=START_MS,
        deliver_at_ms=deliver_at_ms,
        ended_ms=deliver_at_ms + waited_ms,
    )


def test_report_counts_lives_by_queue_and_outcome(spark: SparkSession, tmp_path: Path) -> None:
    lives = [life(n, "Q1", outcome) for n, outcome in enumerate(OUTCOMES, 1)]
    lives += [life(20, "Q1", State.EXPIRED), life(21, "Q0")]
    write_lake(tmp_path, [*lives, balance("Q1", 10, got=1)])
    q0, q1 = ledger_report(spark, tmp_path)
    assert (q0.manager, q0.queue, q0.lives, q0.outcomes["got"], q0.expired_share) == (
        "QM1",
        "Q0",
        1,
        1,
        0.0,
    )
    assert q1.lives == 10
    assert q1.outcomes == {o.value: 2 if o is State.EXPIRED else 1 for o in OUTCOMES}
    assert q1.expired_share == 0.2


def test_report_measures_the_wait_from_delivery_time_to_get(
    spark: SparkSession, tmp_path: Path
) -> None:
    lives = [waited(n, n * 10) for n in range(101)]
    never_got = life(200, "Q2", State.EXPIRED)
    write_lake(tmp_path, [*lives, never_got])
    q1, q2 = ledger_report(spark, tmp_path, late_after_ms=990)
    assert (q1.waited_p50_ms, q1.waited_p95_ms, q1.waited_p99_ms) == (500, 950, 990)
    assert q1.late == 1
    assert (q2.waited_p50_ms, q2.waited_p95_ms, q2.waited_p99_ms, q2.late) == (None, None, None, 0)


def test_a_complete_lake_has_no_problem(spark: SparkSession, tmp_path: Path) -> None:
    first = [life(1), life(2), balance("Q1", 5, 3, got=2)]
    write_lake(
        tmp_path, [*first, life(3, outcome=State.EXPIRED), balance("Q1", 5, 2, got=2, expired=1)]
    )
    write_lake(tmp_path, [life(4)], first=6)
    assert verify_lake(spark, tmp_path) == []


def test_an_empty_lake_has_no_problem(spark: SparkSession, tmp_path: Path) -> None:
    assert verify_lake(spark, tmp_path) == []


def test_a_missing_file_is_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1)])
    write_lake(tmp_path, [life(4)], first=4)
    assert verify_lake(spark, tmp_path) == [
        f"store {INSTANCE}: positions 1 to 4: 2 rows missing, the first at 2"
    ]


def test_a_gap_between_blocks_of_positions_is_found(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1)])
    write_lake(tmp_path, [life(2)], first=100_000)
    assert verify_lake(spark, tmp_path) == [f"store {INSTANCE}: positions 2 to 99999 missing"]


def test_a_doubled_row_is_found_beside_a_gap_of_the_same_size(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_lake(tmp_path, [life(1), life(2)])
    write_lake(tmp_path / "date=2023-11-14", [life(2)], first=2)
    write_lake(tmp_path, [life(4)], first=4)
    (tmp_path / "date=2023-11-15").mkdir()
    inner = tmp_path / "date=2023-11-14" / "date=2023-11-14"
    next(inner.iterdir()).rename(tmp_path / "date=2023-11-15" / "again.parquet")
    inner.rmdir()
    assert verify_lake(spark, tmp_path) == [
        f"store {INSTANCE}: positions 1 to 4: 1 rows too many, the first at 2",
        f"store {INSTANCE}: positions 1 to 4: 1 rows missing, the first at 3",
    ]


def test_a_balance_that_does_not_balance_is_found(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), balance("Q1", 3, 1, got=1)])
    assert verify_lake(spark, tmp_path) == [
        f"queue Q1 of store {INSTANCE}: 3 put, but 1 ended and 1 present at position 2"
    ]


def test_lives_and_balances_that_disagree_are_found_by_outcome(
    spark: SparkSession, tmp_path: Path
) -> None:
    lives = [life(1), life(2, outcome=State.EXPIRED), life(3, "Q2")]
    write_lake(tmp_path, [*lives, balance("Q1", 2, 0, got=2), balance("Q2", 1, got=1)])
    where = f"queue Q1 of store {INSTANCE}"
    assert verify_lake(spark, tmp_path) == [
        f"{where}: 2 lives got by the balances up to position 4, 1 in the lake",
        f"{where}: 0 lives expired by the balances up to position 4, 1 in the lake",
    ]


@pytest.mark.parametrize(("counted", "problem_count"), [(1, 1), (2, 0), (3, 0)])
def test_lives_lost_at_restart_may_be_counted_and_not_listed_never_the_reverse(
    spark: SparkSession, tmp_path: Path, counted: int, problem_count: int
) -> None:
    lost = [life(n, outcome=State.LOST_AT_RESTART) for n in (1, 2)]
    write_lake(tmp_path, [*lost, balance("Q1", counted, lost_at_restart=counted)])
    assert len(verify_lake(spark, tmp_path)) == problem_count


def test_a_lake_that_begins_late_compares_what_was_added_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    entries: list[Entry] = [life(1), balance("Q1", 1_000, 0, got=1_000), life(2)]
    entries += [balance("Q1", 1_001, 0, got=1_001)]
    write_lake(tmp_path, entries, first=501)
    assert verify_lake(spark, tmp_path) == []
    write_lake(tmp_path, [balance("Q1", 1_002, 0, got=1_002)], first=505)
    where = f"queue Q1 of store {INSTANCE}"
    assert verify_lake(spark, tmp_path) == [
        f"{where}: 2 lives got by the balances up to position 505, 1 in the lake"
    ]


def test_a_queue_defined_anew_counts_from_its_new_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    before: list[Entry] = [life(1), life(2), balance("Q1", 2, got=2), life(3)]
    since: list[Entry] = [balance("Q1", 0), life(4), balance("Q1", 1, got=1)]
    write_lake(tmp_path, [*before, *since])
    assert verify_lake(spark, tmp_path) == []
    write_lake(tmp_path, [balance("Q1", 2, got=2)], first=8)
    assert verify_lake(spark, tmp_path) == [
        f"queue Q1 of store {INSTANCE}: 2 lives got by the balances up to position 8, 1 in the lake"
    ]


def test_two_stores_are_verified_each_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), balance("Q1", 1, got=1)])
    write_lake(tmp_path, [life(1), life(2), balance("Q1", 2, got=2)], instance="6" * 32)
    assert verify_lake(spark, tmp_path) == []
