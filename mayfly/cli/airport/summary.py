"""Summaries of the demo: shares by airport, hour and day; comparison of lake and replay.

All functions take outcome tables of `mayfly.pipeline.spark.replay` about boarding calls, the
messages about flights.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.cli.airport.flights import (
    DAY_MS,
    LEAD_MS,
    MINUTE_MS,
    YEAR_START_MS,
    day_of_year,
    spelled,
)
from mayfly.lifetime.columns import NONE, Ints, ints
from mayfly.lifetime.life import State
from mayfly.pipeline.spark.replay import EXPIRED, GOT, REFUSED

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_HOUR_MS = 60 * MINUTE_MS


class CallEnd(NamedTuple):
    """The outcome of a message and when it ended (ms since 1970); None if it has not ended."""

    outcome: str
    ended_ms: int | None


class Difference(NamedTuple):
    """A message that ended in different ways in lake and replay, or not exactly once in one."""

    correl_id: bytes
    lake: tuple[CallEnd, ...]
    replay: tuple[CallEnd, ...]

    def __str__(self) -> str:
        """Return the message's id with its ends in the lake and in the replay, on one line."""
        return (
            f"{self.correl_id.decode()}: lake {_spelled(self.lake)}; replay {_spelled(self.replay)}"
        )


class Presence(NamedTuple):
    """The numbers of messages that are delayed and that can be got, at each of some moments.

    ``expired_count`` is the number of deadlines since the moment before.
    """

    moments_ms: Ints
    staged_count: Ints
    available_count: Ints
    expired_count: Ints


class AirportCalls(NamedTuple):
    """The messages of an airport on one day in put order, as columns; ``place`` counts from 1."""

    label: list[str]
    place: Ints
    put_ms: Ints
    deliver_at_ms: Ints
    ended_ms: Ints
    is_expired: npt.NDArray[np.bool_]


class Calendar(NamedTuple):
    """The share of expired messages of each day: a row per weekday, a column per week.

    NaN means that no such day exists. ``month_column`` has the middle of each month.
    """

    share: npt.NDArray[np.float64]
    label: npt.NDArray[np.str_]
    month_column: list[float]


def by_airport(outcomes: pa.Table) -> pa.Table:
    """Return the numbers of messages of each airport, and of all in a last row "all".

    The columns are airport, calls (messages), got, expired and share_expired.
    """
    shares = _shares(outcomes, "airport", airports(outcomes))
    return pa.concat_tables([shares, _shares(outcomes, "airport", pa.repeat("all", len(outcomes)))])


