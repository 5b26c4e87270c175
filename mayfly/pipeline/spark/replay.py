"""The what-if replay in Spark: `mayfly.pipeline.replay`, run queue by queue on the workers.

The replay decides again, with changed expiry settings, how the messages of a ledger would have
ended. There are two ways. Over any DataFrame, rows are grouped by queue. Over a folder split by
queue (``queue=NAME/*.parquet``), workers read the files themselves, so that nothing is shuffled.
Both return the same rows as `replay_in_process`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.pipeline.replay.compare import (
    BY_QUEUE_SCHEMA,
    CHANGED_SCHEMA,
    LATE_AFTER_MS,
    Comparison,
    changed,
    compare,
)
from mayfly.pipeline.replay.lives import LIFE_COLUMNS, REPLAYED, chosen_manager, read_lives
from mayfly.pipeline.replay.run import (
    EXPIRED,
    GOT,
    LEFT,
    OUTCOME_SCHEMA,
    REFUSED,
    replay_in_process,
)
from mayfly.pipeline.replay.settings import (
    AS_IT_WAS,
    EVERY_OTHER,
    Settings,
    WhatIf,
    check_queues,
    check_settings,
    settings_of,
)
from mayfly.pipeline.replay.split import queue_folders, queue_of, read_queue
from mayfly.pipeline.replay.trace import OPTIONAL_FIELDS, TRACE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "AS_IT_WAS",
    "EXPIRED",
    "GOT",
    "LEFT",
    "OUTCOME_SCHEMA",
    "REFUSED",
    "TRACE_SCHEMA",
    "WhatIf",
    "changed",
    "compare_in_spark",
    "lives_in_lake",
    "lives_to_replay",
    "ordered",
    "replay_in_process",
    "replay_in_spark",
    "replay_split_in_spark",
]

#: Makes the rows of one queue a trace.
Prepare = Callable[[pa.Table], pa.Table]
_ORDER = [("queue", "ascending"), ("put_ms", "ascending"), ("seq", "ascending")]


def replay_in_spark(trace: DataFrame, what_if: Settings = AS_IT_WAS) -> DataFrame:
    """Return the outcome of each message of a trace under other settings, in no order.

    A trace has a row for each recorded message. Result rows are those of `replay_in_process`;
    `ordered` sorts them like these. Raises ReplayError for wrong settings.
    """

    _check(what_if, trace)

    def decide(rows: pa.Table) -> pa.Table:
        """Return the outcomes of one queue's messages; runs on a worker."""
        return replay_in_process(rows, _own(what_if, rows))

    return _by_queue(trace.select(*_trace_columns(trace)), decide, OUTCOME_SCHEMA)


def replay_split_in_spark(
    spark: SparkSession, folder: str | Path, what_if: Settings = AS_IT_WAS
) -> DataFrame:
    """Return the outcome of each message in a folder that is split by queue, in no order.

    `replay.split` or Spark's partitionBy has written the folder. Each queue is one task; the
    workers must see the folder under the same path. Raises ReplayError for wrong settings or a
    folder without queues.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the outcomes of the queues whose folders the rows name; runs on a worker."""
        for batch in batches:
            for path in batch["path"].to_pylist():
                rows = read_queue(Path(path))
                yield from replay_in_process(rows, _own(what_if, rows)).to_batches()

    folders = queue_folders(folder)
    check_settings(what_if)
    check_queues(what_if, [queue_of(path) for path in folders])
    paths = [str(path) for path in folders]
    names = spark.createDataFrame([(path,) for path in paths], "path string")
    # From one partition the names are dealt out one by one, so each task gets one queue.
    tasks = names.coalesce(1).repartition(len(paths))
    return tasks.mapInArrow(decide, from_arrow_schema(OUTCOME_SCHEMA))


