"""The delay line: holds rows of a Spark stream until their delivery time or their expiry.

It is for streams that are not a Mayfly queue.

    messages → window (rules of lifetime.columns) → due already ───────────────┐
                                                  └ pack → held by slot → unpack → outcome, report

A row leaves at min(deliver_at_ms, expire_at_ms), in the first micro-batch after its slot is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from mayfly.lifetime.columns import spark_window
from mayfly.lifetime.window import LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_MD_ERROR, MQRC_NONE
from mayfly.pipeline.errors import OptionError
from mayfly.pipeline.spark.checkpoints import tie_checkpoint
from mayfly.pipeline.spark.ending import AT_ONCE, ENDED, end_rows
from mayfly.pipeline.spark.messages import ASKED_COLUMNS, as_messages
from mayfly.pipeline.spark.slots import (
    DUE,
    LEAVING,
    NOW_COLUMN,
    PACKED,
    Batches,
    Slots,
    batch_ms,
    packer,
    unpacker,
)

TtlRule = Literal["send", "release"]
#: Adds the column AT_ONCE to messages with their window.
AtOnce: TypeAlias = Callable[[DataFrame], DataFrame]

#: Settings of a delay line's session: state on disk, of which a batch writes only the changes, in
#: files that a restart tells apart from those of a killed run.
SESSION_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
ADDED_COLUMNS = ("reason", *ENDED.names)
#: Between the steps of the window: put time, life, delay, cap, and a deadline given as a moment.
_BEGUN = tuple(f"_mayfly_{name}" for name in ("put", "life", "delay", "cap", "deadline"))
#: A life that may not be asked for (E2); a deadline that was over at the put is 0 away.
_NO_LIFE = -1
_ASYNC_PROGRESS = "asyncProgressTrackingEnabled"
_CHECKPOINT = "checkpointLocation"
_SLOT_MS_MAX = 3_600_000
_SHARDS_MAX = 1_000
_MANAGER_NAME_LENGTH = 48


def prepare_session(spark: SparkSession) -> SparkSession:
    """Set SESSION_SETTINGS in a Spark session, for queries that start later; return the session."""
    for name, value in SESSION_SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def check_session(spark: SparkSession) -> None:
    """Raise OptionError, which names the setting, unless the session has all SESSION_SETTINGS."""
    for name, value in SESSION_SETTINGS.items():
        found = spark.conf.get(name, None)
        if found is None or found.lower() != value.lower():
            raise OptionError(
                f"setting {name} is {found!r}; a delay line needs {value!r}: call "
                "mayfly.pipeline.spark.delay_line.prepare_session(spark)"
            )


def lifetime(
    messages: DataFrame,
    *,
    cap_ms: int | None = None,
    ttl_rule: TtlRule = "send",
    slot_ms: int = 250,
    shards: int | None = None,
    manager_name: str = "MAYFLY",
    as_of_ms: int | None = None,
    at_once: AtOnce | None = None,
) -> DataFrame:
    """Return messages with their outcome: adds columns outcome, reason, ended_ms, report_owed.

    A row is a message of ``spark.messages`` (queue, put_ms and payload at least). It may have the
    intervals ``life_ms`` and ``delay_ms``, else the moments ``expire_at_ms`` and ``deliver_at_ms``;
    ``cap_ms``, as a column or for all rows, limits the lifetime. Outcomes:

    * ``dead_lettered``: refused, at once, with a reason code and without a window
    * ``released``: at or after deliver_at_ms and before expire_at_ms
    * ``expired``: at or after expire_at_ms, never handed out
    * ``delayed``: none of these yet; only if ``messages`` is no stream

    A stream holds rows until they are due; write it with `write_stream`. A DataFrame that is no
    stream gets the outcomes as of ``as_of_ms``, by default now. With ``ttl_rule`` "release" life_ms
    begins at the delivery time. ``slot_ms`` is the most by which a row may become ready later than
    due. ``shards`` is the number of tasks over which one slot may spread (default:
    spark.sql.shuffle.partitions). Both may change from run to run. ``manager_name`` is the queue
    manager that the reports name. ``at_once`` adds to messages, with their window, the column
    AT_ONCE; rows in which it is true are released at once, also before deliver_at_ms: their
    receiver delays them. Raises OptionError for a wrong argument, column or session setting.
    """
    spark = messages.sparkSession
    streams = messages.isStreaming
    if shards is None:
        shards = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    _check_options(cap_ms=cap_ms, ttl_rule=ttl_rule, slot_ms=slot_ms, shards=shards)
    _check_whole("as_of_ms", as_of_ms, 0, LATEST_DUE_MS)
    if not 0 < len(manager_name) <= _MANAGER_NAME_LENGTH:
        raise OptionError(f"manager_name {manager_name!r} is not a name of 1 to 48 characters")
    if streams and as_of_ms is not None:
        raise OptionError("as_of_ms is for what is no stream: a stream lives in its own time")
    if streams:
        check_session(spark)
    rows = _windowed(as_messages(messages, ADDED_COLUMNS), cap_ms, ttl_rule)
    now = f.unix_millis(f.current_timestamp()) if as_of_ms is None else f.lit(as_of_ms)
    timed = (rows if at_once is None else at_once(rows)).withColumn(NOW_COLUMN, now.cast("string"))
    if streams:
        return _held(timed, rows.schema, slot_ms, shards, manager_name)
    return timed.mapInArrow(_ending(manager_name), _ended_type(rows.schema))


def released_at_once(
    messages: DataFrame,
    *,
    ttl_rule: TtlRule = "send",
    manager_name: str = "MAYFLY",
) -> DataFrame:
    """Return messages with their outcome, as `lifetime` does if all rows are released at once.

    Nothing waits and nothing is kept, so a stream needs no state: the receivers of the rows delay
    them until deliver_at_ms. The parameters are those of `lifetime`; so is the OptionError.
    """
    _check_options(cap_ms=None, ttl_rule=ttl_rule, slot_ms=1, shards=1)
    rows = _windowed(as_messages(messages, ADDED_COLUMNS), None, ttl_rule)
    now = f.unix_millis(f.current_timestamp()).cast("string")
    timed = rows.withColumns({AT_ONCE: f.lit(True), NOW_COLUMN: now})
    return timed.mapInArrow(_ending(manager_name), _ended_type(rows.schema))


def write_stream(
    rows: DataFrame, checkpoint: str | Path, *, options: Mapping[str, str] | None = None
) -> DataStreamWriter:
    """Return the writer of a stream that `lifetime` made, tied to ``checkpoint``.

    Nothing runs yet: the caller adds sink and trigger, and calls start(). ``options`` are further
    options of the writer. A batch that Spark repeats after a crash is the same batch with the same
    id. If the repeat replaces the batch in the sink, every row is there once. Raises OptionError
    for rows of another kind, for ``checkpointLocation`` in ``options``, and for asynchronous
    progress tracking, under which a repeated batch may differ. Raises CheckpointError for a
    checkpoint of another query, or one with other columns.
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    if given.get(_ASYNC_PROGRESS.lower(), "false").lower() != "false":
        raise OptionError(
            f"option {_ASYNC_PROGRESS} must be off: a batch could be repeated as another one"
        )
    if _CHECKPOINT.lower() in given:
        raise OptionError(f"option {_CHECKPOINT} is the argument checkpoint here")
    if not rows.isStreaming or not set(ADDED_COLUMNS) <= set(rows.columns):
        raise OptionError(f"rows are no stream of lifetime(): {', '.join(rows.columns)}")
    check_session(rows.sparkSession)
    place = tie_checkpoint(rows.sparkSession, str(checkpoint), _held_columns(rows.schema))
    return rows.writeStream.options(**(options or {})).option(_CHECKPOINT, place)


