"""The window of a message and what is left of it: rules E2-E5, D7, D17, D18, D31, X3, X10."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.lifetime.moments import Until, is_due, is_expired
from mayfly.lifetime.window import (
    LATEST_DUE_MS,
    LONGEST_LIFE_MS,
    MAXIMUM_EXPIRY_TENTHS,
    Window,
    capped_from,
    check_life_ms,
    life_ms_of_expiry,
    lowest_cap_ms,
    remaining_ms,
    remaining_tenths,
    window_at_put,
)
from mayfly.mqi.constants import MQCEX_NOLIMIT, MQEI_UNLIMITED
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_OPTIONS_ERROR

PUT_MS = 1_700_000_000_000

put_times = st.integers(0, LATEST_DUE_MS)
lives_ms = st.none() | st.integers(1, LONGEST_LIFE_MS)
delays_ms = st.integers(0, LATEST_DUE_MS)
caps_ms = st.none() | st.integers(100, 999_999_999 * 100)


def reason_of(expiry_tenths: int, *, enforce: bool = False, refuse_zero: bool = True) -> int:
    with pytest.raises(MQError) as refusal:
        life_ms_of_expiry(expiry_tenths, enforce_maximum=enforce, refuse_zero=refuse_zero)
    return refusal.value.reason


@pytest.mark.parametrize("expiry_tenths", [0, -2, -100, -(2**31)])
def test_E2_neither_positive_nor_unlimited(expiry_tenths: int) -> None:
    assert reason_of(expiry_tenths) == MQRC_EXPIRY_ERROR


@pytest.mark.parametrize(("expiry_tenths", "life_ms"), [(1, 100), (600, 60_000), (-1, None)])
def test_E1_tenths_to_ms(expiry_tenths: int, life_ms: int | None) -> None:
    assert life_ms_of_expiry(expiry_tenths) == life_ms


def test_E3_maximum_only_when_enforced() -> None:
    assert life_ms_of_expiry(MAXIMUM_EXPIRY_TENTHS, enforce_maximum=True) == 99_999_999_900
    assert reason_of(MAXIMUM_EXPIRY_TENTHS + 1, enforce=True) == MQRC_EXPIRY_ERROR
    assert life_ms_of_expiry(2**31 - 1) == LONGEST_LIFE_MS == 214_748_364_700


def test_K2_zero_may_be_accepted_but_no_other_non_positive_value() -> None:
    assert life_ms_of_expiry(0, refuse_zero=False) == 0
    assert reason_of(-2, refuse_zero=False) == MQRC_EXPIRY_ERROR
    assert is_expired(window_at_put(PUT_MS, 0).expire_at_ms, PUT_MS)


@pytest.mark.parametrize("life_ms", [1, 100, LONGEST_LIFE_MS, None])
def test_E2_native_life_in_range(life_ms: int | None) -> None:
    check_life_ms(life_ms)


@pytest.mark.parametrize("life_ms", [0, -1, LONGEST_LIFE_MS + 1])
def test_E2_native_life_out_of_range(life_ms: int) -> None:
    with pytest.raises(MQError) as refusal:
        check_life_ms(life_ms)
    assert refusal.value.reason == MQRC_EXPIRY_ERROR


@pytest.mark.parametrize(("now_ms", "gone"), [(PUT_MS + 999, False), (PUT_MS + 1_000, True)])
def test_E4_expired_from_the_very_millisecond_on(now_ms: int, gone: bool) -> None:
    assert is_expired(PUT_MS + 1_000, now_ms) is gone
    assert not is_expired(None, now_ms)


@pytest.mark.parametrize(("now_ms", "due"), [(PUT_MS + 999, False), (PUT_MS + 1_000, True)])
def test_D1_due_from_the_very_millisecond_on(now_ms: int, due: bool) -> None:
    assert is_due(PUT_MS + 1_000, now_ms) is due


@pytest.mark.parametrize(
    ("left_ms", "tenths"), [(1, 1), (99, 1), (100, 1), (101, 2), (5_000, 50), (0, 0), (-1, 0)]
)
def test_E4_E5_rounded_up_and_never_below_zero(left_ms: int, tenths: int) -> None:
    assert remaining_tenths(PUT_MS + left_ms, PUT_MS) == tenths
    assert remaining_ms(PUT_MS + left_ms, PUT_MS) == max(left_ms, 0)


def test_E5_unlimited_is_not_a_number_of_ms() -> None:
    assert remaining_ms(None, PUT_MS) is None
    assert remaining_tenths(None, PUT_MS) == MQEI_UNLIMITED


@pytest.mark.parametrize(("elapsed_ms", "tenths"), [(10_000, 100), (15_000, 50)])
def test_D17_the_seeds_example(elapsed_ms: int, tenths: int) -> None:
    """20 s of life, 5 s of delay: both run from the put."""
    window = window_at_put(PUT_MS, 20_000, 5_000)
    assert window == Window(PUT_MS, PUT_MS + 5_000, PUT_MS + 20_000)
    assert remaining_tenths(window.expire_at_ms, PUT_MS + elapsed_ms) == tenths


@pytest.mark.parametrize("delay_ms", [-1, LATEST_DUE_MS - PUT_MS + 1])
def test_D7_delay_that_cannot_be_kept(delay_ms: int) -> None:
    with pytest.raises(MQError) as refusal:
        window_at_put(PUT_MS, None, delay_ms)
    assert refusal.value.reason == MQRC_OPTIONS_ERROR


def test_D7_latest_delivery_time_is_allowed() -> None:
    assert window_at_put(PUT_MS, None, LATEST_DUE_MS - PUT_MS).deliver_at_ms == LATEST_DUE_MS


@pytest.mark.parametrize(
    ("caps_tenths", "cap_ms"),
    [
        ([], None),
        ([MQCEX_NOLIMIT], None),
        ([MQCEX_NOLIMIT, 7], 700),
        ([9, 7, MQCEX_NOLIMIT], 700),
    ],
)
def test_X3_lowest_cap(caps_tenths: list[int], cap_ms: int | None) -> None:
    assert lowest_cap_ms(caps_tenths) == cap_ms


@given(put_times, lives_ms, delays_ms, caps_ms)
def test_D7_D31_X3_accepted_windows_hold_what_was_promised(
    put_ms: int, life_ms: int | None, delay_ms: int, cap_ms: int | None
) -> None:
    """Put <= delivery <= deadline; the cap holds; a shorter life is never made longer."""
    limits = [limit for limit in (life_ms, cap_ms) if limit is not None]
    is_too_late = delay_ms > 0 and put_ms + delay_ms > LATEST_DUE_MS
    if is_too_late or (limits and delay_ms > min(limits)):
        with pytest.raises(MQError) as refusal:
            window_at_put(put_ms, life_ms, delay_ms, cap_ms)
        assert refusal.value.reason == (MQRC_OPTIONS_ERROR if is_too_late else MQRC_EXPIRY_ERROR)
        return
    window = window_at_put(put_ms, life_ms, delay_ms, cap_ms)
    assert window.deliver_at_ms == put_ms + delay_ms
    assert window.expire_at_ms == (put_ms + min(limits) if limits else None)
    if window.expire_at_ms is not None:
        assert put_ms <= window.deliver_at_ms <= window.expire_at_ms


@pytest.mark.parametrize(
    ("expire_at_ms", "cap_ms", "end_ms"),
    [
        (None, None, None),
        (None, 5_000, 15_000),
        (14_999, 5_000, 14_999),
        (15_000, 5_000, 15_000),
        (15_001, 5_000, 15_000),
        (15_001, None, 15_001),
    ],
)
def test_X3_a_cap_met_on_the_way_counts_from_then(
    expire_at_ms: int | None, cap_ms: int | None, end_ms: int | None
) -> None:
    window = Window(1_000, 2_000, expire_at_ms, "an earlier one")
    by = "an earlier one" if end_ms == expire_at_ms else "this cap"
    assert capped_from(window, 10_000, cap_ms, "this cap") == Window(1_000, 2_000, end_ms, by)


@given(put_times, st.integers(1, LONGEST_LIFE_MS), st.integers(-1_000, LONGEST_LIFE_MS + 1_000))
def test_E4_E5_remaining_never_shows_zero_for_what_is_alive(
    put_ms: int, life_ms: int, elapsed_ms: int
) -> None:
    deadline_ms, now_ms = put_ms + life_ms, put_ms + elapsed_ms
    tenths = remaining_tenths(deadline_ms, now_ms)
    assert is_expired(deadline_ms, now_ms) == (tenths == 0)
    left_ms = remaining_ms(deadline_ms, now_ms)
    assert left_ms is not None
    assert tenths * 100 - 100 < left_ms <= tenths * 100


@given(st.integers(1, 2**31 - 1))
def test_E1_E5_what_is_put_on_with_the_remainder_never_gains_a_tenth(expiry_tenths: int) -> None:
    """Right after the put the getter sees what the putter gave."""
    life_ms = life_ms_of_expiry(expiry_tenths)
    window = window_at_put(PUT_MS, life_ms)
    assert remaining_tenths(window.expire_at_ms, PUT_MS) == expiry_tenths


@pytest.mark.parametrize(
    ("until_ms", "deliver_at_ms"), [(1_500, 1_500), (1_000, 1_001), (1, 1_001)]
)
def test_D1_a_delay_until_a_moment_ends_at_that_moment(until_ms: int, deliver_at_ms: int) -> None:
    window = window_at_put(1_000, None, Until(until_ms))
    assert (window.put_ms, window.deliver_at_ms) == (1_000, deliver_at_ms)


def test_D7_a_delay_until_a_moment_behind_the_deadline_is_refused() -> None:
    with pytest.raises(MQError, match="delay_ms 501 is longer than the lifetime of 500 ms"):
        window_at_put(1_000, 500, Until(1_501))
