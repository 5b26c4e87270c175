"""The delay line: holds rows of a Spark stream until their delivery time or their expiry.

It is for streams that are not a Mayfly queue.

    messages → window (rules of lifetime.columns) → due already ───────────────┐
                                                  └ pack → held by slot → unpack → outcome, report

A row leaves at min(deliver_at_ms, expire_at_ms), in the first micro-batch after its slot is over.

A slot is an interval of time, named by its end in epoch ms. ``pack`` turns rows into Arrow blobs
under (shard, slot), ``Slots`` holds them with a timer until their slot is over, ``unpack`` turns
them into rows again. Rows that are due already travel in slot DUE, which has no state. Blobs keep
the exact types of the rows, which pandas would not, and the shuffle moves few large rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StructType

from mayfly.lifetime.columns import (
    NONE,
    Ints,
    Mask,
    ints,
    is_due,
    is_expired,
    nullable,
    spark_window,
    windows_at_put,
)
from mayfly.lifetime.life import State
from mayfly.lifetime.reports import Cause, Original, build_report
from mayfly.lifetime.window import LATEST_DUE_MS, LONGEST_LIFE_MS, remaining_ms
from mayfly.mqi.constants import MQRO_NONE
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_MD_ERROR, MQRC_NONE
from mayfly.pipeline.bulk.schema import pages
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.spark.checkpoints import tie_checkpoint
from mayfly.pipeline.spark.messages import ASKED_COLUMNS, REPORT, as_messages

#: Columns that the delay line adds. ``ended_ms`` is null for a row that is still held.
ENDED = pa.schema(
    [
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("ended_ms", pa.int64()),
        pa.field("report_owed", pa.struct(list(REPORT))),
    ]
)
#: A column of rows that are released although they are not due, where it is true. It is removed.
AT_ONCE = "_mayfly_at_once"
_RELEASED, _EXPIRED, _REFUSED, _HELD = range(4)
_OUTCOMES = pa.array(
    [State.RELEASED.value, State.EXPIRED.value, State.DEAD_LETTERED.value, State.DELAYED.value]
)
_OWED = ENDED.field("report_owed").type
_CAUSES = {_EXPIRED: Cause.EXPIRATION, _REFUSED: Cause.EXCEPTION}


def end_rows(rows: pa.RecordBatch, now_ms: int, manager_name: str) -> pa.RecordBatch:
    """Return message rows with the columns of ENDED: the outcome of each at ``now_ms`` (epoch ms).

    A row has a ``reason``; if that is MQRC_NONE, it also has the window ``deliver_at_ms``,
    ``expire_at_ms``. A row whose deadline has come is expired, even if its delivery time has come,
    too. A row with AT_ONCE need not be due. ``manager_name`` is the queue manager that reports
    name.
    """
    ends = _ends(rows, now_ms)
    if AT_ONCE in rows.schema.names:
        rows = rows.drop_columns([AT_ONCE])
    columns = {
        "outcome": _OUTCOMES.take(pa.array(ends)),
        "ended_ms": pa.array(np.full(len(ends), now_ms), pa.int64(), mask=ends == _HELD),
        "report_owed": _reports_owed(rows, ends, now_ms, manager_name),
    }
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *columns.values()], schema=pa.schema([*rows.schema, *ENDED])
    )


def _ends(rows: pa.RecordBatch, now_ms: int) -> Any:
    """Return an array with _RELEASED, _EXPIRED, _REFUSED or _HELD for each row at ``now_ms``."""
    ends = np.full(rows.num_rows, _HELD, dtype=np.int8)
    # Each line wins over the one before it.
    ends[is_due(rows["deliver_at_ms"], now_ms)] = _RELEASED
    if AT_ONCE in rows.schema.names:
        ends[np.asarray(rows[AT_ONCE])] = _RELEASED
    ends[is_expired(rows["expire_at_ms"], now_ms)] = _EXPIRED
    ends[ints(rows["reason"]) != MQRC_NONE] = _REFUSED
    return ends


def _reports_owed(rows: pa.RecordBatch, ends: Any, now_ms: int, manager_name: str) -> pa.Array:
    """Return a column with the report message that each row owes, null for rows without one.

    ``ends`` are those of ``_ends``. ``manager_name`` is the queue manager that the reports name.
    """
    place = np.full(rows.num_rows, NONE)
    owed = []
    count = 0
    for end, cause in _CAUSES.items():
        at = np.flatnonzero((ends == end) & _asks(rows, cause))
        if at.size:
            place[at] = np.arange(count, count + at.size)
            owed.append(_reports(cause, rows.take(pa.array(at)), now_ms, manager_name))
            count += at.size
    if not owed:
        return pa.nulls(rows.num_rows, _OWED)
    return pa.concat_arrays(owed).take(nullable(place))


def _asks(rows: pa.RecordBatch, cause: Cause) -> Mask:
    """Return a mask of the rows whose report options ask for a report of this cause."""
    if "report" not in rows.schema.names:
        return np.zeros(rows.num_rows, dtype=np.bool_)
    options = np.asarray(pc.fill_null(rows["report"], MQRO_NONE), dtype=np.int64)
    mask: Mask = options & cause.value != 0
    return mask


def _reports(cause: Cause, rows: pa.RecordBatch, now_ms: int, manager_name: str) -> pa.Array:
    """Return the report messages about ``rows``, one for each row, with the columns of REPORT.

    ``cause`` is the kind of report; they are made at ``now_ms`` and name ``manager_name``.
    """
    descriptors = _descriptors(rows)
    originals = map(
        Original,
        descriptors,
        _values(rows, "msg_id", b""),
        _values(rows, "correl_id", b""),
        _values(rows, "payload", b""),
        (remaining_ms(expire_at_ms, now_ms) for expire_at_ms in rows["expire_at_ms"].to_pylist()),
    )
    made = [
        build_report(cause, original, manager_name, reason)
        for original, reason in zip(originals, rows["reason"].to_pylist(), strict=True)
    ]
    lives = pa.array([report.life_ms for report in made], pa.int64())
    window = windows_at_put(now_ms, lives)
    fields = zip(*(report.descriptor for report in made), strict=True)
    columns: dict[str, Any] = {
        **dict(zip(Descriptor._fields, fields, strict=True)),
        # R2: it goes where the original asked for it.
        "manager": [descriptor.reply_to_q_mgr for descriptor in descriptors],
        "queue": [report.reply_to_q for report in made],
        "reply_to_q": [""] * len(made),
        "msg_id": [report.msg_id for report in made],
        "correl_id": [report.correl_id for report in made],
        "put_ms": [now_ms] * len(made),
        "deliver_at_ms": nullable(window.deliver_at_ms),
        "expire_at_ms": nullable(window.expire_at_ms),
        "backout_count": [0] * len(made),
        "payload": [report.body for report in made],
    }
    return pa.StructArray.from_arrays(
        [pa.array(columns[field.name], field.type) for field in REPORT], fields=[*REPORT]
    )


def _descriptors(rows: pa.RecordBatch) -> list[Descriptor]:
    """Return the message descriptor of each row; a null or missing field has its default."""
    return list(
        map(Descriptor, *(_values(rows, *field) for field in Descriptor._field_defaults.items()))
    )


def _values(rows: pa.RecordBatch, name: str, default: int | str | bytes) -> list[Any]:
    """Return the values of column ``name``, with ``default`` for nulls or without the column."""
    if name not in rows.schema.names or name not in REPORT.names:
        return [default] * rows.num_rows
    values: list[Any] = rows[name].fill_null(default).to_pylist()
    return values


Batches: TypeAlias = Iterator[pa.RecordBatch]

#: The slot of rows that need not wait; no moment is before 1970.
DUE = 0
#: The column with the time of the micro-batch for the workers, as text: a number would become part
#: of the code that Spark generates for the stage, and be compiled again in each micro-batch.
NOW_COLUMN = "_mayfly_now_ms"

#: Rows that go to the state and come out of it.
PACKED = pa.schema(
    [
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("slot", pa.int64(), nullable=False),
        pa.field("blob", pa.binary(), nullable=False),
    ]
)
LEAVING = pa.schema(
    [
        pa.field("blob", pa.binary(), nullable=False),
        pa.field("ended_ms", pa.int64(), nullable=False),
    ]
)
#: Rows are packed together up to here, so that a slot gets few blobs from a task.
_GATHERED_BYTES = 32 * 2**20
#: Small enough for a few tens of thousands of due rows to keep all tasks busy.
_BLOB_BYTES = 2**20


def packer(slot_ms: int, shards: int, due_shards: Sequence[int]) -> Callable[[Batches], Batches]:
    """Return the function for Spark's mapInArrow that packs rows into blobs, as rows of PACKED.

    The rows have their delivery and expiry times, and the time of the micro-batch as NOW_COLUMN. A
    slot is a span of ``slot_ms`` in which rows leave together; a shard is a part of it for one
    Spark task. Due rows go to the ``due_shards`` one after the other. Rows that wait for one slot
    go to one shard. If they are many they go to more shards, at most ``shards``: each held (shard,
    slot) costs as much as hundreds of rows.
    """

    def pack(batches: Batches) -> Batches:
        """Yield the rows packed into blobs, as batches of PACKED; runs on a worker."""
        context = TaskContext.get()
        assert context is not None
        first = context.partitionId() % len(due_shards)
        due = cycle([*due_shards[first:], *due_shards[:first]])
        for rows in _gathered(batches):
            packed = []
            before, turn = DUE, 0
            for slot, blob in blobs_by_slot(rows, slot_ms):
                turn = turn + 1 if slot == before else 0
                packed.append((next(due) if slot == DUE else turn % shards, slot, blob))
                before = slot
            yield _packed(packed)

    return pack


def unpacker(expected: pa.Schema, manager_name: str) -> Callable[[Batches], Batches]:
    """Return the function for mapInArrow that turns blobs (rows of LEAVING) into ended rows.

    An ended row has its outcome. ``manager_name`` is the queue manager that reports name. The
    function raises CheckpointError for rows whose schema is not ``expected``: they are another
    query's.
    """

    def unpack(batches: Batches) -> Batches:
        """Yield the rows in the blobs with their outcomes; runs on a worker."""
        for batch in batches:
            if batch.num_rows:
                # All rows that leave in a micro-batch have its time.
                ended_ms = batch["ended_ms"][0].as_py()
                for rows in _gathered(unpacked(batch["blob"], expected)):
                    yield end_rows(rows, ended_ms, manager_name)

    return unpack


class Slots(StatefulProcessor):
    """Spark's stateful processor that holds the blobs of a (shard, slot) until the slot is over."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the list of blobs of a (shard, slot); Spark calls this first."""
        self._handle = handle
        self._blobs = handle.getListState("blobs", "blob binary")

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803  # Spark calls by these names
    ) -> Iterator[pd.DataFrame]:
        """Yield blobs of rows that are due; hold the others, with a timer at their slot's end.

        The rows are those of one ``key``: a shard and a slot.
        """
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        for packed in rows:
            # The slot is read from the rows: Spark hands the key over as different forms of tuple.
            slot = int(packed["slot"].iloc[0])
            if slot <= now_ms:
                yield _leaving(packed["blob"].tolist(), now_ms)
            else:
                self._blobs.appendList([(blob,) for blob in packed["blob"]])
                self._handle.registerTimer(slot)

    def handleExpiredTimer(  # noqa: N802  # Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803  # Spark calls by these names
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803  # Spark calls by these names
    ) -> Iterator[pd.DataFrame]:
        """Yield all blobs of a slot that is over, and remove them from the state."""
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        for (blob,) in self._blobs.get():
            yield _leaving([bytes(blob)], now_ms)
        self._blobs.clear()

    def close(self) -> None:
        """Do nothing; the class must have this method, but no resource is open."""


