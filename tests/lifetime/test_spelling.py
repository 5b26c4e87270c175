"""How moments and durations are spelled for people."""

from __future__ import annotations

import re

import pytest

from mayfly.lifetime.times import read_duration, spelled_duration, spelled_moment

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


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0", 0),
        ("20s", 20_000),
        ("1.5 h", 5_400_000),
        ("in 3 days", 259_200_000),
        ("lives 1 h", 3_600_000),
        ("For 1 h 30 min", 5_400_000),
        ("2m5s", 125_000),
        ("250 ms", 250),
    ],
)
def test_a_duration_is_read_from_words(text: str, duration_ms: int) -> None:
    assert read_duration(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "'soon' is not a duration: a number and ms, s, m, h or d, as in 20s"),
        ("", "'' is not a duration: a number and ms, s, m, h or d, as in 20s"),
        ("-1h", "'-1h' is not a duration: a number and ms, s, m, h or d, as in 20s"),
        ("1 week", "'1 week' is not a duration: a number and ms, s, m, h or d, as in 20s"),
        ("in 3", "'in 3' has no unit: 3ms, 3s, 3m, 3h or 3d"),
        ("1.5 ms", "'1.5 ms' is not a whole number of milliseconds"),
        ("9" * 400 + "d", f"'{'9' * 400}d' is not a whole number of milliseconds"),
    ],
)
def test_what_is_no_duration_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        read_duration(text)
