"""The Flight verbs about writing: rows onto a stage, and a commit that puts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa

from mayfly.engine.face.bulk import TRANSACTION_ROWS, StagedRows, StageMissing
from mayfly.servers.flight_calls import (
    CallRefused,
    Request,
    RowT,
    ServedManager,
    request_of,
    with_queues,
)
from mayfly.store.stages import StagePlace
from mayfly.verbs.contracts.reasons import BAD_REQUEST, STAGE_LOST
from mayfly.verbs.contracts.stages import (
    DECIDED,
    PAYLOAD,
    CommitAnswer,
    CommitRequest,
    StageAnswer,
    StageRequest,
    SurrenderedRequest,
    SurrenderedRows,
)

#: A blob holds the rows of one transaction at most: each is put whole.
_BLOB_BYTES = 2 * 1024 * 1024
_MAY_BE_EMPTY = ("dead_letter_queue",)


def stage(
    manager: ServedManager,
    request: Request,
    batches: Iterator[pa.RecordBatch],
    stopping: threading.Event,
) -> dict[str, int]:
    """Keep the rows of one attempt until a commit names it; an empty batch says that they are all.

    An upload may end without it: its task has died.
    """
    asked = _checked(request_of(StageRequest, request))
    try:
        writer = with_queues(manager).stages.begin(StagePlace(*asked))
    except ValueError as error:
        raise CallRefused(BAD_REQUEST, str(error)) from error
    if writer is None:
        for _ in batches:
            pass
        return StageAnswer(DECIDED)._asdict()
    is_whole = False
    try:
        for received in batches:
            if stopping.is_set():
                raise CallRefused(STAGE_LOST, "the server is being stopped")
            for page in _pages(received):
                writer.append(_blob(page), page.num_rows)
            is_whole = not received.num_rows
        if not is_whole:
            raise CallRefused(STAGE_LOST, "the upload broke off")
    except BaseException:
        writer.discard()
        raise
    return StageAnswer(writer.finish())._asdict()


def commit(manager: ServedManager, request: Request) -> dict[str, Any]:
    """Put some of the rows of a batch; ``is_done`` false asks to be called again."""
    asked = _checked(request_of(CommitRequest, request))
    stages = [_stage_of(name) for name in asked.stages]
    try:
        state = with_queues(manager).stages.commit(
            asked.query,
            asked.batch,
            stages,
            decode,
            dead_letter_queue=asked.dead_letter_queue,
            surrenders=asked.surrenders,
        )
    except StageMissing as error:
        raise CallRefused(STAGE_LOST, str(error)) from error
    counts = state.put_count, state.expired_count, state.refused_count
    return CommitAnswer(state.batch, state.is_done, *counts)._asdict()


def surrendered(manager: ServedManager, request: Request) -> dict[str, Any]:
    """Return the rows of a batch that nobody has taken."""
    asked = _checked(request_of(SurrenderedRequest, request))
    rows = with_queues(manager).stages.surrendered(asked.query, asked.batch)
    return SurrenderedRows([(*row,) for row in rows])._asdict()


def decode(blob: bytes) -> StagedRows:
    """Return the rows of a blob, its data as it is and the other columns as values."""
    with pa.ipc.open_stream(blob) as reader:
        batch = reader.read_next_batch()
    payload = batch.column(PAYLOAD)
    _, offsets, data = payload.buffers()
    first, count = payload.offset, batch.num_rows
    edges = memoryview(offsets).cast("i")[first : first + count + 1].tolist()
    missing = payload.is_null().to_pylist() if payload.null_count else ()
    return StagedRows(
        count,
        {name: batch.column(name).to_pylist() for name in batch.schema.names if name != PAYLOAD},
        b"" if data is None else data.to_pybytes(),
        edges,
        frozenset(row for row, is_missing in enumerate(missing) if is_missing),
    )


def _pages(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices that each fit into a transaction; a larger single row goes alone."""
    row_bytes = max(batch.nbytes // max(batch.num_rows, 1), 1)
    rows = min(TRANSACTION_ROWS, max(_BLOB_BYTES // row_bytes, 1))
    edges = [*range(0, batch.num_rows, rows), batch.num_rows]
    for start, end in pairwise(edges):
        yield batch.slice(start, end - start)


def _blob(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes, without the columns that say nothing."""
    said = [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name == PAYLOAD or column.null_count < batch.num_rows
    ]
    batch = batch.select(said)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def _stage_of(name: Any) -> tuple[int, str]:
    match name:
        case [int(partition), str(attempt)]:
            return partition, attempt
    raise CallRefused(BAD_REQUEST, f"a stage is [partition, attempt], not {name!r}")


def _checked(asked: RowT) -> RowT:
    """Return a request in which no number is negative, and no text empty by mistake."""
    for name, value in asked._asdict().items():
        is_empty = value == "" and name not in _MAY_BE_EMPTY
        if is_empty or (isinstance(value, int) and value < 0):
            raise CallRefused(BAD_REQUEST, f"{name} cannot be {value!r}")
    return asked