def _leaving(blobs: list[bytes], now_ms: int) -> pd.DataFrame:
    """Return blobs of packed rows as rows of LEAVING, which leave at ``now_ms`` (epoch ms)."""
    return pd.DataFrame({"blob": blobs, "ended_ms": np.full(len(blobs), now_ms)})


def _gathered(batches: Batches) -> Batches:
    """Yield the rows of a task in few batches of about _GATHERED_BYTES each."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= _GATHERED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def blobs_by_slot(rows: pa.RecordBatch, slot_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield (slot, blob) pairs in order of slot; nothing for no rows.

    A slot with many bytes has several blobs. Rows of a slot keep their order.
    """
    if not rows.num_rows:
        return
    slots = _slots(rows, batch_ms(rows), slot_ms)
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    sorted_rows = rows.drop_columns([NOW_COLUMN]).take(pa.array(order))
    starts = np.flatnonzero(np.diff(slots, prepend=NONE))
    for start, end in zip(starts, [*starts[1:], len(slots)], strict=True):
        for page in pages(sorted_rows.slice(start, end - start), _BLOB_BYTES):
            yield int(slots[start]), _blob(page)


def batch_ms(rows: pa.RecordBatch) -> int:
    """Return the time of the micro-batch in epoch ms, as its rows have it in NOW_COLUMN.

    Needs at least one row.
    """
    return int(rows[NOW_COLUMN][0].as_py())


