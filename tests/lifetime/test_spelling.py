"""How moments and durations are spelled for people."""

from __future__ import annotations

import pytest

from mayfly.lifetime.times import spelled_duration, spelled_moment

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("duration_ms", "spelled"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (999, "999 ms"),
        (SECOND_MS, "1 s"),
        (5_250, "5.25 s"),
        (59_999, "59.999 s"),
        (MINUTE_MS, "1 min"),
        (MINUTE_MS + 1, "1 min 1 s"),
        (3_560_000, "59 min 20 s"),
        (HOUR_MS - SECOND_MS, "59 min 59 s"),
        (HOUR_MS - SECOND_MS + 1, "1 h"),
        (HOUR_MS, "1 h"),
        (HOUR_MS + 1, "1 h 1 min"),
        (DAY_MS - MINUTE_MS, "23 h 59 min"),
        (DAY_MS - MINUTE_MS + 1, "1 d"),
        (DAY_MS, "1 d"),
        (DAY_MS + 1, "1 d 1 h"),
        (3 * 365 * DAY_MS, "1,095 d"),
    ],
)
def test_E4_a_duration_is_spelled_in_two_units_and_rounds_up(
    duration_ms: int, spelled: str
) -> None:
    assert spelled_duration(duration_ms) == spelled


@pytest.mark.parametrize(
    ("at_ms", "spelled"),
    [
        (0, "1970-01-01 00:00:00.000"),
        (1_700_000_000_005, "2023-11-14 22:13:20.005"),
        (2**42 - 1, "2109-05-15 07:35:11.103"),
    ],
)
def test_a_moment_is_spelled_in_utc_to_the_millisecond(at_ms: int, spelled: str) -> None:
    assert spelled_moment(at_ms) == spelled