def by_hour(outcomes: pa.Table) -> pa.Table:
    """Return the numbers of messages by hour (0-23) of scheduled departure.

    The columns are hour, calls (messages), got, expired and share_expired.
    """
    return _shares(outcomes, "hour", pa.array(sched_ms(outcomes) % DAY_MS // _HOUR_MS))


def by_day(outcomes: pa.Table) -> pa.Table:
    """Return the numbers of messages by day of scheduled departure; 0 is 1 January.

    The columns are day, calls (messages), got, expired and share_expired.
    """
    return _shares(outcomes, "day", pa.array(_day(outcomes)))


def of_day(outcomes: pa.Table, month: int, day: int) -> pa.Table:
    """Return the rows of messages whose flight is scheduled on a day of 2013."""
    return outcomes.filter(pa.array(_day(outcomes) == day_of_year(month, day)))


def of_airport(outcomes: pa.Table, airport: str) -> pa.Table:
    """Return the rows of messages of one airport, such as "JFK"."""
    return outcomes.filter(pc.equal(airports(outcomes), airport))


def airports(outcomes: pa.Table) -> pa.ChunkedArray:
    """Return each message's airport, the last part of its queue name: ``BOARDING.JFK`` -> JFK."""
    return pc.list_element(pc.split_pattern(outcomes["queue"], ".", max_splits=1), 1)


def sched_ms(outcomes: pa.Table) -> Ints:
    """Return the scheduled departure of each message's flight, in ms since 1970."""
    return ints(outcomes["put_ms"]) + LEAD_MS


def presence(outcomes: pa.Table, moments_ms: Ints) -> Presence:
    """Return for each moment the numbers of delayed messages and of those that can be got.

    ``outcomes`` has a row for each message. A message counts from its put until before the
    millisecond of its end.
    """
    outcomes = outcomes.filter(pc.not_equal(outcomes["outcome"], REFUSED))
    put_ms, deliver_at_ms = ints(outcomes["put_ms"]), ints(outcomes["deliver_at_ms"])
    ended_ms = ints(outcomes["ended_ms"])
    gone_ms = ended_ms[ended_ms != NONE]
    expired_ms = ints(outcomes.filter(pc.equal(outcomes["outcome"], EXPIRED))["ended_ms"])
    put_count = _reached(put_ms, moments_ms)
    delivered_count = _reached(deliver_at_ms, moments_ms)
    expired_so_far = _reached(expired_ms, moments_ms)
    return Presence(
        moments_ms,
        put_count - delivered_count,
        delivered_count - _reached(gone_ms, moments_ms),
        np.diff(expired_so_far, prepend=expired_so_far[:1]),
    )


def lives_of(calls: pa.Table) -> AirportCalls:
    """Return the messages that were got or expired, in put order, with labels for the plot."""
    calls = calls.filter(pc.is_in(calls["outcome"], pa.array([GOT, EXPIRED])))
    calls = calls.sort_by([("put_ms", "ascending"), ("seq", "ascending")])
    ended_ms = ints(calls["ended_ms"])
    names = map(spelled, calls["correl_id"].to_pylist())
    ends = zip(names, calls["outcome"].to_pylist(), _clock(ended_ms), strict=True)
    return AirportCalls(
        [f"{name}: {outcome} at {clock}" for name, outcome, clock in ends],
        np.arange(1, len(calls) + 1),
        ints(calls["put_ms"]),
        ints(calls["deliver_at_ms"]),
        ended_ms,
        np.asarray(pc.equal(calls["outcome"], EXPIRED)),
    )


def calendar_of(by_day: pa.Table) -> Calendar:
    """Return the table of `by_day` arranged in weeks from Monday to Sunday."""
    days = np.asarray(by_day["day"])
    dates = np.datetime64("2013-01-01") + days
    # 1 January 2013 was a Tuesday.
    week, weekday = np.divmod(days + 1, 7)
    share = np.full((7, 53), np.nan)
    share[weekday, week] = np.asarray(by_day["share_expired"])
    label = np.full((7, 53), "", dtype="U60")
    rows = zip(dates, by_day["expired"].to_pylist(), by_day["calls"].to_pylist(), strict=True)
    label[weekday, week] = [f"{date}: {gone} of {calls} expired" for date, gone, calls in rows]
    months = dates.astype("datetime64[M]")
    columns = [float(week[months == month].mean()) for month in np.unique(months)]
    return Calendar(share, label, columns)


def worst_days(calendar: Calendar, count: int) -> list[tuple[str, int, int]]:
    """Return (label, week, weekday) of the days with the largest shares of expired messages.

    They are ``count`` days, the worst first. The label is such as ``8 Mar 31%``. Week and weekday
    are the column and the row in ``calendar``.
    """
    worst = np.argsort(np.nan_to_num(calendar.share), axis=None)[::-1][:count]
    days = []
    for weekday, week in zip(*np.unravel_index(worst, calendar.share.shape), strict=True):
        _, month, day = str(calendar.label[weekday, week])[:10].split("-")
        text = f"{int(day)} {MONTHS[int(month) - 1]} {calendar.share[weekday, week]:.0%}"
        days.append((text, int(week), int(weekday)))
    return days


def compare(lake: pa.Table, replay: pa.Table, discard_within_ms: int = 0) -> list[Difference]:
    """Return the messages that end differently in lake and replay; [] if all agree.

    Both tables have the columns correl_id, outcome and ended_ms. Rows of the lake for messages that
    were released are ignored. An expired message is discarded by a get or by the scan, so its end
    may be up to ``discard_within_ms`` after the deadline.
    """
    left, right = _ends(lake), _ends(replay)
    return [
        Difference(correl_id, left[correl_id], right[correl_id])
        for correl_id in sorted(left.keys() | right.keys())
        if not _agree(left[correl_id], right[correl_id], discard_within_ms)
    ]


def _agree(lake: tuple[CallEnd, ...], replay: tuple[CallEnd, ...], discard_within_ms: int) -> bool:
    """Return True if a message ended once in both tables, and in the same way.

    An expired message may end up to ``discard_within_ms`` later in the lake.
    """
    if lake == replay:
        return len(lake) == 1
    if [end.outcome for end in (*lake, *replay)] != [EXPIRED, EXPIRED]:
        return False
    discarded_ms, deadline_ms = lake[0].ended_ms, replay[0].ended_ms
    if discarded_ms is None or deadline_ms is None:
        return False
    return 0 <= discarded_ms - deadline_ms <= discard_within_ms


def _ends(rows: pa.Table) -> dict[bytes, tuple[CallEnd, ...]]:
    """Return how each message ended, by its correlation id, without rows of releases.

    The dict returns () for an id that it does not have.
    """
    final = rows.filter(pc.not_equal(rows["outcome"], State.RELEASED.value))
    columns = [final[name].to_pylist() for name in ("correl_id", "outcome", "ended_ms")]
    ends: dict[bytes, tuple[CallEnd, ...]] = defaultdict(tuple)
    for correl_id, outcome, ended_ms in zip(*columns, strict=True):
        ends[correl_id] += (CallEnd(outcome, ended_ms),)
    return ends


def _shares(outcomes: pa.Table, name: str, keys: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the numbers of messages for each key, sorted by key.

    ``keys`` has the key of each row of ``outcomes``, such as its airport.

    The columns are ``name``, calls (messages), got, expired and share_expired.
    """
    marked = pa.table(
        {
            name: keys,
            "got": pc.equal(outcomes["outcome"], GOT),
            "expired": pc.equal(outcomes["outcome"], EXPIRED),
        }
    )
    counted = marked.group_by(name).aggregate(
        [([], "count_all"), ("got", "sum"), ("expired", "sum")]
    )
    counts = [
        counted[column].cast(pa.int64()) for column in ("count_all", "got_sum", "expired_sum")
    ]
    share = pc.divide(counts[2].cast(pa.float64()), counts[0].cast(pa.float64()))
    columns = [counted[name], *counts, share]
    return pa.table(columns, [name, "calls", "got", "expired", "share_expired"]).sort_by(name)


def _reached(times_ms: Ints, moments_ms: Ints) -> Ints:
    """Return for each of ``moments_ms`` how many of ``times_ms`` are not after it."""
    return np.searchsorted(np.sort(times_ms), moments_ms, side="right")


def _day(outcomes: pa.Table) -> Ints:
    """Return the day of each message's scheduled departure; 0 is 1 January."""
    return (sched_ms(outcomes) - YEAR_START_MS) // DAY_MS


def _spelled(ends: tuple[CallEnd, ...]) -> str:
    """Return the ends of a message as text, such as "got at 1362700000000"; "nothing" if none."""
    return ", ".join(f"{end.outcome} at {end.ended_ms}" for end in ends) or "nothing"


def _clock(at_ms: Ints) -> list[str]:
    """Return epoch ms as texts HH:MM:SS in UTC."""
    return [
        str(moment)[11:]
        for moment in np.datetime_as_string(at_ms.astype("datetime64[ms]"), unit="s")
    ]
