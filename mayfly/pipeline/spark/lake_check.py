"""Check that proves a lake complete: each position once, put = ended + present at each balance.

A lake is a folder of Parquet files with the ledger of a queue manager. A balance row has the counts
of a queue up to its position. The ended messages in the lake up to there must agree with it,
outcome by outcome. So every prefix of the lake is proved, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, State
from mayfly.pipeline.lake.files import Lease, existing_lake
from mayfly.pipeline.spark.lake import rows_of
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES

_OUTCOMES = [*OUTCOME_CODES, OTHER_OUTCOMES]


class LakeProblem(NamedTuple):
    """A fault of a lake, with the first ledger position that shows it.

    ``store`` is the id of the queue manager's store. ``queue`` None concerns all queues.
    """

    store: str
    position: int
    queue: str | None
    text: str


@dataclass(frozen=True)
class LakeCheck:
    """The result of a check: rows read, balances compared, problems found, and files missing."""

    rows: int
    balances: int
    problems: tuple[LakeProblem, ...]
    missing_files: tuple[Path, ...]

    @property
    def texts(self) -> list[str]:
        """The missing files and the problems as sentences, most important first."""
        gone = [f"{path} is missing" for path in self.missing_files]
        return gone + [problem.text for problem in self.problems]


def verify_lake(spark: SparkSession, lake_path: str | Path) -> list[str]:
    """Return the faults of a lake as sentences; an empty list proves the lake complete.

    Raises LakeError if the folder is no lake.
    """
    return check_lake(spark, lake_path).texts


def check_lake(
    spark: SparkSession, lake_path: str | Path, *, until_position: int | None = None
) -> LakeCheck:
    """Check whether a lake, or its rows up to a position, is complete, and return the result.

    In each store every position must exist once, from the first one on. For each queue every
    balance must be balanced, and count the ended messages that the lake contains. If the lake
    begins later than the store (retention had trimmed it) or a queue was defined again, only the
    difference to the first balance is compared. Messages lost at a restart are counted in a balance
    but not listed. Messages after the newest balance are not checked. Raises LakeError without a
    lake.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        rows = rows_of(spark, lease.snapshot.files)
        if until_position is not None:
            rows = rows.where(f.col("position") <= until_position)
        blocks = _position_blocks(rows)
        problems = [*_position_problems(rows, blocks)]
        problems += _first_of_each(_balance_problems(rows, blocks))
        balance_count = sum(block["balances"] for block in blocks)
    finally:
        lease.close()
    row_count = sum(block["rows"] for block in blocks)
    return LakeCheck(row_count, balance_count, tuple(problems), lease.snapshot.missing)


# Positions


def _position_blocks(rows: DataFrame) -> list[Row]:
    """Return counts for each block of consecutive ledger positions, by store and position.

    The counts are of rows, balances and distinct positions. A block also has its first and last
    position.
    """
    bit = f.bitmap_bit_position(f.col("position"))
    return (
        rows.groupBy("instance_id", f.bitmap_bucket_number(f.col("position")).alias("block"))
        .agg(
            f.count("*").alias("rows"),
            f.count_if(f.col("kind") == KIND_BALANCE).alias("balances"),
            f.bitmap_count(f.bitmap_construct_agg(bit)).alias("positions"),
            f.min("position").alias("first"),
            f.max("position").alias("last"),
        )
        .orderBy("instance_id", "block")
        .collect()
    )


def _position_problems(rows: DataFrame, blocks: Iterable[Row]) -> Iterator[LakeProblem]:
    """Yield a problem for each gap and each duplicate in the positions of a store."""
    previous: Row | None = None
    for block in blocks:
        store, first, last = block["instance_id"], block["first"], block["last"]
        if previous is not None and previous["instance_id"] == store:
            gap = range(previous["last"] + 1, first)
            if gap:
                text = f"store {store}: positions {gap[0]} to {gap[-1]} missing"
                yield LakeProblem(store, gap[0], None, text)
        doubled = block["rows"] - block["positions"]
        missing = last - first + 1 - block["positions"]
        if doubled or missing:
            within = f"store {store}: positions {first} to {last}"
            first_doubled, first_missing = _first_wrong(rows, block)
            if doubled:
                text = f"{within}: {doubled} rows too many, the first at {first_doubled}"
                yield LakeProblem(store, first_doubled, None, text)
            if missing:
                text = f"{within}: {missing} rows missing, the first at {first_missing}"
                yield LakeProblem(store, first_missing, None, text)
        previous = block


def _first_wrong(rows: DataFrame, block: Row) -> tuple[int, int]:
    """Return a block's first duplicate ledger position and first missing one; -1 for none."""
    in_block = rows.where(
        (f.col("instance_id") == block["instance_id"])
        & f.col("position").between(block["first"], block["last"])
    )
    found = sorted(row[0] for row in in_block.select("position").collect())
    there = set(found)
    doubled = next((one for one, other in pairwise(found) if one == other), -1)
    missing = next((n for n in range(block["first"], block["last"] + 1) if n not in there), -1)
    return doubled, missing


# Balances