def compare_in_spark(
    rows: DataFrame,
    what_if: Settings,
    *,
    prepare: Prepare | None = None,
    late_after_ms: int = LATE_AFTER_MS,
) -> Comparison:
    """Return the result of `mayfly.pipeline.replay.compare.compare`, computed by queue in Spark.

    Only a row per queue, and the messages that end differently, return to this process. ``prepare``
    turns the rows of one queue into a trace (a row for each message); None if they are one. A
    message got more than ``late_after_ms`` after its delivery time counts as late. Raises
    ReplayError for wrong settings.
    """

    _check(what_if, rows)

    def both(rows: pa.Table) -> Comparison:
        """Return the comparison of both replays for one queue's rows; runs on a worker."""
        trace = rows if prepare is None else prepare(rows)
        return compare(trace, _own(what_if, trace), late_after_ms=late_after_ms)

    def summary(rows: pa.Table) -> pa.Table:
        """Return two rows for a queue, before and after, told apart by column ``side``."""
        compared = both(rows)
        return pa.concat_tables([_marked(compared.before, 0), _marked(compared.after, 1)])

    marked = _by_queue(rows, summary, _MARKED_SCHEMA).toArrow().sort_by("queue")
    parts = [marked.filter(pc.equal(marked["side"], side)) for side in (0, 1)]
    before, after = (
        part.select(BY_QUEUE_SCHEMA.names).cast(BY_QUEUE_SCHEMA).combine_chunks() for part in parts
    )
    messages = _by_queue(rows, lambda rows: both(rows).changed, CHANGED_SCHEMA).toArrow()
    messages = messages.cast(CHANGED_SCHEMA).sort_by(_ORDER).combine_chunks()
    return Comparison(before, after, messages)


def lives_to_replay(spark: SparkSession, lake: str | Path, manager: str | None = None) -> DataFrame:
    """Return a lake's rows of ended messages, from which `trace_of_lives` makes a trace.

    Raises LakeError without a lake, NoLives when it has no such rows, and ReplayError when they are
    of several queue managers and ``manager`` names none of them.
    """
    from pyspark.sql import functions as f

    from mayfly.pipeline.spark.lake import read_lake

    lives = read_lake(spark, lake).where(f.col("outcome").isin(*REPLAYED))
    managers = [row["manager"] for row in lives.select("manager").distinct().collect()]
    chosen = chosen_manager(sorted(managers), manager, lake)
    return lives.where(f.col("manager") == chosen).select(*LIFE_COLUMNS)


def lives_in_lake(lake: str | Path, manager: str | None = None) -> pa.Table:
    """Return the rows of `lives_to_replay`, read in this process without Spark.

    A lease keeps the lake's files meanwhile. Raises LakeError when a file is missing, NoLives when
    there are no rows, and ReplayError when ``manager`` is not clear.
    """
    from mayfly.pipeline.lake.files import Lease, check_complete, existing_lake

    with contextlib.closing(Lease(existing_lake(lake))) as lease:
        check_complete(lease.snapshot)
        return read_lives([file.path for file in lease.snapshot.files], lake, manager)


def ordered(outcomes: pa.Table) -> pa.Table:
    """Return outcome rows sorted by queue, put time and sequence number, as OUTCOME_SCHEMA."""
    rows = outcomes.select(OUTCOME_SCHEMA.names).cast(OUTCOME_SCHEMA)
    return rows.sort_by(_ORDER).combine_chunks()


_MARKED_SCHEMA = BY_QUEUE_SCHEMA.append(pa.field("side", pa.int64(), nullable=False))


def _marked(table: pa.Table, side: int) -> pa.Table:
    """Return a table with a column ``side``: 0 for before, 1 for after."""
    return table.append_column("side", pa.repeat(pa.scalar(side, pa.int64()), len(table)))


def _trace_columns(trace: DataFrame) -> list[str]:
    """Return the required columns of a trace (recorded messages), and optional ones present."""
    there = [field.name for field in OPTIONAL_FIELDS if field.name in trace.columns]
    return [*TRACE_SCHEMA.names, *there]


def _by_queue(rows: DataFrame, decide: Prepare, schema: pa.Schema) -> DataFrame:
    """Return the rows that ``decide`` makes of each queue's rows, called on Spark's workers."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def one_queue(_queue: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        """Call ``decide`` with the rows of one queue."""
        return decide(rows)

    return rows.groupBy("queue").applyInArrow(one_queue, schema=from_arrow_schema(schema))


def _check(what_if: Settings, rows: DataFrame) -> None:
    """Raise ReplayError for settings out of range or about a queue that the rows do not have.

    This happens here, as a worker knows only one queue.
    """
    check_settings(what_if)
    if not isinstance(what_if, WhatIf) and what_if.keys() - {EVERY_OTHER}:
        queues = [row["queue"] for row in rows.select("queue").distinct().collect()]
        check_queues(what_if, queues)


def _own(what_if: Settings, rows: pa.Table) -> Settings:
    """Return the settings that apply to the single queue of ``rows``.

    Returns all settings if there are no rows.
    """
    return {EVERY_OTHER: settings_of(what_if, rows["queue"][0].as_py())} if len(rows) else what_if
