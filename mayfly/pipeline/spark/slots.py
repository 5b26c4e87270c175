"""Slots, the state of the delay line: rows wait as Arrow blobs under (shard, slot), with a timer.

A slot is an interval of time, named by its end in epoch ms. ``pack`` turns rows into blobs,
``Slots`` holds them until their slot is over, ``unpack`` turns them into rows again. Rows that are
due already travel in slot DUE, which has no state. Blobs keep the exact types of the rows, which
pandas would not, and the shuffle moves few large rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from mayfly.lifetime.columns import NONE, Ints, ints
from mayfly.mqi.reasons import MQRC_NONE
from mayfly.pipeline.bulk.schema import pages
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.spark.ending import AT_ONCE, end_rows

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
