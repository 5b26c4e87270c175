"""What the report counts and what verify_lake finds, in lakes written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.lifetime.life import OUTCOMES, LifeRecord, State
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.spark.lake import ledger_report
from tests.bulk.books import START_MS, life
from tests.spark.lakes import Entry, balance, write_lake

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


def test_an_empty_lake_has_no_problem(spark: SparkSession, tmp_path: Path) -> None:
    assert check_lake(tmp_path).texts == []


#: Writes lives and balances of one store; ``first`` is the position of the first of them.
Writer = Callable[..., Path]


class Stores:
    """A lake of many stores, each with what is right or wrong with it; Spark proves it once."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.expected: dict[str, list[str]] = {}

    def add(self, *problems: str) -> Writer:
        """Begin a store of which the proof is to say this and no more; STORE stands for it."""
        instance = f"{len(self.expected) + 1:032x}"
        self.expected[instance] = [text.replace("STORE", f"store {instance}") for text in problems]

        def write(*entries: Entry, first: int = 1) -> Path:
            return write_lake(self.lake, entries, first, instance)

        return write


def complete(stores: Stores) -> None:
    write = stores.add()
    write(
        life(1),
        life(2),
        balance("Q1", 5, 3, got=2),
        life(3, outcome=State.EXPIRED),
        balance("Q1", 5, 2, got=2, expired=1),
    )
    write(life(4), first=6)


def missing_file(stores: Stores) -> None:
    write = stores.add("STORE: positions 1 to 4: 2 rows missing, the first at 2")
    write(life(1))
    write(life(4), first=4)


def gap_between_blocks_of_positions(stores: Stores) -> None:
    write = stores.add("STORE: positions 2 to 99999 missing")
    write(life(1))
    write(life(2), first=100_000)


def doubled_row_beside_a_gap_of_the_same_size(stores: Stores) -> None:
    write = stores.add(
        "STORE: positions 1 to 4: 1 rows too many, the first at 2",
        "STORE: positions 1 to 4: 1 rows missing, the first at 3",
    )
    write(life(1), life(2))
    again = write(life(2), first=2)
    (stores.lake / "date=2023-11-15").mkdir()
    again.rename(stores.lake / "date=2023-11-15" / "again.parquet")
    write(life(4), first=4)


def balance_that_does_not_balance(stores: Stores) -> None:
    write = stores.add("queue Q1 of STORE: 3 put, but 1 ended and 1 present at position 2")
    write(life(1), balance("Q1", 3, 1, got=1))


def lives_and_balances_that_disagree_by_outcome(stores: Stores) -> None:
    write = stores.add(
        "queue Q1 of STORE: 2 lives got by the balances up to position 4, 1 in the lake",
        "queue Q1 of STORE: 0 lives expired by the balances up to position 4, 1 in the lake",
    )
    lives = [life(1), life(2, outcome=State.EXPIRED), life(3, "Q2")]
    write(*lives, balance("Q1", 2, 0, got=2), balance("Q2", 1, got=1))


def lives_lost_at_restart_may_be_counted_and_not_listed(stores: Stores) -> None:
    """The reverse, listed and not counted, is a problem."""
    lost = [life(n, outcome=State.LOST_AT_RESTART) for n in (1, 2)]
    for counted in (2, 3):
        stores.add()(*lost, balance("Q1", counted, lost_at_restart=counted))
    write = stores.add(
        "queue Q1 of STORE: 1 lives lost_at_restart by the balances up to position 3, 2 in the lake"
    )
    write(*lost, balance("Q1", 1, lost_at_restart=1))


def lake_that_begins_late(stores: Stores) -> None:
    """What was added since is compared."""
    entries: list[Entry] = [life(1), balance("Q1", 1_000, 0, got=1_000), life(2)]
    entries += [balance("Q1", 1_001, 0, got=1_001)]
    stores.add()(*entries, first=501)
    write = stores.add(
        "queue Q1 of STORE: 2 lives got by the balances up to position 505, 1 in the lake"
    )
    write(*entries, first=501)
    write(balance("Q1", 1_002, 0, got=1_002), first=505)


def queue_defined_anew(stores: Stores) -> None:
    """Its counts begin anew."""
    entries: list[Entry] = [life(1), life(2), balance("Q1", 2, got=2), life(3)]
    entries += [balance("Q1", 0), life(4), balance("Q1", 1, got=1)]
    stores.add()(*entries)
    write = stores.add(
        "queue Q1 of STORE: 2 lives got by the balances up to position 8, 1 in the lake"
    )
    write(*entries)
    write(balance("Q1", 2, got=2), first=8)


CASES = (
    complete,
    missing_file,
    gap_between_blocks_of_positions,
    doubled_row_beside_a_gap_of_the_same_size,
    balance_that_does_not_balance,
    lives_and_balances_that_disagree_by_outcome,
    lives_lost_at_restart_may_be_counted_and_not_listed,
    lake_that_begins_late,
    queue_defined_anew,
)


def test_each_store_is_verified_by_itself_and_each_of_its_problems_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In one proof, which takes as long for one store as for thirteen."""
    stores = Stores(tmp_path)
    for case in CASES:
        case(stores)
    found: dict[str, list[str]] = {instance: [] for instance in stores.expected}
    for problem in check_lake(tmp_path).texts:
        [instance] = [instance for instance in stores.expected if instance in problem]
        found[instance].append(problem)
    assert found == stores.expected
