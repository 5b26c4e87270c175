"""Advice on lifetimes: sentences from figures, honest about few of them, never at odds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.pipeline.lake.lifetimes import (
    CapFigures,
    ConsumerFigures,
    DelayFigures,
    LifetimeFigures,
    Verdict,
    cap_advice,
    consumer_advice,
    delay_advice,
    lifetime_advice,
    spelled,
)

#: A third expire after half a minute, and most of these were asked for within 45 seconds.
SHORT = LifetimeFigures(
    manager="QM1",
    name="ORDERS.EU",
    lives=3_000,
    got=2_000,
    expired=1_000,
    unlimited=0,
    expired_by_cap=0,
    unserved=0,
    unserved_hours=0,
    asked=2_900,
    lifetime_p50_ms=30_000.0,
    left_p1_ms=20.0,
    left_p5_ms=100.0,
    left_p50_ms=2_000.0,
    asked_p50_ms=28_000.0,
    asked_p99_9_ms=40_000.0,
    suggested_ms=44_000,
    would_be_got=900,
    would_still_expire=60,
    not_known=40,
    got_lost=0,
)
NOTHING: dict[str, Any] = {
    "would_be_got": 0,
    "would_still_expire": 0,
    "not_known": 0,
    "got_lost": 0,
}
WITHOUT: dict[str, Any] = {"suggested_ms": None, **dict.fromkeys(NOTHING)}
#: Nothing expires.
ALIVE = replace(SHORT, expired=0, got=3_000, **NOTHING)


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        (
            {},
            Verdict.TOO_SHORT,
            (
                "33.3 % of 3,000 expire; half of those that are got have at most 2 s left. With a"
                " lifetime of 44 s for all, 900 of the 1,000 expired would have been got, 60 "
                "would have expired all the same and of 40 the ledger cannot say it."
            ),
        ),
        (
            {"would_be_got": 1_000, "would_still_expire": 0, "not_known": 0, "got_lost": 3},
            Verdict.TOO_SHORT,
            (
                "33.3 % of 3,000 expire; half of those that are got have at most 2 s left. With a"
                " lifetime of 44 s for all, 1,000 of the 1,000 expired would have been got; 3 "
                "that were got would not have been."
            ),
        ),
        (
            {"unserved": 700, "unserved_hours": 1, "would_be_got": 0, "not_known": 940},
            Verdict.NOTHING_GOT,
            (
                "33.3 % of 3,000 expire; half of those that are got have at most 2 s left. As "
                "long as 700 of the 1,000 could be got, nothing was got from their queue; their "
                "deadlines are in 1 hour of the calendar: look at the consumer first. No get is "
                "known to have come within 44 s for one of the expired: a longer lifetime is not "
                "known to help."
            ),
        ),
        (
            {"would_be_got": 400, "not_known": 540, "expired_by_cap": 12, "asked": 999},
            Verdict.NOT_ASKED_FOR,
            (
                "33.3 % of 3,000 expire; half of those that are got have at most 2 s left. With a"
                " lifetime of 44 s for all, 400 of the 1,000 expired would have been got, 60 "
                "would have expired all the same and of 540 the ledger cannot say it. Only 999 "
                "gets stand behind this. A CAPEXPRY had shortened the lifetime of 12 of the "
                "expired: a longer one at the put does not help them."
            ),
        ),
        (
            {"lives": 3, "got": 1, "expired": 2, "asked": 1, **WITHOUT},
            Verdict.TOO_FEW,
            (
                "66.7 % of 3 expire; half of those that are got have at most 2 s left. 1 get: 30 "
                "are needed for a suggestion."
            ),
        ),
    ],
)
def test_advice_on_messages_that_expire(
    changed: dict[str, Any], verdict: Verdict, said: str
) -> None:
    figures = replace(SHORT, **changed)
    assert (figures.verdict, " ".join(lifetime_advice(figures))) == (verdict, said)


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        (
            {"lifetime_p50_ms": 88_000.0},
            Verdict.TOO_LONG,
            "A lifetime of 44 s would have been enough; half have 1 min 28 s or more.",
        ),
        (
            {"lifetime_p50_ms": 88_000.0, "got_lost": 2},
            Verdict.TOO_LONG,
            (
                "A lifetime of 44 s would have been enough for all but 2 of the got; half have "
                "1 min 28 s or more."
            ),
        ),
        (
            {"lifetime_p50_ms": 87_999.0},
            Verdict.FITS,
            "The lifetime suits them; half have 1 min 28 s or less, 44 s is suggested.",
        ),
        (
            {"lifetime_p50_ms": 43_999.0},
            Verdict.TIGHT,
            "A lifetime of 44 s would leave a margin; half have 43.999 s or less.",
        ),
        (
            {"lifetime_p50_ms": 9_000.0, "unlimited": 1_501},
            Verdict.UNLIMITED,
            "1,501 of 3,000 have no lifetime; 44 s would have been enough.",
        ),
    ],
)
def test_advice_on_messages_that_are_got(
    changed: dict[str, Any], verdict: Verdict, said: str
) -> None:
    figures = replace(ALIVE, **changed)
    first = "none of 3,000 expires; half of those that are got have at most 2 s left."
    assert (figures.verdict, lifetime_advice(figures)) == (verdict, [first, said])


def test_messages_without_a_deadline_have_no_life_left() -> None:
    figures = replace(ALIVE, lifetime_p50_ms=None, left_p50_ms=None, unlimited=3_000)
    assert lifetime_advice(figures)[0] == "none of 3,000 expires."


@given(st.data())
def test_advice_never_contradicts_its_figures(data: st.DataObject) -> None:
    """Whatever the figures: no life is said to be saved that is not, and none is lost silently."""
    counts = st.integers(0, 3_000)
    got, would, still, unknown = (data.draw(counts) for _ in range(4))
    expired = would + still + unknown
    suggested_ms = data.draw(st.none() | st.integers(1, 90).map(lambda s: s * 1_000))
    figures = replace(
        SHORT,
        lives=got + expired + 1,
        got=got,
        expired=expired,
        unserved=data.draw(st.integers(0, expired)),
        unserved_hours=1,
        lifetime_p50_ms=data.draw(st.none() | st.floats(1, 90_000)),
        unlimited=data.draw(st.integers(0, got + 1)),
        suggested_ms=suggested_ms,
        would_be_got=None if suggested_ms is None else would,
        would_still_expire=None if suggested_ms is None else still,
        not_known=None if suggested_ms is None else unknown,
        got_lost=None if suggested_ms is None else data.draw(st.integers(0, got)),
    )
    said = " ".join(lifetime_advice(figures))
    assert ("% of" in said) == bool(expired)
    if suggested_ms is None:
        assert "suggestion" in said
        assert "would have" not in said
    elif figures.verdict is Verdict.TOO_SHORT:
        assert f"{would:,} of the {expired:,} expired would have been got" in said
        assert "not known to help" not in said
    elif figures.verdict is Verdict.FITS:
        assert figures.lifetime_p50_ms is not None
        assert suggested_ms <= figures.lifetime_p50_ms
    elif figures.verdict is Verdict.TIGHT:
        assert figures.lifetime_p50_ms is not None
        assert suggested_ms > figures.lifetime_p50_ms
    elif figures.verdict in (Verdict.TOO_LONG, Verdict.UNLIMITED):
        assert "would have been enough" in said
        assert bool(figures.got_lost) == ("for all but" in said)
    else:
        assert would * 2 <= expired
        assert ("not known to help" in said) == (not would)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "With a cap of 5 min: nothing changes."),
        (
            {"shortened": 9, "got_lost": 2, "refused": 3, "expired_earlier": 4}
            | {"freed_ms": 5_400_000, "freed_byte_ms": 7.2e12},
            (
                "With a cap of 5 min: 2 that were got would have expired, 3 puts would have been "
                "refused (delay longer than the cap) and 4 would have expired earlier, by 22 min "
                "30 s on average."
            ),
        ),
        (
            {"would_be_got": 7, "not_known": 1},
            (
                "With a cap of 5 min: at most 7 ended by a lower cap would be got and of 1 ended "
                "by a lower cap the ledger cannot say it."
            ),
        ),
    ],
)
def test_advice_on_a_cap(changed: dict[str, Any], said: str) -> None:
    assert cap_advice(CapFigures(300_000, 0, 0, 0, 0, 0, 0.0, 0, 0)._replace(**changed)) == said


def test_advice_on_delays_and_consumers() -> None:
    delays = DelayFigures("QM1", "Q1", 9, 8, 1, 2, 40.0, 90.5, 1_500.0, 2_000)
    assert delay_advice(delays, 60_000) == (
        "Half of 8 came at most 40 ms after their delivery time, 99 of 100 at most 1.5 s; 2 were "
        "late by more than 1 min; 1 expired first."
    )
    never = DelayFigures("QM1", "Q1", 2, 0, 2, 0, None, None, None, None)
    assert delay_advice(never, 60_000) == "None of 2 was delivered; 2 expired first."
    till = ConsumerFigures("QM1", "Q1", "till", "anna", 3_000, 1, 1, None, None, None)
    assert consumer_advice(till) == (
        "less than 0.1 % of the 3,001 messages that its gets met had expired before."
    )
    assert consumer_advice(till._replace(met_expired=0)) is None


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(None, "-"), (0, "0 ms"), (1_499.6, "1.5 s"), (-2_000.0, "-2 s")]
)
def test_durations_are_spelled_to_the_millisecond(duration_ms: float | None, text: str) -> None:
    assert spelled(duration_ms) == text
