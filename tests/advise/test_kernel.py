"""The simulated listener: rule by rule, against a walk through time, and compiled against plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mayfly.pipeline.advise.settings import ListenSettings
from mayfly.pipeline.advise.simulate import PLAIN, Simulated, compiled, give_up_ms, simulate
from tests.advise import made
from tests.advise.walk import walked
from tests.examples import examples

SEED_CASE = ListenSettings(115_000, 120)


def _run(
    times_ms: list[int],
    work_ms: list[int],
    setting: ListenSettings,
    expire_at_ms: list[int] | None = None,
) -> Simulated:
    arrivals = made.arrivals_at(times_ms, expire_at_ms)
    return simulate(arrivals, setting, np.array(work_ms, dtype=np.int64))


def test_L11_a_message_at_110_s_with_15_s_of_work_is_rolled_back_at_125_s() -> None:
    """Lifetime 120 s: the first message starts the transaction, the second comes 110 s into it.

    It is taken again at 125 s, in a transaction of its own, and is done at 140 s.
    """
    found = _run([0, 110_000], [0, 15_000], SEED_CASE)
    assert (found.needless, found.messages_hit, found.redeliveries) == (1, 1, 1)
    assert (found.taken, found.committed, found.backouts_max) == (3, 2, 1)
    assert found.idle_rollbacks == 0
    assert found.needless_share == pytest.approx(1 / 3)


@pytest.mark.parametrize(("at_ms", "needless"), [(104_999, 0), (105_000, 1), (105_001, 1)])
def test_L11_the_last_moment_that_is_early_enough(at_ms: int, needless: int) -> None:
    """105 s + 15 s is the lifetime itself: the transaction is marked at that very moment."""
    assert _run([0, at_ms], [0, 15_000], SEED_CASE).needless == needless


@pytest.mark.parametrize(
    ("at_ms", "idle", "needless"),
    [(114_999, 0, 1), (115_000, 0, 1), (115_001, 1, 0)],
)
def test_L5_a_message_at_the_very_end_of_a_receive_wins(
    at_ms: int, idle: int, needless: int
) -> None:
    """A millisecond later the empty transaction is rolled back and the message has a new one."""
    found = _run([0, at_ms], [0, 15_000], SEED_CASE)
    assert (found.idle_rollbacks, found.needless) == (idle, needless)


def test_L5_an_idle_rollback_is_nobodys_backout() -> None:
    """An hour without messages: 31 receives of 115 s end before it is over."""
    found = _run([0, 3_600_000], [0, 0], SEED_CASE)
    assert (found.idle_rollbacks, found.backouts_max, found.committed) == (31, 0, 2)
    assert found.idle_rollbacks_per_hour == 31


def test_L7_work_as_long_as_the_lifetime_never_commits() -> None:
    """No receive timeout helps: it is no needless rollback, and comes back until BOTHRESH."""
    found = _run([0], [120_000], SEED_CASE._replace(bothresh=3))
    assert (found.overlong, found.needless, found.requeued) == (3, 0, 1)
    assert (found.committed, found.backouts_max) == (0, 3)
    for_ever = _run([0], [120_000], SEED_CASE)
    assert (for_ever.left, for_ever.requeued, for_ever.committed) == (1, 0, 0)


def test_where_there_is_a_bothresh_nothing_is_given_up_however_long_it_takes() -> None:
    """Four messages, a session, and work as long as the lifetime: each is rolled back twice."""
    found = _run([0] * 4, [120_000] * 4, ListenSettings(1, 120, bothresh=2))
    assert (found.overlong, found.requeued, found.left) == (8, 4, 0)


def test_L8_while_one_session_works_another_takes_the_next_message() -> None:
    """Two messages at once: one session needs a second turn, two do not."""
    assert _run([0, 0], [60_000, 60_000], SEED_CASE).committed == 2
    both = _run([0, 0, 60_000], [60_000, 60_000, 60_000], SEED_CASE._replace(max_sessions=2))
    assert (both.taken, both.committed, both.needless) == (3, 3, 0)


def test_L9_sessions_that_wait_take_a_message_in_the_order_in_which_they_began() -> None:
    """Of two, the one that worked on the first message began its transaction anew at 50 s.

    The message at 110 s goes to the other, whose transaction is 110 s old; the third then finds the
    first session, 70 s old.
    """
    two = SEED_CASE._replace(max_sessions=2)
    found = _run([0, 110_000, 115_000], [50_000, 15_000, 15_000], two)
    assert (found.needless, found.messages_hit) == (1, 1)


def test_L15_a_message_that_expires_while_it_is_rolled_back_is_discarded() -> None:
    """It came at 110 s, is back at 125 s, and its life ended at 125 s."""
    gone = _run([0, 110_000], [0, 15_000], SEED_CASE, [10**9, 125_000])
    assert (gone.expired, gone.redeliveries, gone.committed) == (1, 0, 1)
    alive = _run([0, 110_000], [0, 15_000], SEED_CASE, [10**9, 125_001])
    assert (alive.expired, alive.redeliveries, alive.committed) == (0, 1, 2)


def test_a_lifetime_of_0_is_none() -> None:
    """Whatever comes however late is committed."""
    found = _run([0, 114_000], [0, 10**6], SEED_CASE._replace(total_tran_lifetime_timeout_s=0))
    assert (found.committed, found.needless, found.overlong) == (2, 0, 0)


#: Times of some milliseconds around a lifetime of one second, so that all ties come up.
_COARSE = st.integers(0, 12).map(lambda n: n * 100)
_MESSAGES = st.lists(st.tuples(_COARSE, _COARSE, _COARSE | st.just(10**9)), min_size=1, max_size=8)
_SETTINGS = st.builds(
    ListenSettings,
    st.sampled_from([1, 99, 100, 300, 700, 1_000, 1_300]),
    st.sampled_from([0, 1]),
    st.integers(1, 3),
    st.integers(0, 2),
)


def _case(
    messages: list[tuple[int, int, int]],
) -> tuple[list[int], list[int], list[int]]:
    """Return arrivals, deadlines and work; each message comes so long after the one before."""
    gaps_ms, work_ms, lives_ms = (list(column) for column in zip(*messages, strict=True))
    arrive_ms = (np.cumsum(gaps_ms) - gaps_ms[0]).tolist()
    lives = [max(life_ms, 1) for life_ms in lives_ms]
    return arrive_ms, [a + b for a, b in zip(arrive_ms, lives, strict=True)], work_ms


@pytest.mark.slow
@given(_MESSAGES, _SETTINGS)
@hypothesis_settings(max_examples=examples(200))
def test_L3_to_L9_are_what_a_walk_through_time_says(
    messages: list[tuple[int, int, int]], setting: ListenSettings
) -> None:
    """Sessions, competing, timeouts, rollbacks, BOTHRESH and expiry, in every count there is."""
    arrive_ms, expire_ms, work_ms = _case(messages)
    until_ms = give_up_ms(arrive_ms[-1], max(work_ms), setting)
    expected = walked(arrive_ms, expire_ms, work_ms, setting, give_up_ms=until_ms)
    found = _run(arrive_ms, work_ms, setting, expire_ms)
    for name in "taken committed needless overlong requeued expired left redeliveries".split():
        assert getattr(found, name) == getattr(expected, name), name
    assert found.messages_hit == len(expected.hit)
    assert found.backouts_max == max(expected.backouts.values(), default=0)
    assert found.idle_rollbacks == expected.idle_rollbacks
    assert found.messages == found.committed + found.requeued + found.expired + found.left


@pytest.mark.slow
@given(_MESSAGES, _SETTINGS)
@hypothesis_settings(max_examples=examples(100))
def test_numba_and_python_give_the_same_counts(
    messages: list[tuple[int, int, int]], setting: ListenSettings
) -> None:
    """One source run two ways."""
    arrive_ms, expire_ms, work_ms = _case(messages)
    arrivals, work = made.arrivals_at(arrive_ms, expire_ms), np.array(work_ms)
    plain = simulate(arrivals, setting, work, with_kernel=PLAIN)
    assert simulate(arrivals, setting, work, with_kernel=compiled()) == plain


@pytest.mark.slow
def test_numba_and_python_agree_on_many_messages() -> None:
    """50,000 in bursts, five sessions that are too few for the largest."""
    arrivals = made.bursts(10_000, 30_000, 9, seed=3)
    count = len(arrivals.available_ms)
    work = np.random.default_rng(4).integers(0, 20_000, count)
    setting = ListenSettings(25_000, 30, 5, 2)
    plain = simulate(arrivals, setting, work, with_kernel=PLAIN)
    assert simulate(arrivals, setting, work, with_kernel=compiled()) == plain
    assert plain.needless > 100
    assert plain.requeued > 0