def _check_options(*, cap_ms: int | None, ttl_rule: str, slot_ms: int, shards: int) -> None:
    """Raise OptionError for an option of ``lifetime`` that is out of range."""
    _check_whole("cap_ms", cap_ms, 1, LONGEST_LIFE_MS)
    _check_whole("slot_ms", slot_ms, 1, _SLOT_MS_MAX)
    _check_whole("shards", shards, 1, _SHARDS_MAX)
    if ttl_rule not in get_args(TtlRule):
        raise OptionError(f"ttl_rule {ttl_rule!r} is neither 'send' nor 'release'")


def _check_whole(name: str, value: int | None, least: int, most: int) -> None:
    """Raise OptionError unless the value is None or an int from ``least`` to ``most``."""
    if value is not None and not (type(value) is int and least <= value <= most):
        raise OptionError(f"{name} {value!r} is not a whole number from {least} to {most}")


def _windowed(messages: DataFrame, cap_ms: int | None, ttl_rule: TtlRule) -> DataFrame:
    """Return messages with reason, deliver_at_ms and expire_at_ms, without the interval columns.

    ``cap_ms`` and ``ttl_rule`` are those of ``lifetime``. A refused message has a reason other than
    MQRC_NONE, and null for both moments.
    """
    begun = messages.withColumns(_begun(messages, cap_ms, ttl_rule))
    put, life, delay, cap, deadline = (f.col(name) for name in _BEGUN)
    window = spark_window(f, put, life, delay, cap, from_release=ttl_rule == "release")
    reason = (
        f.when(put.isNull(), MQRC_MD_ERROR)
        .when(life < 0, MQRC_EXPIRY_ERROR)
        .otherwise(window.reason)
        .cast("int")
    )
    accepted = f.col("reason") == MQRC_NONE
    return (
        begun.withColumn("reason", reason)
        .withColumns(
            {
                "deliver_at_ms": f.when(accepted, window.deliver_at_ms),
                "expire_at_ms": f.when(accepted, f.least(window.expire_at_ms, deadline)),
            }
        )
        .drop(*_BEGUN, *ASKED_COLUMNS)
    )


