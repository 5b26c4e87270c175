"""Runs the whole demo: a real day on a virtual clock and on the wall clock, its year in Spark.

The results are compared: balances of the store, lake, replay, known answer.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas  # noqa: F401  # imported here: two threads that import it at once fail
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from mayfly.cli.airport import plots, summary, wall_clock
from mayfly.cli.airport.day import (
    Day,
    DaySnapshot,
    LedgerCopy,
    book_problems,
    drive_day,
    ends_in_lake,
    make_token,
    open_queue_manager,
    problems_of,
)
from mayfly.cli.airport.flights import (
    DAY_MS,
    YEAR_EXPIRED_COUNT,
    YEAR_GOT_COUNT,
    Flight,
    flights_of_day,
    flights_table,
    trace_of,
)
from mayfly.cli.airport.plots import draw_wall_png
from mayfly.cli.airport.wall_clock import COMPRESSION, WallDay, WallSeen, live_by_the_wall
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.spark.lake import read_ledger
from mayfly.pipeline.spark.replay import EXPIRED, GOT, ordered, replay_in_process, replay_in_spark
from mayfly.pipeline.spark.session import create_session
from mayfly.queue_manager import QueueManager
from mayfly.servers.flight import FlightServer

#: Marks a folder as the demo's own, so that nothing else is ever removed.
MARK = ".mayfly-demo"
#: Files and folders that the demo makes, and removes when it is run again.
_MADE = ("queue-manager", "lake", "wall-clock", "year", "pictures", "summary.json")
#: Shortest duration of the live day, so that spectators can follow.
DAY_SECONDS = 6.0
#: Number of times that the day waits for the lake to catch up, so that both proceed together,
#: however slow the machine is.
_CATCH_UPS = 4
_LOOK_SECONDS = 0.1
_HOUR_MS = 3600 * SECOND_MS
_YEAR_COUNT = YEAR_GOT_COUNT + YEAR_EXPIRED_COUNT


class DemoWatcher(Protocol):
    """Receives the progress of the demo."""

    def step(self, text: str) -> None:
        """Called when a step begins; the step before it is done."""

    def day(self, seen: DaySnapshot, done: float, lake_rows: int) -> None:
        """Called during the day on the virtual clock, with the numbers ``seen``.

        ``done`` is the share of the day that is over, from 0 to 1; ``lake_rows`` is the number of
        ledger rows in the lake.
        """

    def wall(self, seen: WallSeen) -> None:
        """Called during the day on the wall clock, with the numbers ``seen``."""


@dataclass(frozen=True)
class DemoPlan:
    """The input of a demo: date in 2013, folder to write to, and the flights of the year.

    The day on the virtual clock takes ``day_seconds`` or more. The day on the wall clock passes
    ``compression`` times as fast as the real one.
    """

    out: Path
    month: int = 3
    day: int = 8
    day_seconds: float = DAY_SECONDS
    compression: int = COMPRESSION
    flights: Callable[[], pa.Table] = flights_table


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo; ``problems`` is empty if everything agrees.

    ``lives`` are the ends of the day's calls according to the lake, ``wall`` is the day on the wall
    clock, ``year_outcomes`` the outcome table of the year replayed in Spark. Of the ``lake_rows``
    ledger rows, ``rows_during_day`` were in the lake before the day was over.
    """

    plan: DemoPlan
    day: Day
    lives: pa.Table
    year_outcomes: pa.Table
    wall: WallDay
    lake_rows: int
    rows_during_day: int
    batch_count: int
    difference_count: int
    problems: list[str]
    files: list[Path]

    def day_counts(self) -> dict[str, int]:
        """Return the day's numbers of messages put, got and expired (by the lake), and of reports.

        The keys are calls, got, expired and reports.
        """
        counts = _counts(self.lives) | {"calls": len(self.day.msg_ids)}
        return counts | {"reports": len(self.day.reports)}

    def year_counts(self) -> dict[str, int]:
        """Return the year's numbers of messages put (calls), got and expired, by name."""
        return _counts(self.year_outcomes)

    def as_json(self) -> dict[str, Any]:
        """Return the results of the demo as a dict for JSON; times are in ms.

        The keys are ok, date, day, lake, differences, wall_clock, year, by_airport, by_hour,
        problems and files. ``ok`` is true without problems.
        """
        return {
            "ok": not self.problems,
            "date": f"2013-{self.plan.month:02d}-{self.plan.day:02d}",
            "day": self.day_counts(),
            "lake": {
                "rows": self.lake_rows,
                "rows_during_day": self.rows_during_day,
                "batches": self.batch_count,
            },
            "differences": self.difference_count,
            "wall_clock": wall_clock.as_json(self.wall, self.day.got_ms),
            "year": self.year_counts(),
            "by_airport": summary.by_airport(self.lives).to_pylist(),
            "by_hour": summary.by_hour(self.lives).to_pylist(),
            "problems": self.problems,
            "files": [str(file) for file in self.files],
        }


