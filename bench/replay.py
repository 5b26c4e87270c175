"""How fast a trace is replayed: in one process, compiled and plain, and in Spark."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import Figure, at_least, seconds_of
from mayfly.pipeline.replay import kernel
from mayfly.pipeline.replay.run import replay_in_process
from mayfly.pipeline.replay.settings import WhatIf
from mayfly.pipeline.replay.trace import TRACE_SCHEMA, write_split
from mayfly.pipeline.spark.replay import replay_in_spark, replay_split_in_spark
from mayfly.pipeline.spark.session import create_session

#: A put and a get each: 4M operations.
_MESSAGES, _OPERATIONS = 2_000_000, 4_000_000
_QUEUES = 16
_ROUNDS = 5
_START_MS = 1_700_000_000_000


def figures() -> Iterator[Figure]:
    """Replay one trace every way; the compiled kernel is warm, and what warming took is told."""
    trace = _trace(is_by_id=False)
    few = trace.slice(0, 1_000)
    first_seconds = seconds_of(lambda: replay_in_process(few, with_kernel=kernel.compiled()))
    note = f"16 queues, FIFO with expiry; first call {first_seconds:.1f} s (compiled or from cache)"
    seconds = _median_of(lambda: replay_in_process(trace))
    yield at_least("replay in one process, numba", _OPERATIONS / seconds, 5e6, " ops/s", note)
    by_id = _trace(is_by_id=True)
    id_seconds = _median_of(lambda: replay_in_process(by_id))
    yield _beside("  every get by its own correlation id", id_seconds)
    what_if = WhatIf(consumers=50, service_ms=5_000)
    busy_seconds = _median_of(lambda: replay_in_process(trace, what_if))
    yield _beside("  50 consumers a queue", busy_seconds)
    plain_seconds = seconds_of(lambda: replay_in_process(trace, with_kernel=kernel.PLAIN))
    yield _beside("  plain Python", plain_seconds)
    yield from _in_spark(trace, seconds)


def _in_spark(trace: pa.Table, seconds: float) -> Iterator[Figure]:
    """Yield how Spark compares; outcomes are counted there, not brought here."""
    with tempfile.TemporaryDirectory() as name:
        file, folder = Path(name) / "trace.parquet", Path(name) / "split"
        pq.write_table(trace, file)
        write_split(trace, folder)
        spark = create_session("local[2]", "bench")
        try:
            grouped = replay_in_spark(spark.read.parquet(str(file)))
            split = replay_split_in_spark(spark, folder)
            ways = {"grouped by queue": grouped, "a file a queue": split}
            for way, frame in ways.items():
                written = frame.write.format("noop").mode("overwrite")
                written.save()
                spark_seconds = seconds_of(written.save)
                note = f"{_OPERATIONS / spark_seconds:,.0f} ops/s on two cores, warm"
                ratio = f"{seconds / spark_seconds:.2g}x"
                yield Figure(f"replay in Spark, {way}, to one process", ratio, "", True, note)
        finally:
            spark.stop()


def _beside(name: str, seconds: float) -> Figure:
    """Return a rate that stands beside the one with the aim."""
    return Figure(name, f"{_OPERATIONS / seconds:,.0f} ops/s", "", True)


def _median_of(action: Callable[[], object]) -> float:
    action()
    return statistics.median(seconds_of(action) for _ in range(_ROUNDS))


def _trace(*, is_by_id: bool) -> pa.Table:
    """Return messages in the order of their puts, queues in turn by chance; some are late."""
    chance = np.random.default_rng(2026)
    put_ms = _START_MS + np.sort(chance.integers(0, _MESSAGES * 10, _MESSAGES))
    names = pa.array([f"Q{number:02d}" for number in range(_QUEUES)])
    queue = pa.DictionaryArray.from_arrays(chance.integers(0, _QUEUES, _MESSAGES), names)
    correl_id = [b"%024d" % number for number in range(_MESSAGES)] if is_by_id else None
    columns = {
        "queue": queue.cast(pa.string()),
        "seq": np.arange(_MESSAGES),
        "put_ms": put_ms,
        "delay_ms": pa.nulls(_MESSAGES, pa.int64()),
        "life_ms": chance.integers(1_000, 60_000, _MESSAGES),
        "correl_id": pa.array(correl_id) if is_by_id else pa.repeat(b"", _MESSAGES),
        "get_ms": put_ms + chance.integers(0, 50_000, _MESSAGES),
    }
    return pa.table(columns).cast(TRACE_SCHEMA)