def _balance_problems(rows: DataFrame, blocks: Iterable[Row]) -> Iterator[LakeProblem]:
    """Yield a problem for each balance row that is wrong, by store, queue and position.

    A balance row has a queue's counts. It is wrong if put differs from ended + present, or if ended
    differs from the messages in the lake.
    """
    whole = [row["instance_id"] for row in blocks if row["first"] == 1]
    compared = _compared(_lives_before_balances(rows), whole)
    wrong = reduce(
        lambda one, other: one | other,
        [~f.col("is_balanced"), *(f.col(f"off_{name}") for name in _OUTCOMES)],
    )
    for row in compared.where(wrong).orderBy("instance_id", "queue", "position").toLocalIterator():
        yield from _row_problems(row)


def _lives_before_balances(rows: DataFrame) -> DataFrame:
    """Return each balance with the number of messages ended since the one before, by outcome.

    A balance is a queue's counts at a position of the ledger.
    """
    is_balance = f.col("kind") == KIND_BALANCE
    earlier = (
        Window.partitionBy("instance_id", "queue")
        .orderBy("position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    number = f.coalesce(f.sum(is_balance.cast("int")).over(earlier), f.lit(0))
    balance = f.struct("position", "puts", "present", "ended")
    return (
        rows.withColumn("number", number)
        .groupBy("instance_id", "queue", "number")
        .agg(
            f.max_by(f.when(is_balance, balance), is_balance.cast("int")).alias("balance"),
            *(_listed(name).alias(f"listed_{name}") for name in _OUTCOMES),
        )
        .where(f.col("balance").isNotNull())
        .select("*", "balance.position")
    )


def _listed(outcome: str) -> Column:
    """Return the aggregate column that counts the ended messages with an outcome."""
    is_of_it = f.col("outcome") == outcome
    if outcome == OTHER_OUTCOMES:
        is_of_it = ~f.col("outcome").isin(list(OUTCOME_CODES))
    return f.count_if((f.col("kind") == KIND_LIFE) & is_of_it)


def _compared(balances: DataFrame, whole: list[str]) -> DataFrame:
    """Return each balance with its counts, the counts from the lake's rows, and their difference.

    ``whole`` are the stores whose first position is in the lake. A queue that was deleted and
    defined again counts from 0, which shows as a count that decreases.
    """
    in_order = Window.partitionBy("instance_id", "queue").orderBy("number")
    since = Window.partitionBy("instance_id", "queue", "defined").orderBy("number")
    counted = ["balance.puts", *(f"balance.ended.{name}" for name in _OUTCOMES)]
    falls = [f.col(name) < f.lag(name).over(in_order) for name in counted]
    fell = f.coalesce(reduce(lambda one, other: one | other, falls), f.lit(False))
    is_whole = f.col("instance_id").isin(whole) & (f.col("defined") == 0)
    frame = balances.withColumn("fell", fell)
    frame = frame.withColumn("defined", f.sum(f.col("fell").cast("int")).over(in_order))
    frame = frame.withColumn("is_first", f.row_number().over(since) == 1)
    frame = frame.withColumn("from_nothing", is_whole)
    # A version that knew fewer outcomes has not counted the others.
    ended = [f.coalesce(f.col(f"balance.ended.{name}"), f.lit(0)) for name in _OUTCOMES]
    columns: list[Column] = []
    for name, count in zip(_OUTCOMES, ended, strict=True):
        # Lives before the first balance are unknown, unless the lake begins with the store.
        is_known = f.col("from_nothing") | ~f.col("is_first")
        listed = f.sum(f.when(is_known, f.col(f"listed_{name}")).otherwise(0)).over(since)
        base = f.when(f.col("from_nothing"), 0).otherwise(f.first(count).over(since))
        off = listed != count - base
        if name == State.LOST_AT_RESTART.value:
            off = listed > count - base
        columns += [
            (count - base).alias(f"ended_{name}"),
            listed.alias(f"found_{name}"),
            off.alias(f"off_{name}"),
        ]
    total = reduce(lambda one, other: one + other, ended)
    is_balanced = f.col("balance.puts") == total + f.col("balance.present")
    return frame.select(
        *("instance_id", "queue", "position", "balance"),
        total.alias("total"),
        is_balanced.alias("is_balanced"),
        *columns,
    )


def _row_problems(row: Row) -> Iterator[LakeProblem]:
    """Yield the problems of one row of `_compared`; nothing if its counts agree."""
    store, queue, position = row["instance_id"], row["queue"], row["position"]
    where = f"queue {queue} of store {store}"
    if not row["is_balanced"]:
        balance = row["balance"]
        yield LakeProblem(
            store,
            position,
            queue,
            f"{where}: {balance['puts']} put, but {row['total']} ended and {balance['present']} "
            f"present at position {position}",
        )
    for name in _OUTCOMES:
        if row[f"off_{name}"]:
            yield LakeProblem(
                store,
                position,
                queue,
                f"{where}: {row[f'ended_{name}']} lives {name} by the balances up to position "
                f"{position}, {row[f'found_{name}']} in the lake",
            )


def _first_of_each(problems: Iterable[LakeProblem]) -> Iterator[LakeProblem]:
    """Yield only the problems at the first wrong position of each queue.

    Later problems of the same queue follow from the first.
    """
    first: dict[tuple[str, str | None], int] = {}
    for problem in problems:
        if first.setdefault((problem.store, problem.queue), problem.position) == problem.position:
            yield problem
