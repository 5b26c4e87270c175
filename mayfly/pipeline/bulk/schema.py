"""The Arrow schemas of the bulk plane, and ledger rows as record batches of limited size.

Every column has a type that Spark reads directly; ids are raw bytes, times epoch ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.verbs.contracts import ledger, messages
from mayfly.verbs.contracts.bulk import Column, Kind
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES, unpack_counts

#: Type of ``ended`` in a balance row: lives that ended, by outcome, and the sum of those with an
#: outcome that this version does not know. The counts are nullable for two reasons: Spark writes
#: nulls into the children of a null struct, and an older version has not written all outcomes.
ENDED = pa.struct([pa.field(name, pa.int64()) for name in (*OUTCOME_CODES, OTHER_OUTCOMES)])

_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.INT8: pa.int8(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.FLAG: pa.bool_(),
    Kind.COUNTS: ENDED,
}


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema for columns of (name, kind, whether null is allowed)."""
    return pa.schema(
        [pa.field(name, _TYPES[kind], nullable=nullable) for name, kind, nullable in columns]
    )


#: One row of the ledger (verbs/contracts/ledger.py).
LEDGER = schema_of(ledger.COLUMNS)
_FROM_THE_STORE = LEDGER.names[2:]

#: No ledger row is larger: names are at most 64 bytes, ids 24, and the rest is numbers.
LEDGER_ROW_BYTES_MAX = 960

#: One message with its lifetime (verbs/contracts/messages.py): sources give it, sinks take it.
MESSAGE = schema_of(messages.COLUMNS)


def ledger_batch(rows: Sequence[tuple[Any, ...]], manager: str, instance_id: str) -> pa.RecordBatch:
    """Return one or more ledger rows, tuples as the store has them, as a batch of schema LEDGER.

    ``manager`` and ``instance_id`` (the store's id) become the first two columns of each row.
    """
    *plain, ended = zip(*rows, strict=True)
    arrays = [pa.repeat(manager, len(rows)), pa.repeat(instance_id, len(rows))]
    arrays += [
        pa.array(column, type=LEDGER.field(name).type)
        for name, column in zip(_FROM_THE_STORE, plain, strict=False)
    ]
    arrays.append(_ended_column(ended))
    return pa.RecordBatch.from_arrays(arrays, schema=LEDGER)


def _ended_column(ended: Sequence[str | None]) -> pa.Array:
    """Return the column ``ended``: the counts of each balance row, null for other rows."""
    # Nearly every row is a life and has none.
    if not any(ended):
        return pa.nulls(len(ended), type=ENDED)
    return pa.array([text and _counts(text) for text in ended], type=ENDED)


def _counts(stored: str) -> dict[str, int]:
    """Return the counts in a stored text by outcome; unknown outcomes are summed.

    The sum has the key OTHER_OUTCOMES.
    """
    counts = unpack_counts(stored)
    known = {code: counts.pop(code, 0) for code in OUTCOME_CODES}
    return {**known, OTHER_OUTCOMES: sum(counts.values())}


def rows_after(rows: pa.Table, position: int) -> pa.Table:
    """Return the ledger rows after a position, without a copy; ``rows`` are by position."""
    return rows.slice(pc.sum(pc.less_equal(rows["position"], position)).as_py() or 0)


def pages(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in slices of at most ``max_bytes``, without a copy.

    A row that is larger comes alone.
    """
    if batch.nbytes <= max_bytes or batch.num_rows <= 1:
        yield batch
        return
    slice_count = min(-(-batch.nbytes // max_bytes), batch.num_rows)
    slice_rows = -(-batch.num_rows // slice_count)
    if slice_rows == batch.num_rows:
        slice_rows = -(-batch.num_rows // 2)
    for start in range(0, batch.num_rows, slice_rows):
        yield from pages(batch.slice(start, slice_rows), max_bytes)
