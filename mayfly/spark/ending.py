"""How messages leave the delay line: the outcome of each at a moment, and the report it owes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime.columns import Mask, ints, is_due, is_expired
from mayfly.lifetime.life import State
from mayfly.lifetime.reports import Cause, Original, build_report, is_owed
from mayfly.lifetime.window import remaining_ms, window_at_put
from mayfly.mqi.constants import MQRO_NONE
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.reasons import MQRC_NONE
from mayfly.spark.messages import REPORT

#: What the delay line adds to a row. ``ended_ms`` is null for a row that is still held.
ENDED = pa.schema(
    [
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("ended_ms", pa.int64()),
        pa.field("report_owed", pa.struct(list(REPORT))),
    ]
)
_RELEASED, _EXPIRED, _REFUSED, _HELD = range(4)
_OUTCOMES = pa.array(
    [State.RELEASED.value, State.EXPIRED.value, State.DEAD_LETTERED.value, State.DELAYED.value]
)
_DESCRIPTOR_FIELDS = frozenset(Descriptor._fields)
_DESCRIBED = tuple(name for name in REPORT.names if name in _DESCRIPTOR_FIELDS)
_CAUSES = {_EXPIRED: Cause.EXPIRATION, _REFUSED: Cause.EXCEPTION}


def end_rows(rows: pa.RecordBatch, now_ms: int, manager_name: str) -> pa.RecordBatch:
    """Return message rows with ENDED's columns: what became of each at ``now_ms``.

    A row has ``reason``, and without one also the window ``deliver_at_ms``, ``expire_at_ms``. One
    whose deadline has come is expired, even where its delivery time has come as well (E4).
    """
    ends = _ends(rows, now_ms)
    columns = {
        "outcome": _OUTCOMES.take(pa.array(ends)),
        "ended_ms": pa.array(np.full(len(ends), now_ms), pa.int64(), mask=ends == _HELD),
        "report_owed": _reports_owed(rows, ends, now_ms, manager_name),
    }
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *columns.values()], schema=pa.schema([*rows.schema, *ENDED])
    )


def _ends(rows: pa.RecordBatch, now_ms: int) -> Any:
    ends = np.full(rows.num_rows, _HELD, dtype=np.int8)
    # Each line wins over the one before it.
    ends[is_due(rows["deliver_at_ms"], now_ms)] = _RELEASED
    ends[is_expired(rows["expire_at_ms"], now_ms)] = _EXPIRED
    ends[ints(rows["reason"]) != MQRC_NONE] = _REFUSED
    return ends


def _reports_owed(rows: pa.RecordBatch, ends: Any, now_ms: int, manager_name: str) -> pa.Array:
    """Return the report of each row that owes one, null for the others."""
    owed: list[dict[str, Any] | None] = [None] * rows.num_rows
    for end, cause in _CAUSES.items():
        at = np.flatnonzero((ends == end) & _asks(rows, cause))
        for index, row in zip(at, rows.take(pa.array(at)).to_pylist(), strict=True):
            owed[index] = _report(cause, row, now_ms, manager_name)
    return pa.array(owed, type=ENDED.field("report_owed").type)


def _asks(rows: pa.RecordBatch, cause: Cause) -> Mask:
    """Tell which rows have the bit of a cause, so that only those become Python values."""
    if "report" not in rows.schema.names:
        return np.zeros(rows.num_rows, dtype=np.bool_)
    options = np.asarray(pc.fill_null(rows["report"], MQRO_NONE), dtype=np.int64)
    mask: Mask = options & cause.value != 0
    return mask


def _report(
    cause: Cause, row: dict[str, Any], now_ms: int, manager_name: str
) -> dict[str, Any] | None:
    """Return the report about a row as a row of REPORT, None where its kind never owes one."""
    given = {name: row[name] for name in row.keys() & _DESCRIPTOR_FIELDS if row[name] is not None}
    descriptor = Descriptor(**given)
    if not is_owed(cause, descriptor):
        return None
    original = Original(
        descriptor,
        _bytes(row.get("msg_id")),
        _bytes(row.get("correl_id")),
        _bytes(row["payload"]),
        remaining_ms(row["expire_at_ms"], now_ms),
    )
    made = build_report(cause, original, manager_name, row["reason"])
    window = window_at_put(now_ms, made.life_ms)
    return {
        **{name: getattr(made.descriptor, name) for name in _DESCRIBED},
        # R2: it goes where the original asked for it.
        "manager": descriptor.reply_to_q_mgr,
        "queue": made.reply_to_q,
        "reply_to_q": "",
        "msg_id": made.msg_id,
        "correl_id": made.correl_id,
        "put_ms": window.put_ms,
        "deliver_at_ms": window.deliver_at_ms,
        "expire_at_ms": window.expire_at_ms,
        "backout_count": 0,
        "payload": made.body,
    }


def _bytes(value: bytes | None) -> bytes:
    return b"" if value is None else value
