"""The advice: L10 to the millisecond, what is recommended, and that it holds on real arrivals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cli.airport.flights import flights_table, trace_of
from mayfly.cli.values import duration_ms
from mayfly.pipeline.advise.advice import advise, recommend
from mayfly.pipeline.advise.settings import AdviseError, ListenSettings, problems_of
from mayfly.pipeline.advise.simulate import (
    Durations,
    always,
    arrivals_of,
    from_text,
    sampled,
    summary_of,
)
from mayfly.pipeline.replay.kernel import NEVER_MS
from mayfly.pipeline.replay.trace import checked
from tests.advise import made


@pytest.mark.parametrize(
    ("timeout_ms", "longest_ms", "is_safe"),
    [
        (110_000, 15_000, False),  # the example of the documentation
        (110_000, 9_999, True),
        (110_000, 10_000, False),  # the difference is to be larger, not as large
        (109_999, 10_000, True),
        (110_000, 10_001, False),
        (119_999, 0, True),
        (120_000, 0, False),
    ],
)
def test_L10_is_strict(timeout_ms: int, longest_ms: int, is_safe: bool) -> None:
    """And the worst case there is, simulated: a message at the very end of a receive."""
    setting = ListenSettings(timeout_ms, 120)
    assert (not problems_of(setting, longest_ms)) is is_safe
    work = np.array([0, longest_ms])
    arrivals = made.arrivals_at([0, timeout_ms])
    answer = advise(setting, sampled(work), arrivals)
    assert answer.after is not None
    assert answer.after.simulated.needless == 0


def test_the_example_of_the_documentation_gets_104_s() -> None:
    """120 s - 15 s - 1 s; for 10 s of work 109 s, a second within the usual 110 s."""
    chosen, [reason] = recommend(ListenSettings(110_000, 120), 15_000)
    assert chosen == ListenSettings(104_000, 120)
    assert reason.startswith("receive timeout 104 s <= lifetime 120 s - longest on_message 15 s")
    assert recommend(ListenSettings(110_000, 120), 10_000)[0] == ListenSettings(109_000, 120)


def test_what_is_safe_with_its_margin_stays_as_it_is() -> None:
    """104 s leave a second; 104.001 s do not."""
    kept, [reason] = recommend(ListenSettings(104_000, 120), 15_000)
    assert (kept, reason.startswith("it is safe")) == (ListenSettings(104_000, 120), True)
    assert recommend(ListenSettings(104_001, 120), 15_000)[0] == ListenSettings(104_000, 120)
    assert recommend(ListenSettings(104_001, 120), 15_000, margin_ms=999)[0] == ListenSettings(
        104_001, 120
    )


def test_a_lifetime_that_leaves_too_little_is_raised() -> None:
    """At most 60 idle rollbacks an hour are a minute each; 100 s + 1 s + 60 s is the lifetime."""
    chosen, reasons = recommend(ListenSettings(10_000, 120), 100_000)
    assert chosen == ListenSettings(60_000, 161)
    assert "leaves 19 s for the receive" in reasons[0]
    assert recommend(ListenSettings(9_999, 120), 100_000, idle_per_hour=360)[0] == ListenSettings(
        19_000, 120
    )
    assert recommend(ListenSettings(10_000, 120), 100_000, idle_per_hour=360)[0] == ListenSettings(
        10_000, 120
    )


def test_a_lifetime_that_is_raised_could_stay_where_more_idle_rollbacks_are_allowed() -> None:
    """19 s are left for the receive: 190 an hour, and what is recommended then."""
    _, reasons = recommend(ListenSettings(10_000, 120), 100_000)
    assert reasons[0].endswith("it could stay where 190 idle rollbacks an hour are allowed")
    assert recommend(ListenSettings(None, 120), 100_000, idle_per_hour=190)[0] == ListenSettings(
        19_000, 120
    )
    assert recommend(ListenSettings(None, 120), 100_000, idle_per_hour=189)[0] == ListenSettings(
        20_000, 121
    )


@pytest.mark.parametrize(("longest_ms", "is_hopeless"), [(119_999, False), (120_000, True)])
def test_where_on_message_takes_the_whole_lifetime_no_receive_timeout_is_safe(
    longest_ms: int, is_hopeless: bool
) -> None:
    """It is said, and the lifetime is raised; it could not stay."""
    chosen, reasons = recommend(ListenSettings(1, 120), longest_ms)
    said = "no receive timeout is safe with a lifetime of 120 s, as the longest on_message takes"
    assert reasons[0].startswith(said) is is_hopeless
    assert "could stay" not in reasons[0]
    assert chosen == ListenSettings(60_000, 181)
    assert problems_of(chosen, longest_ms) == []


@pytest.mark.parametrize(("sessions", "needed"), [(1, 3), (2, 3), (3, None)])
def test_more_work_than_the_sessions_have_time_for_is_said(
    sessions: int, needed: int | None
) -> None:
    """25 s of work come every 10 s: two and a half sessions."""
    arrivals = made.arrivals_at([n * 10_000 for n in range(101)])
    answer = advise(ListenSettings(94_000, 120, sessions), always(25_000), arrivals)
    said = [reason for reason in answer.reasons if reason.startswith("there is ")]
    if needed is None:
        assert said == []
    else:
        (reason,) = said
        assert reason.startswith(f"there is {2.5 / sessions:.2f} times the work")
        assert reason.endswith(f"at least {needed} sessions are needed")


def test_where_no_setting_is_safe_it_is_said() -> None:
    """A lifetime is at most 2,147,483 s."""
    assert recommend(ListenSettings(1_000), 2_147_422_000)[0] == ListenSettings(60_000, 2_147_483)
    with pytest.raises(AdviseError, match=r"no setting is safe: .* 2147484 s, .* at most 2147483"):
        recommend(ListenSettings(1_000), 2_147_422_001)


def test_a_short_timeout_costs_idle_rollbacks_and_is_lengthened() -> None:
    """One second is safe, and rolls back each second for nothing.

    The first message is worked on until 15 s; the second is there when the last receive ends.
    """
    arrivals = made.arrivals_at([0, 3_600_000])
    answer = advise(ListenSettings(1_000, 120), always(15_000), arrivals)
    assert (answer.problems, answer.recommended) == ([], ListenSettings(104_000, 120))
    assert answer.reasons[0].startswith("it is safe, but below 60 s a session can roll back more")
    assert answer.before is not None
    assert answer.after is not None
    assert answer.before.simulated.idle_rollbacks == 3_600 - 15 - 1
    assert answer.after.simulated.idle_rollbacks == 34


def test_without_a_lifetime_nothing_is_unsafe() -> None:
    """Lifetime 0."""
    setting = ListenSettings(110_000, 0)
    assert problems_of(setting, 10**6) == []
    kept, [reason] = recommend(setting, 10**6)
    assert (kept, reason.startswith("no transaction times out")) == (setting, True)
    for short in (None, 1, 59_999):
        chosen, [_, why] = recommend(ListenSettings(short, 0), 10**6)
        assert chosen == ListenSettings(60_000, 0)
        assert why.startswith("below 60 s a session can roll back more than 60 times an hour")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (ListenSettings(115_000), "0 of 3 transactions with a message are rolled back needlessly"),
        (ListenSettings(None), "0 of 3 transactions with a message are rolled back needlessly"),
        (ListenSettings(104_000), "0 of 3 transactions with a message are rolled back needlessly"),
    ],
)
def test_what_the_simulation_has_found_is_the_last_reason(
    setting: ListenSettings, said: str
) -> None:
    """The second message comes 110 s after a session was done with the first, the third at once."""
    arrivals = made.arrivals_at([0, 125_000, 125_000])
    reason = advise(setting, always(15_000), arrivals).reasons[-1]
    now = "; as set now 1 of 4" if setting.receive_timeout_ms == 115_000 else ""
    assert reason == f"tried on 3 messages: {said}{now}"


@given(
    st.integers(1, 300_000),
    st.integers(1, 300),
    st.integers(1, 4),
    st.integers(0, 200_000),
    st.integers(1, 10_000),
    st.integers(0, 99),
)
def test_L10_what_is_recommended_rolls_nothing_back_needlessly(
    timeout_ms: int, lifetime: int, sessions: int, longest_ms: int, margin_ms: int, seed: int
) -> None:
    """Whatever the setting was and however messages come, on_message being no longer than said."""
    arrivals = made.bursts(40, 60_000, 4, seed)
    setting = ListenSettings(timeout_ms, lifetime, sessions)
    durations = Durations((0.0, 1.0), (0, longest_ms))
    answer = advise(setting, durations, arrivals, margin_ms=margin_ms, seed=seed)
    assert problems_of(answer.recommended, longest_ms) == []
    again, [reason] = recommend(answer.recommended, longest_ms, margin_ms=margin_ms)
    assert (again, reason.startswith("it is safe: ")) == (answer.recommended, True)
    assert answer.before is not None
    assert answer.after is not None
    after = answer.after.simulated
    assert (after.needless, after.overlong, after.left) == (0, 0, 0)
    assert after.committed == after.messages
    assert answer.after.estimate.hit_share == 0
    # A setting with no problems had none either.
    assert bool(answer.problems) or not answer.before.simulated.needless


@pytest.mark.slow
def test_a_year_of_flights() -> None:
    """Boarding calls of JFK, available two hours before departure, on full minutes: bursts.

    At 115 s of 120 s some calls come too late in a receive; at what is recommended none does.
    """
    arrivals = arrivals_of(trace_of(flights_table()), "BOARDING.JFK")
    summary = summary_of(arrivals)
    assert summary.messages == 111_279
    assert summary.gap_variation is not None
    assert summary.gap_variation > 1.5
    answer = advise(ListenSettings(115_000, 120), always(15_000), arrivals)
    assert answer.before is not None
    assert answer.after is not None
    before, after = answer.before.simulated, answer.after.simulated
    assert (before.needless > 0, after.needless) == (True, 0)
    assert before.committed == after.committed == summary.messages
    assert before.taken == before.committed + before.needless
    assert before.idle_rollbacks < after.idle_rollbacks


def test_arrivals_are_delivery_times_and_refused_puts_never_arrive() -> None:
    """A delay moves an arrival, a delay longer than the life refuses the put (D7)."""
    trace = checked(
        pa.table(
            {
                "queue": ["Q1"] * 4 + ["Q2"],
                "put_ms": [1_000, 2_000, 3_000, 4_000, 5_000],
                "delay_ms": [9_000, None, 500, 0, 0],
                "life_ms": [None, 60_000, 499, None, None],
                "priority": [0, 0, 0, 9, 0],
            }
        ),
        "trace",
    )
    found = arrivals_of(trace, "Q1")
    assert found.available_ms.tolist() == [2_000, 4_000, 10_000]
    assert found.expire_at_ms.tolist() == [62_000, NEVER_MS, NEVER_MS]
    assert found.rank.tolist() == [1, 0, 2]
    summary = summary_of(found)
    assert (summary.gap_mean_ms, summary.gap_max_ms, summary.per_hour) == (4_000, 6_000, 900)
    with pytest.raises(AdviseError, match="there are 2 queues: name one of Q1, Q2"):
        arrivals_of(trace)
    with pytest.raises(AdviseError, match="no message on queue 'Q3'; it has Q1, Q2"):
        arrivals_of(trace, "Q3")


def test_durations_are_one_time_percentiles_or_a_sample() -> None:
    """The same seed deals them out in the same way; none is longer than the longest."""
    assert from_text("15s", duration_ms) == always(15_000)
    spread = from_text("p50=2s, p99=9s, max=15s", duration_ms)
    assert spread.at(np.array([0.0, 0.25, 0.5, 0.99, 1.0])).tolist() == [0, 1000, 2000, 9000, 15000]
    drawn = spread.drawn(10_000, seed=1)
    assert drawn.tolist() == spread.drawn(10_000, seed=1).tolist()
    assert np.median(drawn) == pytest.approx(2_000, rel=0.05)
    assert drawn.max() <= spread.longest_ms == 15_000
    assert sampled(np.array([300, 100, 200])).at(np.array([0, 0.5, 1])).tolist() == [100, 200, 300]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p50=2s", "has no max"),
        ("p50=2s,p50=3s,max=4s", "says p50 twice"),
        ("p50=5s,max=4s", "does not rise"),
        ("q50=5s,max=4s", "'q50' is not p1 to p99 or max"),
        ("p0=5s,max=6s", "'p0' is not p1"),
    ],
)
def test_wrong_percentiles_are_named(text: str, said: str) -> None:
    with pytest.raises(AdviseError, match=said):
        from_text(text, duration_ms)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (ListenSettings(0), r"receive_timeout_ms is 0, not a number from 1 to .* \(0 is ASF mode"),
        (ListenSettings(-1), "receive_timeout_ms is -1"),
        (ListenSettings(1, -1), "total_tran_lifetime_timeout_s is -1"),
        (ListenSettings(1, 1, 0), "max_sessions is 0"),
        (ListenSettings(1, 1, 1_001), "max_sessions is 1001, not a number from 1 to 1000"),
        (ListenSettings(1, 1, 1, -1), "bothresh is -1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(setting: ListenSettings, said: str) -> None:
    with pytest.raises(AdviseError, match=said):
        advise(setting, always(1))


def test_the_longest_cannot_be_shorter_than_one_that_was_measured() -> None:
    with pytest.raises(AdviseError, match="longest_on_message_ms is 14999, but one takes 15000"):
        advise(ListenSettings(1_000), always(15_000), longest_on_message_ms=14_999)
    longer = advise(ListenSettings(104_000), always(15_000), longest_on_message_ms=16_000)
    assert (longer.longest_on_message_ms, len(longer.problems)) == (16_000, 1)
