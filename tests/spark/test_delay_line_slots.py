"""What waits in the delay line's state: for how long, in which form, and what comes out of it."""

from __future__ import annotations

import inspect
import pickle

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    TimerValues,
)
from pyspark.sql.streaming.tws_tester import TwsTester

from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.spark.delay_line import (
    DUE,
    NOW_COLUMN,
    Slots,
    blobs_by_slot,
    packer,
    unpacked,
    unpacker,
)

NOW_MS = 1_700_000_000_000
SLOT_MS = 250
Window = tuple[int | None, int | None, int]
_far = st.sampled_from([-1, 0, 1, 249, 250, 251, 500, 86_400_000])
_moments = _far.map(lambda ms: NOW_MS + ms)
_windows = st.tuples(_moments, st.none() | _moments, st.just(0)) | st.just(
    (None, None, MQRC_EXPIRY_ERROR)
)


def batch(windows: list[Window]) -> pa.RecordBatch:
    """Rows with a window and a reason, numbered in their payload."""
    deliver_at, expire_at, reason = zip(*windows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "payload": pa.array([str(n).encode() for n in range(len(windows))]),
            "deliver_at_ms": pa.array(deliver_at, pa.int64()),
            "expire_at_ms": pa.array(expire_at, pa.int64()),
            "reason": pa.array(reason, pa.int32()),
            NOW_COLUMN: pa.array([str(NOW_MS)] * len(windows)),
        }
    )


def due_ms(window: Window) -> int:
    """When a row's wait is over; 0 for one that is refused."""
    deliver_at_ms, expire_at_ms, reason = window
    if reason:
        return 0
    assert deliver_at_ms is not None
    return deliver_at_ms if expire_at_ms is None else min(deliver_at_ms, expire_at_ms)


@given(st.lists(_windows, min_size=1, max_size=40), st.sampled_from([1, 7, 250, 1_000]))
def test_D1_a_row_waits_for_the_first_slot_that_ends_at_or_after_it_is_due(
    windows: list[Window], slot_ms: int
) -> None:
    """Never before, less than a slot after; what is due or refused does not wait; none is lost."""
    rows = batch(windows)
    schema = rows.drop_columns([NOW_COLUMN]).schema
    seen = []
    for slot, blob in blobs_by_slot(rows, slot_ms):
        for held in unpacked(pa.array([blob]), schema):
            for payload in held["payload"].to_pylist():
                seen.append(int(payload))
                due = due_ms(windows[seen[-1]])
                assert (slot == DUE) == (due <= NOW_MS)
                assert slot == DUE or (slot % slot_ms == 0 and due <= slot < due + slot_ms)
    assert sorted(seen) == list(range(len(windows)))


