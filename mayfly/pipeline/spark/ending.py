"""The ending of messages in the delay line: their outcome at a moment, and the report owed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime.columns import (
    NONE,
    Mask,
    ints,
    is_due,
    is_expired,
    nullable,
    windows_at_put,
)
from mayfly.lifetime.life import State
from mayfly.lifetime.reports import Cause, Original, build_report
from mayfly.lifetime.window import remaining_ms
from mayfly.mqi.constants import MQRO_NONE
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.reasons import MQRC_NONE
from mayfly.pipeline.spark.messages import REPORT

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
