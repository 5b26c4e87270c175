"""The column rules give what the scalar rules of `window` give, row by row, on every boundary."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.lifetime import columns, window
from mayfly.lifetime.moments import is_due, is_expired
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_NONE, MQRC_OPTIONS_ERROR

PUT_MS = 1_700_000_000_000

#: Few distinct values close together, so that equal and one-apart pairs are common; and the ends.
_near = st.integers(0, 5) | st.sampled_from([99, 100, 101, 12_630_000])
_puts = st.sampled_from([0, 1, PUT_MS, window.LATEST_DUE_MS, window.LATEST_DUE_MS + 1])
_lives = st.none() | _near | st.just(window.LONGEST_LIFE_MS)
_delays = _near | st.sampled_from(
    [
        -1,
        -100,
        window.LATEST_DUE_MS - PUT_MS,
        window.LATEST_DUE_MS - PUT_MS + 1,
        2**63 - 1,
        -(2**63),
    ]
)
Row = tuple[int, int | None, int, int | None]
_rows = st.lists(st.tuples(_puts, _lives, _delays, _lives), min_size=1, max_size=30)


def _scalar(row: Row, *, from_release: bool) -> tuple[int | None, int | None, int]:
    put_ms, life_ms, delay_ms, cap_ms = row
    try:
        made = window.window_at_put(put_ms, life_ms, delay_ms, cap_ms, from_release=from_release)
    except MQError as refusal:
        return None, None, refusal.reason
    return made.deliver_at_ms, made.expire_at_ms, MQRC_NONE


def _arrow(rows: list[Row]) -> list[pa.Array]:
    return [pa.array(values, type=pa.int64()) for values in zip(*rows, strict=True)]


@given(_rows, st.booleans())
def test_D7_D18_D31_X3_windows_of_columns_are_the_windows_of_their_rows(
    rows: list[Row], from_release: bool
) -> None:
    """Same times for what is accepted and same reason for what is refused, with either TTLFROM."""
    made = columns.windows_at_put(*_arrow(rows), from_release=from_release)
    answers = zip(
        columns.nullable(made.deliver_at_ms).to_pylist(),
        columns.nullable(made.expire_at_ms).to_pylist(),
        made.reason.tolist(),
        strict=True,
    )
    assert list(answers) == [_scalar(row, from_release=from_release) for row in rows]


@pytest.mark.parametrize(
    ("delay_ms", "reason"),
    [(4_999, MQRC_NONE), (5_000, MQRC_NONE), (5_001, MQRC_EXPIRY_ERROR), (-1, MQRC_OPTIONS_ERROR)],
)
def test_D18_delay_equal_to_the_life_is_accepted_one_more_is_refused(
    delay_ms: int, reason: int
) -> None:
    """D18: equal is allowed; D7: longer is 2013."""
    made = columns.windows_at_put(np.array([PUT_MS]), 5_000, delay_ms)
    assert made.reason.tolist() == [reason]
    assert made.refused.tolist() == [reason != MQRC_NONE]
    expected = columns.NONE if reason else PUT_MS + delay_ms
    assert made.deliver_at_ms.tolist() == [expected]


def test_X3_cap_limits_an_unlimited_life_and_nulls_are_no_cap_and_no_delay() -> None:
    """X3: unlimited counts as above the cap."""
    null = pa.nulls(2, pa.int64())
    made = columns.windows_at_put(
        pa.array([PUT_MS, PUT_MS]), null, null, pa.array([60_000, None], pa.int64())
    )
    assert made.deliver_at_ms.tolist() == [PUT_MS, PUT_MS]
    assert columns.nullable(made.expire_at_ms).to_pylist() == [PUT_MS + 60_000, None]


@given(
    st.lists(st.none() | st.integers(PUT_MS, PUT_MS + 201), min_size=1),
    st.sampled_from([PUT_MS - 1, PUT_MS, PUT_MS + 1, PUT_MS + 100, PUT_MS + 101, PUT_MS + 201]),
)
def test_E4_E5_E8_D1_deadline_delivery_and_remaining_expiry_agree(
    moments: list[int | None], now_ms: int
) -> None:
    """is_expired, is_due and remaining_tenths, each at T-1, T and T+1 of some row."""
    column = pa.array(moments, type=pa.int64())
    assert columns.is_expired(column, now_ms).tolist() == [
        is_expired(moment, now_ms) for moment in moments
    ]
    assert columns.remaining_tenths(column, now_ms).tolist() == [
        window.remaining_tenths(moment, now_ms) for moment in moments
    ]
    known = [moment for moment in moments if moment is not None]
    assert columns.is_due(np.array(known, dtype=np.int64), now_ms).tolist() == [
        is_due(moment, now_ms) for moment in known
    ]


def test_E4_one_millisecond_left_shows_as_one_tenth() -> None:
    """E4: at T-1 one tenth, at T and later none and expired."""
    deadline = np.array([PUT_MS] * 3)
    now = np.array([PUT_MS - 1, PUT_MS, PUT_MS + 1])
    assert columns.remaining_tenths(deadline, now).tolist() == [1, 0, 0]
    assert columns.is_expired(deadline, now).tolist() == [False, True, True]
    assert columns.is_due(deadline, now).tolist() == [False, True, True]
