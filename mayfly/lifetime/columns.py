"""Columns of times: the rules of `window` for NumPy arrays, Arrow arrays and Spark columns.

A column is a NumPy array of int64, an Arrow array, or one int for all rows. No expiry and no limit
are NONE (-1) in NumPy, as in the optional columns of the ledger, and null in Arrow and Spark. Times
are epoch ms and never negative.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime.times import tenths_of_ms
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi.constants import MQEI_UNLIMITED
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_NONE, MQRC_OPTIONS_ERROR

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Column: TypeAlias = "Ints | pa.Array | pa.ChunkedArray | int"

#: No end, no cap, never: the value for a null of an Arrow column.
NONE = -1


class Windows(NamedTuple):
    """The delivery and expiry times of many messages, one row each, as NumPy columns in epoch ms.

    ``reason`` is MQRC_NONE for an accepted put. A refused row has its reason code, and NONE for
    both times.
    """

    deliver_at_ms: Ints
    expire_at_ms: Ints
    reason: Ints

    @property
    def refused(self) -> Mask:
        """A boolean array: True where the put is refused."""
        mask: Mask = self.reason != MQRC_NONE
        return mask


class SparkWindow(NamedTuple):
    """The columns of Windows as Spark expressions; both times are null where Windows has NONE."""

    deliver_at_ms: Any
    expire_at_ms: Any
    reason: Any


def ints(column: Column) -> Ints:
    """Return a column as int64; a null in an Arrow column becomes NONE (-1): no time."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return np.asarray(pc.fill_null(column.cast(pa.int64()), NONE), dtype=np.int64)
    return np.asarray(column, dtype=np.int64)


def nullable(values: Ints) -> pa.Array:
    """Return int64 values as an Arrow column; NONE (-1) becomes null."""
    return pa.array(values, type=pa.int64(), mask=values == NONE)


def windows_at_put(
    put_ms: Column,
    life_ms: Column,
    delay_ms: Column = 0,
    cap_ms: Column = NONE,
    *,
    from_release: bool = False,
) -> Windows:
    """Return delivery and expiry times of messages put at ``put_ms``; see `window.window_at_put`.

    ``life_ms`` (time to live) and ``cap_ms`` (CAPEXPRY limit) may be NONE; a null delay is 0.
    ``from_release`` is TTLFROM(RELEASE). Nothing is raised: a refused row has MQRC_OPTIONS_ERROR
    for an invalid delay, or MQRC_EXPIRY_ERROR for a delay longer than the time to live (D7, D31).
    """
    put, life, delay, cap = np.broadcast_arrays(
        ints(put_ms), ints(life_ms), _delays(delay_ms), ints(cap_ms)
    )
    life = np.where((cap != NONE) & ((life == NONE) | (life > cap)), cap, life)
    reason = np.full(put.shape, MQRC_NONE, dtype=np.int64)
    if not from_release:
        reason[(life != NONE) & (delay > life)] = MQRC_EXPIRY_ERROR
    # Compared on this side: a sum could pass the end of int64.
    reason[(delay != 0) & ((delay < 0) | (delay > LATEST_DUE_MS - put))] = MQRC_OPTIONS_ERROR
    accepted = reason == MQRC_NONE
    deliver_at = put + np.where(accepted, delay, 0)
    begin = deliver_at if from_release else put
    return Windows(
        np.where(accepted, deliver_at, NONE),
        np.where(accepted & (life != NONE), begin + life, NONE),
        reason,
    )


def is_expired(expire_at_ms: Column, now_ms: Column) -> Mask:
    """Return a boolean array: True from the millisecond of expiry on, False for NONE (E4, E8)."""
    expire_at = ints(expire_at_ms)
    mask: Mask = (expire_at != NONE) & (ints(now_ms) >= expire_at)
    return mask


def is_due(deliver_at_ms: Column, now_ms: Column) -> Mask:
    """Return a boolean array: True from the millisecond of the delivery time on (D1)."""
    mask: Mask = ints(now_ms) >= ints(deliver_at_ms)
    return mask


def remaining_tenths(expire_at_ms: Column, now_ms: Column) -> Ints:
    """Return the Expiry that a getter sees, in tenths of a second, rounded up (E4, E5).

    MQEI_UNLIMITED for NONE, 0 for an expired message.
    """
    expire_at = ints(expire_at_ms)
    left_ms = np.maximum(expire_at - ints(now_ms), 0)
    return np.where(expire_at == NONE, MQEI_UNLIMITED, tenths_of_ms(left_ms))


def spark_window(
    functions: ModuleType,
    put_ms: Any,
    life_ms: Any,
    delay_ms: Any,
    cap_ms: Any,
    *,
    from_release: bool = False,
) -> SparkWindow:
    """Return `windows_at_put` as Spark expressions over bigint columns; null means "none".

    They are delivery time, expiry time and reason code. ``put_ms`` is in ms since 1970;
    ``life_ms``, ``delay_ms`` and ``cap_ms`` (CAPEXPRY) are in ms. ``from_release`` is
    TTLFROM(RELEASE). ``functions`` is ``pyspark.sql.functions``, a parameter so that this module
    does not import Spark.
    """
    f = functions
    life = f.least(life_ms, cap_ms)
    delay = f.coalesce(delay_ms, f.lit(0))
    bad_delay = (delay != 0) & ((delay < 0) | (delay > f.lit(LATEST_DUE_MS) - put_ms))
    reason = (
        f.when(bad_delay, f.lit(MQRC_OPTIONS_ERROR))
        .when(f.lit(not from_release) & (delay > life), f.lit(MQRC_EXPIRY_ERROR))
        .otherwise(f.lit(MQRC_NONE))
        .cast("int")
    )
    accepted = reason == MQRC_NONE
    begin = put_ms + delay if from_release else put_ms
    return SparkWindow(f.when(accepted, put_ms + delay), f.when(accepted, begin + life), reason)


def _delays(delay_ms: Column) -> Ints:
    """Return a column of delays as int64; nulls of an Arrow column become 0."""
    if isinstance(delay_ms, pa.Array | pa.ChunkedArray):
        # Not by NONE: a delay of -1 is a caller's error, a null is no delay.
        delay_ms = pc.fill_null(delay_ms.cast(pa.int64()), 0)
    return ints(delay_ms)