def _begun(messages: DataFrame, cap_ms: int | None, ttl_rule: TtlRule) -> dict[str, Column]:
    """Return columns with put time, lifetime, delay, cap and deadline, by the names in _BEGUN.

    From them each row's delivery and expiry are computed. The cap limits the lifetime. Values are
    limited so that no bigint overflows. ``cap_ms`` and ``ttl_rule`` are those of ``lifetime``.
    """
    column = _columns_of(messages)
    put = f.when(column("put_ms").between(0, LATEST_DUE_MS), column("put_ms"))
    life, expire_at = column("life_ms"), f.greatest(column("expire_at_ms"), put)
    life = f.when(~life.between(1, LONGEST_LIFE_MS), _NO_LIFE).otherwise(life)
    deadline = f.when(life.isNull() & column("expire_at_ms").isNotNull(), expire_at)
    if ttl_rule == "send":
        # D7 holds for a deadline as for a life; by the other rule neither limits the delay.
        life = f.coalesce(life, deadline - put)
    delay = f.coalesce(column("delay_ms"), f.greatest(column("deliver_at_ms"), put) - put)
    # Below 0 is MQCEX_NOLIMIT.
    cap = f.when(column("cap_ms") >= 0, f.least(column("cap_ms"), f.lit(LATEST_DUE_MS)))
    values = (put, life, delay, f.least(cap, f.lit(cap_ms).cast("bigint")), deadline)
    return dict(zip(_BEGUN, values, strict=True))


def _columns_of(messages: DataFrame) -> Any:
    """Return a function that returns the column of a name, or nulls if the rows have none."""

    def column(name: str) -> Column:
        """Return the column ``name``, or a column of nulls if the rows do not have it."""
        return f.col(name) if name in messages.columns else f.lit(None).cast("bigint")

    return column


def _held(
    timed: DataFrame, row_type: StructType, slot_ms: int, shards: int, manager_name: str
) -> DataFrame:
    """Return the stream of rows that leave the delay line's state when due, with their outcome.

    ``timed`` are the rows with the time of the batch, and perhaps AT_ONCE; ``row_type`` is their
    schema without these.
    ``slot_ms``, ``shards`` and ``manager_name`` are those of ``lifetime``.
    """
    expected = to_arrow_schema(
        timed.drop(NOW_COLUMN).schema,
        timezone=timed.sparkSession.conf.get("spark.sql.session.timeZone"),
    )
    pack = packer(slot_ms, shards, due_shards(timed.sparkSession))
    return (
        timed.mapInArrow(pack, from_arrow_schema(PACKED))
        .groupBy("shard", "slot")
        .transformWithStateInPandas(
            Slots(), from_arrow_schema(LEAVING), outputMode="Append", timeMode="ProcessingTime"
        )
        .mapInArrow(unpacker(expected, manager_name), _ended_type(row_type))
    )


def due_shards(spark: SparkSession) -> list[int]:
    """Return a shard number for each Spark task, such that the tasks share rows that are due.

    Spark hashes (shard, slot) to a task, and rows that are due have the slot DUE. With these shards
    each task gets some. Shards in sequence, such as 0 and 1, may hash to the same task.
    """
    tasks = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    shard, slot = f.col("id").cast("int"), f.lit(DUE).cast("bigint")
    # With 16 shards a task it is unlikely that a task gets none; such a task would only idle.
    found = spark.range(16 * tasks).select("id", f.pmod(f.hash(shard, slot), f.lit(tasks)))
    # Sorted downwards, so that the lowest shard of each task stays.
    by_task = {int(task): int(shard) for shard, task in sorted(found.collect(), reverse=True)}
    return sorted(by_task.values())


def _ending(manager_name: str) -> Any:
    """Return the function for Spark's mapInArrow that adds outcomes to rows that are no stream."""

    def end(batches: Batches) -> Batches:
        """Yield the rows with their outcomes, as of the time in NOW_COLUMN."""
        for batch in batches:
            if batch.num_rows:
                yield end_rows(batch.drop_columns([NOW_COLUMN]), batch_ms(batch), manager_name)

    return end


def _ended_type(row_type: StructType) -> StructType:
    """Return the schema of rows with the outcome columns of ENDED added."""
    return StructType([*row_type.fields, *from_arrow_schema(ENDED).fields])


def _held_columns(ended_type: StructType) -> dict[str, str]:
    """Return the columns that the streaming state keeps, from name to Spark SQL type.

    ``ended_type`` is the schema of the rows with outcomes.
    """
    return {
        field.name: field.dataType.simpleString()
        for field in ended_type
        if field.name not in ENDED.names
    }
