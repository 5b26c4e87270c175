"""The numbers of the demo: tables by airport and hour, calls present, lake against replay."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mayfly.cli.airport import flights, summary
from mayfly.cli.airport.flights import DELAY_MS, LIFE_MS, MINUTE_MS
from mayfly.cli.airport.summary import CallEnd, Difference
from mayfly.lifetime.life import State
from mayfly.pipeline.spark.replay import EXPIRED, GOT, WhatIf, replay_in_process

DEADLINE_MS = 1_357_019_130_000


@pytest.fixture(scope="module")
def outcomes() -> pa.Table:
    """The year, replayed."""
    return replay_in_process(flights.trace_of(flights.flights_table()))


def _rows(*rows: tuple[bytes, str, int | None]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    types = [pa.binary(), pa.string(), pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, ["correl_id", "outcome", "ended_ms"])


def aligned_lines(table: pa.Table) -> list[str]:
    """Return a summary table as aligned text, its header first; shares in percent."""
    columns = [[name, *map(_cell, table[name].to_pylist())] for name in table.column_names]
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return ["  ".join(map(str.rjust, row, widths)) for row in rows]


def _cell(value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else value


def test_by_airport_adds_up_to_the_known_answer(outcomes: pa.Table) -> None:
    """Three airports and their sum, as aligned text."""
    assert aligned_lines(summary.by_airport(outcomes)) == [
        "airport    calls      got  expired  share_expired",
        "    EWR  120,835   97,682   23,153          19.2%",
        "    JFK  111,279   94,175   17,104          15.4%",
        "    LGA  104,662   88,373   16,289          15.6%",
        "    all  336,776  280,230   56,546          16.8%",
    ]


def test_by_hour_and_by_day_count_each_call_once(outcomes: pa.Table) -> None:
    """Hours and days of the scheduled departure, not of the put."""
    hours, days = summary.by_hour(outcomes), summary.by_day(outcomes)
    assert hours["hour"].to_pylist() == [1, *range(5, 24)]
    assert hours.slice(1, 1).to_pylist() == [
        {"hour": 5, "calls": 1_953, "got": 1_886, "expired": 67, "share_expired": 67 / 1_953}
    ]
    assert days["day"].to_pylist() == list(range(365))
    for table in (hours, days):
        assert sum(table["got"].to_pylist()) == 280_230
        assert sum(table["expired"].to_pylist()) == 56_546


def test_of_day_and_of_airport_take_the_flights_of_that_day(outcomes: pa.Table) -> None:
    """The snow of 8 March: 674 of 979 expired, 179 of them at JFK."""
    day = summary.of_day(outcomes, 3, 8)
    assert set(day["correl_id"].to_pylist()) == {f.correl_id for f in flights.flights_of_day(3, 8)}
    assert day["outcome"].to_pylist().count(EXPIRED) == 674
    kennedy = summary.of_airport(day, "JFK")
    assert kennedy["outcome"].to_pylist().count(EXPIRED) == 179
    assert set(kennedy["queue"].to_pylist()) == {"BOARDING.JFK"}


def test_presence_counts_a_call_from_its_put_to_the_millisecond_of_its_end(
    outcomes: pa.Table,
) -> None:
    """Staged, then available, then gone; an expiry is counted at its deadline."""
    expired = outcomes.filter(pc.equal(outcomes["outcome"], EXPIRED)).slice(0, 1)
    put_ms = expired["put_ms"][0].as_py()
    offsets = [-1, 0, DELAY_MS - 1, DELAY_MS, LIFE_MS - 1, LIFE_MS, LIFE_MS + 1]
    seen = summary.presence(expired, put_ms + np.array(offsets))
    assert seen.staged_count.tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert seen.available_count.tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert seen.expired_count.tolist() == [0, 0, 0, 0, 0, 1, 0]


def test_presence_leaves_out_what_was_refused(outcomes: pa.Table) -> None:
    """A delay longer than the life: nothing was ever on a queue."""
    trace = flights.trace_of(flights.flights_table()).slice(0, 10)
    refused = replay_in_process(trace, WhatIf(delay_ms=LIFE_MS + 1))
    seen = summary.presence(refused, np.asarray(refused["put_ms"]) + MINUTE_MS)
    assert seen.staged_count.tolist() == [0] * 10
    assert seen.available_count.tolist() == [0] * 10
    assert len(summary.lives_of(refused).label) == 0


def test_lives_say_what_became_of_each_call(outcomes: pa.Table) -> None:
    """One place each in put order, with the flight and the end spelled out."""
    lives = summary.lives_of(summary.of_airport(summary.of_day(outcomes, 1, 1), "EWR"))
    assert lives.label[0] == "UA 1545 EWR-IAH, 05:15: got at 05:17:00"
    assert lives.place.tolist() == list(range(1, len(lives.label) + 1))
    assert (np.diff(lives.put_ms) >= 0).all()


def test_the_calendar_has_each_day_on_its_weekday(outcomes: pa.Table) -> None:
    """1 January 2013 was a Tuesday, 8 March a Friday; the first Monday is empty."""
    calendar = summary.calendar_of(summary.by_day(outcomes))
    assert np.isnan(calendar.share[0, 0])
    assert calendar.label[1, 0].startswith("2013-01-01: ")
    assert calendar.label[4, 9] == "2013-03-08: 674 of 979 expired"
    assert np.count_nonzero(~np.isnan(calendar.share)) == 365
    assert len(calendar.month_column) == 12
    assert summary.worst_days(calendar, 2) == [("8 Mar 69%", 9, 4), ("9 Feb 65%", 5, 5)]


def test_compare_finds_no_difference_in_equal_ends_whatever_their_order() -> None:
    """Released lives go on elsewhere and are passed over."""
    lake = _rows(
        (b"a", State.RELEASED, 5),
        (b"b", EXPIRED, DEADLINE_MS),
        (b"a", GOT, 9),
        (b"b", "released", 6),
    )
    assert summary.compare(lake, _rows((b"a", GOT, 9), (b"b", EXPIRED, DEADLINE_MS))) == []


def test_compare_names_what_differs_is_missing_or_ended_twice() -> None:
    """By outcome, by one millisecond, on one side only, and twice in the lake."""
    lake = _rows((b"a", GOT, 9), (b"b", GOT, 9), (b"c", GOT, 9), (b"d", GOT, 9), (b"d", GOT, 9))
    replay = _rows((b"a", EXPIRED, 9), (b"b", GOT, 10), (b"e", GOT, 9), (b"d", GOT, 9))
    got = CallEnd(GOT, 9)
    differences = summary.compare(lake, replay)
    assert differences == [
        Difference(b"a", (got,), (CallEnd(EXPIRED, 9),)),
        Difference(b"b", (got,), (CallEnd(GOT, 10),)),
        Difference(b"c", (got,), ()),
        Difference(b"d", (got, got), (got,)),
        Difference(b"e", (), (got,)),
    ]
    assert str(differences[2]) == "c: lake got at 9; replay nothing"


@pytest.mark.parametrize(
    ("late_ms", "agrees"), [(-1, False), (0, True), (5_000, True), (5_001, False)]
)
def test_E8_a_discard_may_follow_the_deadline_by_the_scan(late_ms: int, agrees: bool) -> None:
    """E8: an expired message stays until it is met; a get is compared to the millisecond."""
    replay = _rows((b"a", EXPIRED, DEADLINE_MS))
    lake = _rows((b"a", EXPIRED, DEADLINE_MS + late_ms))
    assert (summary.compare(lake, replay, discard_within_ms=5_000) == []) is agrees
    assert (summary.compare(lake, replay) == []) is (late_ms == 0)
    got_late = summary.compare(_rows((b"a", GOT, 9)), _rows((b"a", GOT, 10)), 5_000)
    assert len(got_late) == 1
