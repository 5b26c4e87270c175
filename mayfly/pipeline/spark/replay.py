"""The what-if replay in Spark: `mayfly.pipeline.replay`, run queue by queue on the workers.

The replay decides again, with changed expiry settings, how the messages of a ledger would have
ended. There are two ways. Over any DataFrame, rows are grouped by queue. Over a folder split by
queue (``queue=NAME/*.parquet``), workers read the files themselves, so that nothing is shuffled.
Both return the same rows as `replay_in_process`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.pipeline.lake.files import Lease, check_complete, existing_lake
from mayfly.pipeline.replay.compare import (
    BY_QUEUE_SCHEMA,
    CHANGED_SCHEMA,
    LATE_AFTER_MS,
    Comparison,
    changed,
    compare,
)
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
from mayfly.pipeline.replay.trace import (
    LIFE_COLUMNS,
    OPTIONAL_FIELDS,
    REPLAYED,
    TRACE_SCHEMA,
    check_trace_schema,
    checked,
    chosen_manager,
    is_split,
    parquet_row_count,
    queue_folders,
    queue_of,
    read_lives,
    read_queue,
    read_trace,
)

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
    "compare_split_in_spark",
    "compare_trace_in_spark",
    "lives_in_lake",
    "lives_row_count",
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

    `write_split` or Spark's partitionBy has written the folder. Each queue is one task; the
    workers must see the folder under the same path. Raises ReplayError for wrong settings or a
    folder without queues.
    """

    def decide(rows: pa.Table) -> pa.Table:
        """Return the outcomes of one queue's messages; runs on a worker."""
        return replay_in_process(rows, _own(what_if, rows))

    return _by_folder(spark, folder, what_if, decide, OUTCOME_SCHEMA)


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
    check_settings(what_if)

    def compared(rows: pa.Table) -> pa.Table:
        """Return the comparison of one queue's messages; runs on a worker."""
        return _compared(rows if prepare is None else prepare(rows), what_if, late_after_ms)

    return _collected(_by_queue(rows, compared, _COMPARED_SCHEMA), what_if)


def compare_split_in_spark(
    spark: SparkSession,
    folder: str | Path,
    what_if: Settings,
    *,
    late_after_ms: int = LATE_AFTER_MS,
) -> Comparison:
    """Return the result of `compare_in_spark` for a trace in a folder that is split by queue.

    The workers read the folder themselves, under the same path, a task for each queue. Raises
    ReplayError for wrong settings or a folder without queues.
    """

    def compared(rows: pa.Table) -> pa.Table:
        """Return the comparison of one queue's messages; runs on a worker."""
        return _compared(rows, what_if, late_after_ms)

    return _collected(_by_folder(spark, folder, what_if, compared, _COMPARED_SCHEMA), what_if)


def compare_trace_in_spark(
    spark: SparkSession, trace: Path, what_if: Settings, *, late_after_ms: int = LATE_AFTER_MS
) -> Comparison:
    """Return the result of `compare_in_spark` for a trace in a file, or a folder split by queue.

    Workers read a folder and a Parquet file, under the same path; this process reads a file of
    another kind. Raises ReplayError for wrong settings, for a file that is no trace, and for a
    Parquet file without a column ``seq``: there is no order of rows by which to number them.
    """
    if is_split(trace):
        return compare_split_in_spark(spark, trace, what_if, late_after_ms=late_after_ms)
    if trace.suffix.lower() != ".parquet":
        rows = spark.createDataFrame(read_trace(trace))
        return compare_in_spark(rows, what_if, late_after_ms=late_after_ms)
    check_trace_schema(pq.read_schema(trace), str(trace))
    prepare = partial(checked, name=str(trace))
    rows = spark.read.parquet(str(trace))
    return compare_in_spark(rows, what_if, prepare=prepare, late_after_ms=late_after_ms)


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
    with contextlib.closing(Lease(existing_lake(lake))) as lease:
        check_complete(lease.snapshot)
        return read_lives([file.path for file in lease.snapshot.files], lake, manager)


