"""The units of time: their conversions and their spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.lifetime.times import (
    ms_of_seconds,
    ms_of_tenths,
    put_date,
    put_time,
    tenths_of_ms,
)

WALL_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("at_ms", "date", "time"),
    [
        (0, "19700101", "00000000"),
        (WALL_MS, "20231114", "22132000"),
        (WALL_MS + 9, "20231114", "22132000"),
        (WALL_MS + 10, "20231114", "22132001"),
        (WALL_MS + 999, "20231114", "22132099"),
        (951_782_400_000, "20000229", "00000000"),
        (2**42 - 1, "21090515", "07351110"),
    ],
)
def test_P6_put_date_and_time_in_utc_and_hundredths(at_ms: int, date: str, time: str) -> None:
    assert (put_date(at_ms), put_time(at_ms)) == (date, time)


@given(st.integers(0, 2**31 - 1))
def test_E4_tenths_round_up_and_whole_ones_are_exact(tenths: int) -> None:
    assert tenths_of_ms(ms_of_tenths(tenths)) == tenths
    assert tenths_of_ms(ms_of_tenths(tenths) + 1) == tenths + 1
    assert tenths_of_ms(ms_of_tenths(tenths) + 100) == tenths + 1
    assert ms_of_seconds(tenths) == ms_of_tenths(tenths * 10)