@dataclass(frozen=True)
class _LiveDay:
    """The day on the virtual clock, as queue manager and lake have recorded it."""

    day: Day
    lives: pa.Table
    lake_rows: int
    rows_during_day: int
    batch_count: int
    problems: list[str]


def run_demo(plan: DemoPlan, watcher: DemoWatcher) -> DemoResult:
    """Run the demo, write its files to the plan's folder, and return the results.

    Disagreements are in ``problems`` of the result. Raises FileExistsError if the folder has files
    that the demo did not make.
    """
    _make_room(plan.out)
    watcher.step("Reading the flights of 2013 while Spark starts")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(plan.flights)
        with _session(plan.out) as spark:
            flights = reading.result()
            live = _live_day(plan, spark, flights, watcher)
            wall = _wall_day(plan, spark, live.day.flights, watcher)
            watcher.step(f"Replaying all {len(flights):,} flights of the year in Spark")
            year = _replay_year(plan.out / "year", spark, flights)
    watcher.step("Comparing and drawing")
    differences = summary.compare(live.lives, summary.of_day(year, plan.month, plan.day))
    problems = [*live.problems, *map(str, differences[:10]), *_year_problems(year, flights)]
    problems += wall_clock.problems_of(wall, live.day.got_ms)
    result = DemoResult(
        plan,
        live.day,
        live.lives,
        year,
        wall,
        live.lake_rows,
        live.rows_during_day,
        live.batch_count,
        len(differences),
        problems,
        _draw(plan, year, wall),
    )
    (plan.out / "summary.json").write_text(json.dumps(result.as_json(), indent=2) + "\n")
    return result