def test_a_slot_of_many_bytes_is_cut_into_blobs_of_a_megabyte() -> None:
    rows = batch([(NOW_MS + 5, None, 0)] * 10)
    large = rows.set_column(0, "payload", pa.array([b"x" * 2**18] * 10))
    sizes = [(slot, len(blob)) for slot, blob in blobs_by_slot(large, SLOT_MS)]
    assert {slot for slot, _ in sizes} == {-(-(NOW_MS + 5) // SLOT_MS) * SLOT_MS}
    assert len(sizes) >= 3
    assert all(size < 2**20 + 4_096 for _, size in sizes)


def test_blobs_keep_types_and_values_that_pandas_would_not() -> None:
    """A null beside a 64-bit number would make it a float; microseconds and lists would change."""
    rows = batch([(NOW_MS + 1, None, 0), (NOW_MS + 2, NOW_MS + 9, 0)])
    strange = rows.append_column("n", pa.array([2**63 - 1, None])).append_column(
        "at", pa.array([[1, None], None], pa.list_(pa.timestamp("us", "UTC")))
    )
    schema = strange.drop_columns([NOW_COLUMN]).schema
    [(_, blob)] = blobs_by_slot(strange, SLOT_MS)
    [back] = unpacked(pa.array([blob]), schema)
    assert back.equals(strange.drop_columns([NOW_COLUMN]))


def test_held_rows_of_another_schema_are_refused_by_column_and_type() -> None:
    rows = batch([(NOW_MS + 1, None, 0)])
    [(_, blob)] = blobs_by_slot(rows, SLOT_MS)
    held = rows.drop_columns([NOW_COLUMN]).schema
    drifted = held.set(0, pa.field("payload", pa.string()))
    with pytest.raises(CheckpointError, match="column payload is binary, in this query it is str"):
        list(unpacked(pa.array([blob]), drifted))
    with pytest.raises(CheckpointError, match="column tenant is missing, in this query it is int8"):
        list(unpacked(pa.array([blob]), held.append(pa.field("tenant", pa.int8()))))


# The processor


def packed(slot: int, *blobs: bytes) -> pd.DataFrame:
    return pd.DataFrame({"shard": 0, "slot": slot, "blob": list(blobs)})


def left(rows: pd.DataFrame) -> list[tuple[bytes, int]]:
    return [tuple(row) for row in rows.itertuples(index=False)]


def under_test() -> TwsTester:
    made = TwsTester(Slots(), timeMode="ProcessingTime")
    made.setProcessingTime(NOW_MS)
    return made


def test_D1_a_slot_is_held_to_its_end_and_leaves_at_that_millisecond() -> None:
    """T-1: nothing; T: everything of the slot, once, and nothing of the next one; T+1: no more."""
    slot_ms = NOW_MS + 1_000
    at = under_test()
    assert left(at.testInPandas((0, slot_ms), packed(slot_ms, b"a", b"b"))) == []
    assert left(at.testInPandas((0, slot_ms), packed(slot_ms, b"c"))) == []
    assert left(at.testInPandas((1, slot_ms), packed(slot_ms, b"d"))) == []
    assert left(at.testInPandas((0, slot_ms + 250), packed(slot_ms + 250, b"e"))) == []
    assert at.peekListState("blobs", (0, slot_ms)) == [(b"a",), (b"b",), (b"c",)]
    assert left(at.setProcessingTime(slot_ms - 1)) == []
    assert sorted(left(at.setProcessingTime(slot_ms))) == [
        (blob, slot_ms) for blob in (b"a", b"b", b"c", b"d")
    ]
    assert at.peekListState("blobs", (0, slot_ms)) == []
    assert left(at.setProcessingTime(slot_ms + 1)) == []
    assert left(at.setProcessingTime(slot_ms + 250)) == [(b"e", slot_ms + 250)]


@pytest.mark.parametrize("slot_ms", [DUE, NOW_MS - 1, NOW_MS])
def test_what_is_due_leaves_at_once_and_is_never_in_the_state(slot_ms: int) -> None:
    at = under_test()
    assert left(at.testInPandas((0, slot_ms), packed(slot_ms, b"a"))) == [(b"a", NOW_MS)]
    assert at.peekListState("blobs", (0, slot_ms)) == []
    assert left(at.setProcessingTime(NOW_MS + 86_400_000)) == []


def test_spark_calls_the_timer_by_keyword() -> None:
    """The tester calls by position: wrong parameter names would only show in a real stream."""
    names = list(inspect.signature(StatefulProcessor.handleExpiredTimer).parameters)
    assert list(inspect.signature(Slots.handleExpiredTimer).parameters) == names
    at = under_test()
    slot_ms = NOW_MS + 1
    at.testInPandas((0, slot_ms), packed(slot_ms, b"a"))
    at.handle.setGroupingKey((0, slot_ms))
    [rows] = at.processor.handleExpiredTimer(
        key=(0, slot_ms),
        timerValues=TimerValues(slot_ms + 5, -1),
        expiredTimerInfo=ExpiredTimerInfo(slot_ms),
    )
    assert left(rows) == [(b"a", slot_ms + 5)]


def test_everything_a_worker_is_sent_can_be_pickled() -> None:
    from pyspark import cloudpickle

    for part in (Slots(), packer(SLOT_MS, 2, [0]), unpacker(pa.schema([]), "M")):
        sent = cloudpickle.dumps(part)  # type: ignore[no-untyped-call]  # ships no types
        assert pickle.loads(sent) is not None
