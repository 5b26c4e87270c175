"""The stored sketches: what they answer, that they keep up, and that rows are not read again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.constants import (
    MQRO_COA,
    MQRO_COD_WITH_DATA,
    MQRO_EXCEPTION,
    MQRO_EXPIRATION_WITH_DATA,
)
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.errors import PartError
from mayfly.pipeline.lake.files import Manifest, Snapshot, maintained
from mayfly.pipeline.lake.part import LakePart, part_between
from mayfly.pipeline.spark.errors import LakeError
from mayfly.pipeline.spark.report import QueueBalance, QueueReport, ledger_report
from mayfly.pipeline.spark.sketches import rebuild_sketches, sketch_lake, small_tail
from tests.bulk.books import START_MS, life
from tests.spark.lakes import balance, write_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]
#: 2023-11-14T22:13:20Z, at which START_MS is.
HOUR_22_MS = START_MS - 13 * 60_000 - 20_000
HOUR_MS = 3_600_000


def ended(number: int, at_ms: int, waited_ms: int = 250, queue: str = "Q1") -> LifeRecord:
    """A life got at a moment, so long after its delivery time, with a minute left to live."""
    put_ms = at_ms - waited_ms
    return life(
        number,
        queue,
        put_ms=put_ms,
        deliver_at_ms=put_ms,
        expire_at_ms=at_ms + 60_000,
        ended_ms=at_ms,
    )


def lives_by_queue(reports: list[QueueReport]) -> dict[str, int]:
    return {report.queue: report.lives for report in reports}


def test_counts_are_exact_and_percentiles_within_a_hundredth_of_rank(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(7)
    waits_ms = [int(rng.lognormvariate(8, 2)) for _ in range(4_000)]
    lives = [ended(n, HOUR_22_MS + n % 7 * 600, wait) for n, wait in enumerate(waits_ms)]
    for batch in range(4):
        write_lake(tmp_path, lives[batch * 1_000 : (batch + 1) * 1_000], 1 + batch * 1_000)
    [sketched] = ledger_report(spark, tmp_path)
    [exact] = ledger_report(spark, tmp_path, is_rescan=True)
    assert (sketched.lives, sketched.outcomes, sketched.late) == (
        exact.lives,
        exact.outcomes,
        exact.late,
    )
    assert exact.late == sum(wait > 60_000 for wait in waits_ms)
    waits_ms.sort()
    measured = (sketched.waited_p50_ms, sketched.waited_p95_ms, sketched.waited_p99_ms)
    for rank, value in zip((0.5, 0.95, 0.99), measured, strict=True):
        assert value is not None
        assert abs(sum(wait <= value for wait in waits_ms) / 4_000 - rank) < 0.0165
    assert (sketched.left_p50_ms, sketched.left_p1_ms) == (60_000, 60_000)
    [other] = ledger_report(spark, tmp_path, late_after_ms=10_000)
    assert abs(other.late - sum(wait > 10_000 for wait in waits_ms)) < 0.0165 * 4_000


def test_a_report_does_not_read_the_rows_again(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), life(2, "Q2"), balance("Q1", 2, 1, got=1)])
    before = ledger_report(spark, tmp_path)
    assert Snapshot.take(tmp_path).unsketched == ()
    for folder in tmp_path.glob("date=*"):
        shutil.rmtree(folder)
    assert ledger_report(spark, tmp_path) == before
    assert ledger_report(spark, tmp_path, is_rescan=True) == []


def test_sketches_keep_up_batch_by_batch_and_their_files_stay_few(
    spark: SparkSession, tmp_path: Path
) -> None:
    for batch in range(12):
        write_lake(tmp_path, [ended(batch, HOUR_22_MS, 100 * batch)], 1 + batch)
        assert sketch_lake(spark, tmp_path)
    [report] = ledger_report(spark, tmp_path)
    assert (report.lives, report.waited_p50_ms, report.waited_p99_ms) == (12, 500, 1_100)
    manifest = Manifest.load(tmp_path)
    assert len(manifest.sketches) <= 8
    # What was merged is gone: nobody reads.
    stored = {path.name for path in (tmp_path / "_sketches").iterdir()}
    assert stored == set(manifest.sketches)


def test_while_somebody_else_maintains_a_report_counts_for_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_lake(tmp_path, [life(1)])
    sketch_lake(spark, tmp_path)
    write_lake(tmp_path, [life(2), life(3)], 2)
    with maintained(tmp_path):
        assert not sketch_lake(spark, tmp_path)
        assert lives_by_queue(ledger_report(spark, tmp_path)) == {"Q1": 3}
    assert len(Manifest.load(tmp_path).sketches) == 1
    assert lives_by_queue(ledger_report(spark, tmp_path)) == {"Q1": 3}
    assert len(Manifest.load(tmp_path).sketches) == 2


@pytest.mark.soak
def test_a_part_is_from_hour_to_hour_and_of_named_queues(
    spark: SparkSession, tmp_path: Path
) -> None:
    moments_ms = [HOUR_22_MS - 1, HOUR_22_MS, HOUR_22_MS + HOUR_MS - 1, HOUR_22_MS + HOUR_MS]
    write_lake(tmp_path, [ended(n, at_ms) for n, at_ms in enumerate(moments_ms)])
    next_day_ms = HOUR_22_MS + 2 * HOUR_MS
    write_lake(tmp_path, [ended(9, next_day_ms, queue="ORDERS.EU")], 5, date="2023-11-15")
    cases = [
        (part_between("2023-11-14T22", "2023-11-14T22"), {"Q1": 2}),
        (part_between("2023-11-14T22", None), {"ORDERS.EU": 1, "Q1": 3}),
        (part_between(None, "2023-11-14T22"), {"Q1": 3}),
        (part_between("2023-11-14", "2023-11-14"), {"Q1": 4}),
        (part_between("2023-11-15", "2023-11-15"), {"ORDERS.EU": 1}),
        (LakePart(queues=("ORDERS.*",)), {"ORDERS.EU": 1}),
        (LakePart(queues=("Q1", "ORDERS.EU")), {"ORDERS.EU": 1, "Q1": 4}),
        (LakePart(queues=("Q*",), until_ms=HOUR_22_MS), {"Q1": 1}),
        (LakePart(queues=("NONE",)), {}),
    ]
    for part, wanted in cases:
        assert lives_by_queue(ledger_report(spark, tmp_path, part=part)) == wanted
    for part, wanted in cases[:2]:
        exact = ledger_report(spark, tmp_path, part=part, is_rescan=True)
        assert lives_by_queue(exact) == wanted
    minute = part_between("2023-11-14T22:00", "2023-11-14T22:00")
    with pytest.raises(PartError, match="whole hours"):
        ledger_report(spark, tmp_path, part=minute)
    exact = ledger_report(spark, tmp_path, part=minute, is_rescan=True)
    assert lives_by_queue(exact) == {"Q1": 1}


@pytest.mark.parametrize("words", [("2023-13-01", None), ("14:00", None), ("2024", "2023-01-01")])
def test_a_moment_that_is_none_is_named(words: tuple[str, str | None]) -> None:
    with pytest.raises(PartError, match=f"'{words[0]}' is not a moment"):
        part_between(*words)


def test_a_part_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(PartError, match="2023-01-01 is before 2023-01-02"):
        part_between("2023-01-02", "2023-01-01")


@pytest.mark.parametrize("is_rescan", [False, True])
def test_a_report_counts_reports_owed_newest_balances_and_lateness_of_release(
    spark: SparkSession, tmp_path: Path, *, is_rescan: bool
) -> None:
    """Each on a queue of its own: a report takes as long for one as for all of them."""
    every = MQRO_EXPIRATION_WITH_DATA | MQRO_COD_WITH_DATA | MQRO_COA | MQRO_EXCEPTION
    owing = [
        life(1, "OWING", report=every),
        life(2, "OWING", report=every, outcome=State.EXPIRED),
        life(3, "OWING", report=every, outcome=State.DEAD_LETTERED),
        # Moved here from elsewhere: it had arrived before.
        life(4, "OWING", report=every, origin_id=bytes(24)),
        life(5, "OWING", report=every, outcome=State.TRANSMITTED),
        life(6, "OWING", outcome=State.EXPIRED),
        # It was delayed: here it arrives.
        life(7, "OWING", report=MQRO_COA, origin_id=bytes(24), put_ms=START_MS),
    ]
    released = [
        life(8 + n, STAGING_QUEUE, State.RELEASED, deliver_at_ms=START_MS, ended_ms=end_ms)
        for n, end_ms in enumerate(range(START_MS, START_MS + 101))
    ]
    write_lake(tmp_path, [*owing, *released])
    # Two stores have the queue, one of them an older balance of it.
    balances = [life(1), balance("Q1", 5, 4, got=1), balance("Q1", 6, 4, got=2)]
    write_lake(tmp_path, balances, instance="6" * 32)
    write_lake(tmp_path, [balance("Q1", 10, 1, expired=9), balance("Q2", 0)], instance="7" * 32)
    reports = {
        report.queue: report for report in ledger_report(spark, tmp_path, is_rescan=is_rescan)
    }
    assert reports.keys() == {"OWING", STAGING_QUEUE, "Q1"}
    assert reports["OWING"].owed == {"exception": 1, "expiration": 1, "coa": 4, "cod": 1}
    books = reports["Q1"].balance
    assert books == QueueBalance(at_ms=START_MS, put=16, ended=11, present=5)
    assert books.is_balanced
    late = reports[STAGING_QUEUE]
    assert (late.released_late_p50_ms, late.released_late_p95_ms) == (50, 95)
    assert late.waited_p50_ms is None


def test_lost_sketches_are_named_and_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), life(2)])
    before = ledger_report(spark, tmp_path)
    [stored] = (tmp_path / "_sketches").iterdir()
    stored.unlink()
    with pytest.raises(LakeError, match="rebuild the sketches"):
        ledger_report(spark, tmp_path)
    rebuild_sketches(spark, tmp_path)
    assert ledger_report(spark, tmp_path) == before


@pytest.mark.parametrize(
    ("sizes_bytes", "count"),
    [([5, 5], 2), ([100, 5, 5], 2), ([20, 5, 5], 3), ([100, 30, 5, 10], 3), ([90, 30, 5, 10], 4)],
)
def test_small_files_are_merged_and_large_ones_wait(sizes_bytes: list[int], count: int) -> None:
    assert small_tail(sizes_bytes) == count