def _make_room(out: Path) -> None:
    """Remove the files of an earlier run from ``out``, and mark the folder as the demo's.

    Raises FileExistsError if the folder has files that the demo did not make.
    """
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).exists():
        raise FileExistsError(f"{out} holds files that the demo did not make; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    for name in _MADE:
        made = out / name
        if made.is_dir():
            shutil.rmtree(made)
        else:
            made.unlink(missing_ok=True)


@contextmanager
def _session(out: Path) -> Iterator[SparkSession]:
    """Return a context with a Spark session made in this thread, stopped at the end.

    Its tables are in the folder ``out``. Spark would not find the sink in a session of another
    thread.
    """
    # Many short jobs: the settings for tests, but the three airports side by side.
    conf = {
        "spark.sql.warehouse.dir": str(out.absolute() / "lake"),
        "spark.sql.shuffle.partitions": "3",
    }
    spark = create_session(app_name="mayfly demo", conf=conf, fast=True)
    try:
        yield spark
    finally:
        spark.stop()


def _live_day(
    plan: DemoPlan, spark: SparkSession, flights: pa.Table, watcher: DemoWatcher
) -> _LiveDay:
    """Run the day on the virtual clock while a thread fills the lake; return the results."""
    lake, folder = plan.out / "lake", plan.out / "queue-manager"
    of_day = flights_of_day(plan.month, plan.day, flights)
    queue_manager, clock = open_queue_manager(of_day, folder)
    token_file = make_token(folder)
    with (
        queue_manager,
        FlightServer(queue_manager, port=0, token=token_file.read_text()) as server,
        LedgerCopy(server.url, token_file, lake) as copy,
    ):
        watcher.step(f"Living through {plan.day} {summary.MONTHS[plan.month - 1]} 2013")
        pace = _Pace(plan, queue_manager, copy, watcher)
        day = drive_day(queue_manager, clock, of_day, pace.report)
        rows_during_day = copy.row_count
        watcher.step("Letting the copy finish, and proving the lake complete")
        copy.finish()
        lake_rows = read_ledger(spark, lake).count()
        problems = [*problems_of(day), *book_problems(queue_manager, lake, lake_rows)]
    lives = ends_in_lake(spark, lake)
    return _LiveDay(day, lives, lake_rows, rows_during_day, copy.batch_count, problems)


class _Pace:
    """Slows down the day, so that it takes ``plan.day_seconds`` and the lake can follow."""

    def __init__(
        self, plan: DemoPlan, queue_manager: QueueManager, copy: LedgerCopy, watcher: DemoWatcher
    ) -> None:
        """Start to measure the time; the day is to take ``plan.day_seconds`` seconds or more.

        ``copy`` fills the lake, for which the day waits now and then. ``watcher`` gets the
        snapshots.
        """
        self._day_seconds = plan.day_seconds
        self._begin_ms = queue_manager.now_ms()
        self._ledger = queue_manager.ledger
        self._copy = copy
        self._watcher = watcher
        self._began_seconds = time.perf_counter()
        self._catch_up_count = 0
        self._position = 0
        self._pause = threading.Event()

    def report(self, seen: DaySnapshot) -> None:
        """Report a snapshot of the day, then wait while the day is too fast.

        It is too fast if it would end before ``day_seconds``, or if the lake is behind.
        """
        done = min((seen.now_ms - self._begin_ms) / DAY_MS, 1.0)
        self._watcher.day(seen, done, self._copy.row_count)
        early_seconds = done * self._day_seconds - (time.perf_counter() - self._began_seconds)
        if early_seconds > 0:
            self._pause.wait(early_seconds)
        if done * _CATCH_UPS >= self._catch_up_count + 1:
            self._wait_for_lake()
            self._watcher.day(seen, done, self._copy.row_count)

    def _wait_for_lake(self) -> None:
        """Wait until the lake has the ledger rows that existed at the call before this one.

        Raises the error of the copy if it has failed.
        """
        while self._copy.row_count < self._position:
            self._copy.check()
            self._pause.wait(_LOOK_SECONDS)
        self._catch_up_count += 1
        self._position = self._ledger.last_position()


def _wall_day(
    plan: DemoPlan, spark: SparkSession, flights: Sequence[Flight], watcher: DemoWatcher
) -> WallDay:
    """Run the day on the wall clock, in the new folder ``wall-clock``; return its results."""
    hours = plan.compression * SECOND_MS / _HOUR_MS
    watcher.step(f"The same day on the wall clock, {hours:g} h a second: Spark puts, gates get")
    folder = plan.out / "wall-clock"
    folder.mkdir()
    return live_by_the_wall(spark, flights, folder, plan.compression, watcher.wall)


def _replay_year(folder: Path, spark: SparkSession, flights: pa.Table) -> pa.Table:
    """Replay the year in Spark; return its outcome table, which is also written to a file."""
    folder.mkdir()
    trace_file = folder / "trace.parquet"
    pq.write_table(trace_of(flights), trace_file)
    outcomes = ordered(replay_in_spark(spark.read.parquet(str(trace_file))).toArrow())
    pq.write_table(outcomes, folder / "outcomes.parquet")
    return outcomes


def _year_problems(outcomes: pa.Table, flights: pa.Table) -> list[str]:
    """Return differences of the year in Spark from a replay here and from the known answer.

    [] if all agree. The known answer is for all flights of the year only.
    """
    problems = []
    if not outcomes.equals(replay_in_process(trace_of(flights))):
        problems.append("the year replayed in Spark is not the year replayed in one process")
    counts = _counts(outcomes)
    known = {"calls": _YEAR_COUNT, "got": YEAR_GOT_COUNT, "expired": YEAR_EXPIRED_COUNT}
    if len(flights) == _YEAR_COUNT and counts != known:
        problems.append(f"the year gave {counts}, the known answer is {known}")
    return problems


def _counts(outcomes: pa.Table) -> dict[str, int]:
    """Return the numbers of messages in an outcome table: calls (all), got and expired."""
    kinds = outcomes["outcome"].to_pylist()
    return {"calls": len(kinds), "got": kinds.count(GOT), "expired": kinds.count(EXPIRED)}


def _draw(plan: DemoPlan, year: pa.Table, wall: WallDay) -> list[Path]:
    """Draw all plots; return the paths to show at the end.

    These are the plots, then the other files and folders of the demo. ``year`` is the outcome table
    of the year's replay, ``wall`` the results on the wall clock.
    """
    folder = plan.out / "pictures"
    folder.mkdir()
    names = ("day.png", "wall-clock.png", "year.png", "demo.html")
    day_png, wall_png, year_png, page = (folder / name for name in names)
    draw_wall_png(wall, summary.of_day(year, plan.month, plan.day), wall_png)
    plots.draw_day_png(year, plan.month, plan.day, day_png)
    plots.draw_year_png(year, year_png)
    plots.write_html(year, plan.month, plan.day, page)
    made = ("lake", "year", "queue-manager", "wall-clock", "summary.json")
    return [day_png, wall_png, year_png, page, *(plan.out / name for name in made)]