def lives_row_count(lake: str | Path) -> int:
    """Return the number of rows in a lake's files: its ended messages, and a few balances.

    Raises LakeError without a lake, or when a file is missing.
    """
    with contextlib.closing(Lease(existing_lake(lake))) as lease:
        check_complete(lease.snapshot)
        return parquet_row_count([file.path for file in lease.snapshot.files])


def ordered(outcomes: pa.Table) -> pa.Table:
    """Return outcome rows sorted by queue, put time and sequence number, as OUTCOME_SCHEMA."""
    rows = outcomes.select(OUTCOME_SCHEMA.names).cast(OUTCOME_SCHEMA)
    return rows.sort_by(_ORDER).combine_chunks()


_COMPARED = {"before": BY_QUEUE_SCHEMA, "after": BY_QUEUE_SCHEMA, "changed": CHANGED_SCHEMA}
#: The answer of a worker about one queue: its figures before and after, and each changed message,
#: in rows of which one column is set.
_COMPARED_SCHEMA = pa.schema(
    [
        pa.field(name, pa.struct([field.with_nullable(True) for field in schema]))
        for name, schema in _COMPARED.items()
    ]
)


def _compared(trace: pa.Table, what_if: Settings, late_after_ms: int) -> pa.Table:
    """Return the comparison of both replays of one queue's messages, as rows of _COMPARED_SCHEMA.

    A message got more than ``late_after_ms`` after its delivery time counts as late.
    """
    parts = compare(trace, _own(what_if, trace), late_after_ms=late_after_ms)
    rows = []
    for field, part in zip(_COMPARED_SCHEMA, parts, strict=True):
        columns = [pa.nulls(len(part), other.type) for other in _COMPARED_SCHEMA]
        arrays = [column.combine_chunks() for column in part.columns]
        structs = pa.StructArray.from_arrays(arrays, fields=[*field.type])
        columns[_COMPARED_SCHEMA.names.index(field.name)] = structs
        rows.append(pa.table(columns, schema=_COMPARED_SCHEMA))
    return pa.concat_tables(rows)


def _collected(compared: DataFrame, what_if: Settings) -> Comparison:
    """Run the Spark job, and return the comparisons of all queues, which it has made, as one.

    Raises ReplayError if ``what_if`` names a queue that is not among them.
    """
    rows = compared.toArrow()
    before, after, messages = (
        pa.Table.from_struct_array(rows[name].drop_null()).cast(schema)
        for name, schema in _COMPARED.items()
    )
    check_queues(what_if, before["queue"].to_pylist())
    return Comparison(
        before.sort_by("queue").combine_chunks(),
        after.sort_by("queue").combine_chunks(),
        messages.sort_by(_ORDER).combine_chunks(),
    )


def _by_folder(
    spark: SparkSession, folder: str | Path, what_if: Settings, decide: Prepare, schema: pa.Schema
) -> DataFrame:
    """Return the rows that ``decide`` makes of each queue's messages in a folder split by queue.

    Spark's workers read the folder, a task for each queue. Raises ReplayError for wrong settings,
    or a folder without queues.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    def decided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what ``decide`` makes of the queues whose folders the rows name."""
        for batch in batches:
            for path in batch["path"].to_pylist():
                yield from decide(read_queue(Path(path))).to_batches()

    folders = queue_folders(folder)
    check_settings(what_if)
    check_queues(what_if, [queue_of(path) for path in folders])
    paths = [str(path) for path in folders]
    names = spark.createDataFrame([(path,) for path in paths], "path string")
    # From one partition the names are dealt out one by one, so each task gets one queue.
    tasks = names.coalesce(1).repartition(len(paths))
    return tasks.mapInArrow(decided, from_arrow_schema(schema))


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
