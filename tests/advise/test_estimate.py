"""The formula against the simulation: independent arrivals, bursts, load, several sessions."""

from __future__ import annotations

import math

import pytest

from mayfly.pipeline.advise.advice import estimate, late_share, timeouts_per_ms
from mayfly.pipeline.advise.settings import ListenSettings
from mayfly.pipeline.advise.simulate import HOUR_MS, QueueArrivals, simulate
from tests.advise import made

#: So many standard errors apart nothing is by chance.
_SIGMAS = 4


def _check_agree(arrivals: QueueArrivals, setting: ListenSettings, on_message_ms: int) -> float:
    """Compare both for a constant on_message; return the share that was hit."""
    count = len(arrivals.available_ms)
    work = made.constant(count, on_message_ms)
    expected, found = estimate(arrivals, setting, work), simulate(arrivals, setting, work)
    share = found.messages_hit / count
    assert abs(share - expected.hit_share) <= _SIGMAS * math.sqrt(share * (1 - share) / count)
    # Rollbacks of one idle time come together: so many on average, geometrically distributed.
    timeouts = found.idle_rollbacks
    each = timeouts / (expected.waited_share * count)
    idle = expected.idle_rollbacks_per_hour * arrivals.span_ms / HOUR_MS
    assert abs(timeouts - idle) <= _SIGMAS * math.sqrt(timeouts * (1 + each))
    return share


@pytest.mark.parametrize("gap_ms", [20_000, 60_000, 300_000])
def test_one_session_under_any_load(gap_ms: int) -> None:
    """At 15 s of work for a message each 20 s three quarters of the time are work."""
    arrivals = made.poisson(20_000, gap_ms, seed=gap_ms)
    share = _check_agree(arrivals, ListenSettings(115_000, 120), 15_000)
    assert (share > 0.02) is (gap_ms > 20_000)


def test_bursts_wait_for_one_session_and_only_their_first_message_can_be_late() -> None:
    """Bursts of up to five: a third of the messages finds the session waiting."""
    arrivals = made.bursts(20_000, 200_000, 5, seed=8)
    share = _check_agree(arrivals, ListenSettings(115_000, 120), 15_000)
    alone = estimate(
        made.poisson(20_000, 200_000, seed=9),
        ListenSettings(115_000, 120),
        made.constant(20_000, 15_000),
    )
    assert share < alone.hit_share / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sessions", "timeout_ms", "work_ms", "gap_ms"),
    [(2, 20_000, 50, 9_000), (2, 20_000, 500, 30_000), (3, 20_200, 50, 9_000)],
)
def test_several_sessions_with_little_to_do(
    sessions: int, timeout_ms: int, work_ms: int, gap_ms: int
) -> None:
    """The age of the oldest transaction is Erlang, cut off at the timeout."""
    arrivals = made.poisson(40_000, gap_ms, seed=sessions)
    assert _check_agree(arrivals, ListenSettings(timeout_ms, 20, sessions), work_ms) > 0


def test_one_session_is_the_exponential_law() -> None:
    """(exp(-rs) - exp(-rT)) / (1 - exp(-rT)) of the messages come at s or later."""
    early, all_ = math.exp(-1.0), math.exp(-1.15)
    expected = (early - all_) / (1 - all_)
    assert late_share(1, 1e-5, 100_000, 115_000) == pytest.approx(expected)
    assert timeouts_per_ms(1, 1e-5, 115_000) == pytest.approx(1e-5 * all_ / (1 - all_))


@pytest.mark.parametrize("sessions", [1, 2, 50])
def test_without_messages_each_session_rolls_back_once_a_timeout(sessions: int) -> None:
    """The limit of a rate that goes to 0, which must not end in 0 / 0."""
    assert timeouts_per_ms(sessions, 1e-15, 100_000) * 100_000 == pytest.approx(sessions)
    assert late_share(sessions, 1e-15, 50_000, 100_000) == pytest.approx(1 - 0.5**sessions)


def test_many_messages_are_never_late() -> None:
    """A thousand a second: no receive lasts."""
    assert late_share(3, 1.0, 50_000, 100_000) == 0
    assert timeouts_per_ms(3, 1.0, 100_000) == 0


@pytest.mark.parametrize(("from_ms", "share"), [(99_999, True), (100_000, False), (0, 1.0)])
def test_L10_a_timeout_that_leaves_more_than_the_longest_has_no_late_messages(
    from_ms: int, share: float
) -> None:
    """What is late begins at lifetime - on_message; at the timeout or beyond there is none."""
    found = late_share(2, 1e-5, from_ms, 100_000)
    assert bool(found) is bool(share)
    assert found <= 1


def test_work_as_long_as_the_lifetime_is_not_the_timeouts_doing() -> None:
    """19,999 ms of work can be late, 20,000 ms never fit."""
    arrivals = made.poisson(1_000, 30_000, seed=1)
    setting = ListenSettings(10_000, 20)
    assert estimate(arrivals, setting, made.constant(1_000, 19_999)).hit_share > 0
    assert estimate(arrivals, setting, made.constant(1_000, 20_000)).hit_share == 0


def test_one_message_alone_says_nothing() -> None:
    """No gaps, no rate."""
    found = estimate(made.arrivals_at([0]), ListenSettings(1_000, 20), made.constant(1, 5))
    assert found == (0.0, 0.0, 0.0, 0)


def test_idle_rollbacks_an_hour_are_those_of_the_waiting_time() -> None:
    """A message each hour and a timeout of a minute: 59 or 60."""
    arrivals = made.arrivals_at([n * HOUR_MS for n in range(100)])
    found = estimate(arrivals, ListenSettings(60_000, 120), made.constant(100, 10))
    assert found.idle_rollbacks_per_hour == pytest.approx(59.5, abs=0.1)
