"""The Arrow schemas of the bulk plane, and how ledger rows become record batches of bounded size.

Every column is one of the types that Spark reads as they are; ids are raw bytes, times epoch ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from mayfly.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES, unpack_counts
from mayfly.lifetime.life import LEDGER_COLUMNS

#: Type of ``ended`` in a balance row: lives that ended, by outcome, and the sum of those with an
#: outcome that this version does not know. The counts are nullable for two reasons: Spark writes
#: nulls into the children of a null struct, and an older version has not written all outcomes.
ENDED = pa.struct([pa.field(name, pa.int64()) for name in (*OUTCOME_CODES, OTHER_OUTCOMES)])

_ALWAYS = {"nullable": False}

#: One row of the ledger: a life (kind 0) or a balance (kind 1), as life.LEDGER_COLUMNS says, with
#: the queue manager it comes from. ``instance_id`` tells two stores of the same name apart;
#: (instance_id, position) is unique for ever.
LEDGER = pa.schema(
    [
        pa.field("manager", pa.string(), **_ALWAYS),
        pa.field("instance_id", pa.string(), **_ALWAYS),
        pa.field("position", pa.int64(), **_ALWAYS),
        pa.field("kind", pa.int8(), **_ALWAYS),
        pa.field("queue", pa.string(), **_ALWAYS),
        pa.field("msg_id", pa.binary()),
        pa.field("correl_id", pa.binary()),
        pa.field("origin_id", pa.binary()),
        pa.field("put_ms", pa.int64()),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("expire_at_ms", pa.int64()),
        pa.field("ended_ms", pa.int64(), **_ALWAYS),
        pa.field("outcome", pa.string()),
        pa.field("reason", pa.int32()),
        pa.field("priority", pa.int32()),
        pa.field("persistent", pa.int32()),
        pa.field("body_bytes", pa.int64()),
        pa.field("report", pa.int32()),
        pa.field("reply_to_q", pa.string()),
        pa.field("backout_count", pa.int32()),
        pa.field("user_identifier", pa.string()),
        pa.field("puts", pa.int64()),
        pa.field("present", pa.int64()),
        pa.field("ended", ENDED),
    ]
)
_FROM_THE_STORE = LEDGER.names[2:]
assert tuple(_FROM_THE_STORE) == LEDGER_COLUMNS, "the schema and the ledger have parted"

#: No ledger row is larger: names are at most 48 bytes, ids 24, and the rest is numbers.
LEDGER_ROW_BYTES_MAX = 640

#: One message with its lifetime, as sources give it and sinks take it. ``expire_at_ms`` null is
#: unlimited, ``persistence`` an MQPER_* value, ``report`` the MQRO_* options.
MESSAGE = pa.schema(
    [
        pa.field("manager", pa.string()),
        pa.field("queue", pa.string(), **_ALWAYS),
        pa.field("msg_id", pa.binary()),
        pa.field("correl_id", pa.binary()),
        pa.field("put_ms", pa.int64(), **_ALWAYS),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("expire_at_ms", pa.int64()),
        pa.field("priority", pa.int32()),
        pa.field("persistence", pa.int32()),
        pa.field("report", pa.int32()),
        pa.field("reply_to_q", pa.string()),
        pa.field("reply_to_q_mgr", pa.string()),
        pa.field("msg_type", pa.int32()),
        pa.field("format", pa.string()),
        pa.field("encoding", pa.int32()),
        pa.field("coded_char_set_id", pa.int32()),
        pa.field("backout_count", pa.int32()),
        pa.field("user_identifier", pa.string()),
        pa.field("payload", pa.binary(), **_ALWAYS),
    ]
)


def ledger_batch(rows: Sequence[tuple[Any, ...]], manager: str, instance_id: str) -> pa.RecordBatch:
    """Return one or more ledger rows (tuples in the order of LEDGER_COLUMNS) as a batch."""
    *plain, ended = zip(*rows, strict=True)
    arrays = [pa.repeat(manager, len(rows)), pa.repeat(instance_id, len(rows))]
    arrays += [
        pa.array(column, type=LEDGER.field(name).type)
        for name, column in zip(_FROM_THE_STORE, plain, strict=False)
    ]
    arrays.append(_ended_column(ended))
    return pa.RecordBatch.from_arrays(arrays, schema=LEDGER)


def _ended_column(ended: Sequence[str | None]) -> pa.Array:
    # Nearly every row is a life and has none.
    if not any(ended):
        return pa.nulls(len(ended), type=ENDED)
    return pa.array([text and _counts(text) for text in ended], type=ENDED)


def _counts(stored: str) -> dict[str, int]:
    counts = unpack_counts(stored)
    known = {code: counts.pop(code, 0) for code in OUTCOME_CODES}
    return {**known, OTHER_OUTCOMES: sum(counts.values())}


def pages(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of at most ``max_bytes``; a larger single row goes alone."""
    if batch.nbytes <= max_bytes or batch.num_rows <= 1:
        yield batch
        return
    slice_count = min(-(-batch.nbytes // max_bytes), batch.num_rows)
    slice_rows = -(-batch.num_rows // slice_count)
    if slice_rows == batch.num_rows:
        slice_rows = -(-batch.num_rows // 2)
    for start in range(0, batch.num_rows, slice_rows):
        yield from pages(batch.slice(start, slice_rows), max_bytes)
