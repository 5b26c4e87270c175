"""Makes dead letters of refused rows: an MQDLH with the reason, then the row.

A row that is a message keeps its data and ids. Any other row becomes JSON with the reason and the
row as it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.mqi.constants import MQAT_UNIX, MQENC_NATIVE
from mayfly.mqi.descriptor import Descriptor
from mayfly.pipeline.bulk.stages import STAGED

#: Every queue manager has it.
DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
_TEXT_FORMAT = "MQSTR"
_UTF8 = 1208
#: Columns of the refused message that its dead letter keeps; a row that is no message keeps none.
_KEPT = ("msg_id", "correl_id", "priority", "persistence", "user_identifier")
_DESCRIBED = ("format", "encoding", "coded_char_set_id")
_LETTER = pa.schema([STAGED.field(name) for name in ("queue", *_DESCRIBED, "payload", *_KEPT)])
_Batches: TypeAlias = Iterator[pa.RecordBatch]


def dead_letters(rows: DataFrame, queue: str | None, application: str) -> DataFrame:
    """Return refused rows as messages for dead-letter queue ``queue``, each with an MQDLH in front.

    ``rows`` has message columns and ``config.ADDED_COLUMNS``. The result has columns that a sink
    puts: ``queue``, ``payload``, and what a message keeps of its descriptor. ``queue`` None means
    SYSTEM.DEAD.LETTER.QUEUE. ``application`` becomes PutApplName of the MQDLH.
    """
    is_message = f.col("refused_row").isNull()
    reasoned = f.to_json(f.struct("refusal", f.col("refused_row").alias("row"))).cast("binary")
    columns = [f.when(is_message, f.col(name)).alias(name) for name in (*_KEPT, *_DESCRIBED)]
    given = rows.select(
        "queue",
        *columns,
        f.when(is_message, f.col("payload")).otherwise(reasoned).alias("payload"),
        is_message.alias("is_message"),
        "reason",
        "ended_ms",
    )
    name = DEAD_LETTER_QUEUE if queue is None else queue
    return given.mapInArrow(_writer(name, application), from_arrow_schema(_LETTER))


def _writer(queue: str, application: str) -> Callable[[_Batches], _Batches]:
    """Return the function for Spark's mapInArrow that turns refused rows into dead letters.

    ``queue`` is the dead-letter queue, ``application`` becomes PutApplName of each MQDLH.
    """

    def write(batches: _Batches) -> _Batches:
        """Yield a batch of dead letters for each batch of refused rows."""
        for batch in batches:
            letters = [_letter(row, queue, application) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(letters, schema=_LETTER)

    return write


def _letter(row: dict[str, Any], queue: str, application: str) -> dict[str, Any]:
    """Return the columns of one dead letter; its payload is the MQDLH, then the row's data."""
    refused = row["queue"] or ""
    dead, header = behind_header(
        _described(row),
        Refusal(row["reason"], refused, "", MQAT_UNIX, application, row["ended_ms"]),
    )
    return {
        **{name: row[name] for name in _KEPT},
        "queue": queue,
        "format": dead.format,
        "encoding": dead.encoding,
        "coded_char_set_id": dead.coded_char_set_id,
        "payload": header + row["payload"],
    }


def _described(row: dict[str, Any]) -> Descriptor:
    """Return format, encoding and CCSID of a dead letter's data, as a message descriptor.

    A row that is no message has JSON as data: MQSTR in UTF-8. Null fields become "" and 0.
    """
    if not row["is_message"]:
        return Descriptor(format=_TEXT_FORMAT, encoding=MQENC_NATIVE, coded_char_set_id=_UTF8)
    return Descriptor(
        format=row["format"] or "",
        encoding=row["encoding"] or 0,
        coded_char_set_id=row["coded_char_set_id"] or 0,
    )