def _slots(rows: pa.RecordBatch, now_ms: int, slot_ms: int) -> Ints:
    """Return each row's slot: the first multiple of ``slot_ms`` not before it leaves; else DUE.

    A row leaves at the earlier of delivery time and deadline. DUE is for refused rows, for rows
    whose time has come at ``now_ms``, and for those with AT_ONCE.
    """
    deliver_at, expire_at = ints(rows["deliver_at_ms"]), ints(rows["expire_at_ms"])
    due = np.where(expire_at == NONE, deliver_at, np.minimum(deliver_at, expire_at))
    waits = (ints(rows["reason"]) == MQRC_NONE) & (due > now_ms)
    if AT_ONCE in rows.schema.names:
        waits &= ~np.asarray(rows[AT_ONCE])
    slots: Ints = np.where(waits, -(-due // slot_ms) * slot_ms, DUE)
    return slots


def _blob(rows: pa.RecordBatch) -> bytes:
    """Return rows serialized as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def _packed(packed: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    """Return (shard, slot, blob) tuples as a record batch of PACKED."""
    rows = [dict(zip(PACKED.names, row, strict=True)) for row in packed]
    return pa.RecordBatch.from_pylist(rows, schema=PACKED)


def unpacked(blobs: pa.Array, expected: pa.Schema) -> Batches:
    """Yield the record batches in the blobs; raises CheckpointError for another schema."""
    for blob in blobs:
        with pa.ipc.open_stream(blob.as_buffer()) as reader:
            _check_schema(reader.schema, expected)
            yield from reader


def _check_schema(found: pa.Schema, expected: pa.Schema) -> None:
    """Raise CheckpointError, which names the first differing column, if two schemas differ."""
    if found.names == expected.names and found.types == expected.types:
        return
    for name in [*expected.names, *found.names]:
        pair = [
            str(schema.field(name).type) if name in schema.names else "missing"
            for schema in (found, expected)
        ]
        if pair[0] != pair[1]:
            raise CheckpointError(
                f"the checkpoint holds messages whose column {name} is {pair[0]}, in this query it "
                f"is {pair[1]}: use the query it was made with, or a new checkpoint"
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
