"""The calls of a day as a stream: what is due when, and that a repeated batch is the same."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mayfly.cli.airport.flights import DAY_MS, DELAY_MS, LIFE_MS, MINUTE_MS, Flight, flights_of_day
from mayfly.cli.airport.wall_clock import (
    CallsReader,
    CallsSource,
    Compression,
    deadline_ms,
    write_calls,
)
from mayfly.runtime.clocks import SystemClock

FACTOR, SLOW_FACTOR = 3_600, 60
EVERY = ReadAllAvailable()


@pytest.fixture(scope="module")
def day() -> list[Flight]:
    """Every 20th flight of 8 March, in put order."""
    return flights_of_day(3, 8)[::20]


def _after(day: list[Flight], past_ms: int, factor: int = FACTOR) -> Compression:
    """Return a day of which so much, in its own time, is over now."""
    return Compression(day[0].put_ms, SystemClock().now_ms() - past_ms // factor, factor)


def test_a_moment_of_the_day_is_there_rounded_down_and_back() -> None:
    compression = Compression(10_000, 1_000_000, FACTOR)
    assert compression.on_the_wall(10_000) == 1_000_000
    assert compression.on_the_wall(10_000 + FACTOR - 1) == 1_000_000
    assert compression.on_the_wall(10_000 + FACTOR) == 1_000_001
    assert compression.in_the_day(1_000_001) == 10_000 + FACTOR
    assert compression.minutes(1_000) == 60.0


def test_there_are_no_calls_before_the_day_begins(tmp_path: Path, day: list[Flight]) -> None:
    """The stream runs before its file is there: the first batch is empty."""
    reader = CallsReader(tmp_path / "calls.parquet")
    start = reader.initialOffset()
    assert reader.latestOffset(start, EVERY) == start == {"calls": 0}
    [share] = reader.partitions(start, start)
    assert list(reader.read(share)) == []


def test_calls_come_when_their_moment_has_come_and_none_twice(
    tmp_path: Path, day: list[Flight]
) -> None:
    path = tmp_path / "calls.parquet"
    reader = CallsReader(path)
    middle_ms = day[len(day) // 2].put_ms - day[0].put_ms
    write_calls(day, _after(day, middle_ms + MINUTE_MS, SLOW_FACTOR), "REPORTS", path)
    before = sum(flight.put_ms - day[0].put_ms <= middle_ms for flight in day)
    end = reader.latestOffset({"calls": 3}, EVERY)
    # The clock goes on while it is looked at: the other half of the day takes minutes.
    assert before <= end["calls"] < len(day)
    [share] = reader.partitions({"calls": 3}, {"calls": before})
    [rows] = reader.read(share)
    assert rows["correl_id"].to_pylist() == [flight.correl_id for flight in day[3:before]]
    assert [again.equals(rows) for again in reader.read(share)] == [True]


def test_all_calls_have_come_when_the_day_is_over(tmp_path: Path, day: list[Flight]) -> None:
    path = tmp_path / "calls.parquet"
    write_calls(day, _after(day, 2 * DAY_MS), "REPORTS", path)
    assert CallsReader(path).latestOffset({"calls": 0}, EVERY) == {"calls": len(day)}


def test_a_row_names_moments_of_the_machine(tmp_path: Path, day: list[Flight]) -> None:
    """Not intervals: a batch that comes late shifts nothing."""
    path = tmp_path / "calls.parquet"
    compression = _after(day, 2 * DAY_MS)
    write_calls(day, compression, "REPORTS", path)
    [share] = CallsReader(path).partitions({"calls": 0}, {"calls": 1})
    [rows] = CallsReader(path).read(share)
    put_ms = compression.on_the_wall(day[0].put_ms)
    row = rows.to_pylist()[0]
    assert row["deliver_at_ms"] - put_ms == DELAY_MS // FACTOR == 1_000
    assert row["expire_at_ms"] - put_ms == LIFE_MS // FACTOR == 3_508
    assert row["expire_at_ms"] == deadline_ms(day[0], compression)
    assert (row["queue"], row["reply_to_q"]) == (day[0].queue, "REPORTS")
    names = CallsSource({}).schema().names
    assert names == rows.schema.names
    assert isinstance(rows, pa.RecordBatch)
