"""Runs the whole demo: a real day on a virtual clock and on the wall clock, its year in Spark.

On a terminal it shows a table of the day while it passes, and the summary at the end.
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
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

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
    DELAY_MS,
    EXPIRY_TENTHS,
    LIFE_MS,
    MINUTE_MS,
    SOURCE,
    YEAR_EXPIRED_COUNT,
    YEAR_GOT_COUNT,
    Flight,
    flights_of_day,
    flights_table,
    spelled,
    trace_of,
)
from mayfly.cli.airport.plots import AIRPORTS, draw_wall_png
from mayfly.cli.airport.wall_clock import (
    COMPRESSION,
    LateSummary,
    QueueSeen,
    WallDay,
    WallSeen,
    live_by_the_wall,
)
from mayfly.cli.show import moment
from mayfly.lifetime.times import SECOND_MS, spelled_moment
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


_PICTURE_WIDTH = 44
_TO_COME = "·"
#: The parts of a bar, from the left: ended calls first, staged ones last.
_PARTS = {"got": "green", "expired": "red", "available": "dodger_blue1", "staged": "grey62"}
#: The columns of the table, with their colors.
_HEADINGS = {
    "put": "",
    "staged": "grey62",
    "available": "dodger_blue1",
    "got": "green",
    "expired": "red",
}
_BAR_WIDTH = 20
#: The most calls that are named as having ended differently on the wall clock.
_NAMED_MISSES = 3


def picture(seen: WallSeen) -> RenderableType:
    """Return a table of the queues at one moment, with numbers of messages and a bar for each."""
    every = QueueSeen(
        "all", *(sum(column) for column in zip(*(q[1:] for q in seen.queues), strict=True))
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"  {moment(seen.day_ms)[-8:-3]}", style="bold")
    for name, style in _HEADINGS.items():
        table.add_column(name, justify="right", style=style, header_style=style, min_width=4)
    table.add_column("")
    for queue in (*seen.queues, every):
        name = AIRPORTS.get(queue.queue.rpartition(".")[2], queue.queue)
        counts = [f"{getattr(queue, part):,}" for part in _HEADINGS]
        table.add_row(f"  {name}", *counts, _picture_bar(queue))
    totals = Text(
        f"  reports {seen.reported:,}   rows in the lake {seen.lake_rows:,}", style="bold"
    )
    return Group(table, totals)


def _picture_bar(queue: QueueSeen) -> Text:
    """Return a bar of all messages of a queue's day, with a color for each state."""
    bar = Text()
    done = drawn = 0
    for part, style in _PARTS.items():
        done += getattr(queue, part)
        until = round(_PICTURE_WIDTH * min(done / queue.calls, 1.0))
        bar.append("█" * (until - drawn), style=style)
        drawn = until
    return bar.append(_TO_COME * (_PICTURE_WIDTH - drawn), style="grey37")


def print_summary(result: DemoResult) -> None:
    """Print two example messages, the day and the year in numbers, the checks, and the files."""
    console = Console(highlight=False)
    plan = result.plan
    date = f"{plan.day} {summary.MONTHS[plan.month - 1]} 2013"
    _print_waited(console, result.day)
    _print_expired(console, result.day)
    _title(console, f"{date}, live, by hour of scheduled departure")
    console.print(_hours(result.lives))
    _title(console, f"{date}, live, by airport")
    console.print(_airports(result.lives))
    _title(console, "The whole of 2013, replayed in Spark")
    console.print(_airports(result.year_outcomes))
    _print_wall(console, result)
    _print_checks(console, result)
    _title(console, "Look")
    for file in result.files:
        console.print(f"  {file}", markup=False, soft_wrap=True)
    console.print(f"\nSource: {SOURCE}; times are local.", style="dim")


def _print_waited(console: Console, day: Day) -> None:
    """Print the steps of the example message that a get asked for too early."""
    waited = day.waited
    put_ms = waited.flight.put_ms
    due_ms = put_ms + DELAY_MS
    got = "never"
    if waited.got_ms is not None:
        left = f"expiry still {waited.remaining_tenths:,} tenths"
        got = f"{moment(waited.got_ms)}, when the flight left; {left}"
    _title(console, "A message that waited for its time")
    _facts(
        console,
        ("flight", spelled(waited.flight.correl_id)),
        ("MsgId", waited.msg_id.hex()),
        ("put", f"{moment(put_ms)}, delivery delay {DELAY_MS // MINUTE_MS} min"),
        ("asked for", f"{spelled_moment(due_ms - 1)}: {_presence(waited.found_early)}"),
        ("asked for", f"{spelled_moment(due_ms)}: {_presence(waited.found_in_time)}"),
        ("got", got),
    )


def _print_expired(console: Console, day: Day) -> None:
    """Print the steps of one expired message and its report; nothing if none expired."""
    expired = [flight for flight in day.expired if flight.departed_ms is not None] or day.expired
    if not expired:
        return
    flight = expired[0]
    msg_id = day.msg_ids[flight.correl_id]
    left = "never: cancelled" if flight.departed_ms is None else moment(flight.departed_ms)
    _title(console, "A message that expired, and its report")
    _facts(
        console,
        ("flight", spelled(flight.correl_id)),
        ("MsgId", msg_id.hex()),
        ("put", f"{moment(flight.put_ms)}, expiry {EXPIRY_TENTHS:,} tenths"),
        ("deadline", moment(flight.put_ms + LIFE_MS)),
        ("departed", left),
    )
    for report in day.reports:
        if report.about == msg_id:
            _facts(
                console,
                ("report", report.msg_id.hex()),
                ("sent", f"{moment(report.put_ms)}, feedback MQFB_EXPIRATION"),
                ("CorrelId", report.about.hex()),
            )


def _presence(was_found: bool) -> str:
    """Return "there" if a message was found, else "nothing there"."""
    return "there" if was_found else "nothing there"


def _facts(console: Console, *facts: tuple[str, str]) -> None:
    """Print each (name, value) pair on a line."""
    for name, value in facts:
        console.print(f"  [dim]{name:<10}[/dim]{value}", soft_wrap=True)


def _title(console: Console, text: str) -> None:
    """Print a heading in bold, after a blank line."""
    console.print(f"\n[bold]{text}[/bold]")


def _airports(outcomes: pa.Table) -> Table:
    """Return a table of the shares of expired messages by airport."""
    rows = summary.by_airport(outcomes).to_pylist()
    return _shares("airport", [(AIRPORTS.get(row["airport"], "all"), row) for row in rows])


def _hours(outcomes: pa.Table) -> Table:
    """Return a table of the shares of expired messages by hour of departure."""
    rows = summary.by_hour(outcomes).to_pylist()
    return _shares("hour", [(f"{row['hour']:02d}", row) for row in rows])


def _shares(key: str, rows: list[tuple[str, dict[str, int | float]]]) -> Table:
    """Return a table with a row for each (name, counts), and a bar for the share expired.

    ``key`` is the heading of the names.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column(key)
    for name in ("calls", "got", "expired", "share"):
        table.add_column(name, justify="right")
    table.add_column("")
    for name, row in rows:
        counts = [f"{row[column]:,}" for column in ("calls", "got", "expired")]
        share = row["share_expired"]
        bar = "█" * round(share * _BAR_WIDTH)
        table.add_row(name, *counts, f"{share:.1%}", f"[red]{bar}[/red]")
    return table


def _print_wall(console: Console, result: DemoResult) -> None:
    """Print the numbers of the day on the wall clock, and messages that ended differently."""
    wall = result.wall
    counts = wall_clock.counts_of(wall)
    hours = wall.compression.minutes(SECOND_MS) / 60
    put_late = _late(wall, wall_clock.put_lateness(wall))
    got_late = _late(wall, wall_clock.get_lateness(wall))
    changed = wall_clock.changed(wall, result.day.got_ms)
    ended = f"{counts['got']:,} got + {counts['expired']:,} expired + {counts['present']:,} present"
    arrived = f"{wall.rows_during_day:,} of them while the day went on"
    _title(console, f"The same day once more, on the wall clock: {hours:g} h of 2013 a second")
    _facts(
        console,
        ("conserved", f"{counts['calls']:,} put = {ended}, as the lake says"),
        ("put", f"by Spark in {wall.batch_count} batches, {put_late}"),
        ("got", f"by gates as flights left, {got_late}"),
        ("reports", f"{len(wall.reported):,}, one for each call that expired"),
        ("lake", f"{wall.lake_rows:,} rows, {arrived}"),
        ("the same?", f"{len(wall.flights) - len(changed):,} of {len(wall.flights):,} ended alike"),
        *(_miss(wall, miss) for miss in changed[:_NAMED_MISSES]),
    )
    if len(changed) > _NAMED_MISSES:
        _facts(console, ("", f"and {len(changed) - _NAMED_MISSES} more"))


def _late(wall: WallDay, late: LateSummary) -> str:
    """Return the lateness of puts or gets as text, in ms and in minutes of the day.

    It says within what time half of them came, and all.
    """
    half, every = (f"{ms} ms = {wall.compression.minutes(ms):.1f} min" for ms in late)
    return f"half of them within {half}, all within {every}"


def _miss(wall: WallDay, miss: wall_clock.Changed) -> tuple[str, str]:
    """Return ("", text) about a message that expired only on the wall clock.

    It is a line for :func:`_facts`, without a name. The text says how late ``miss``, the message,
    was.
    """
    spare, late = (wall.compression.minutes(ms) for ms in (miss.spare_ms, miss.late_ms))
    name = spelled(miss.flight.correl_id)
    return "", f"{name} left {spare:.1f} min before its deadline, its call was {late:.1f} min late"


def _print_checks(console: Console, result: DemoResult) -> None:
    """Print the numbers that must agree, and the problems if they do not."""
    day, year = result.day_counts(), result.year_counts()
    present = day["calls"] - day["got"] - day["expired"]
    ended = f"{day['got']:,} got + {day['expired']:,} expired"
    arrived = f"{result.rows_during_day:,} of them while the day went on"
    _title(console, "Does it all agree?")
    _facts(
        console,
        ("conserved", f"{day['calls']:,} put = {ended} + {present} present"),
        ("reports", f"{day['reports']:,}, one for each call that expired"),
        ("lake", f"{result.lake_rows:,} rows in {result.batch_count} batches, {arrived}"),
        ("compared", f"{result.difference_count} differences between lake and replay"),
        ("the year", f"{year['calls']:,} = {year['got']:,} got + {year['expired']:,} expired"),
    )
    if result.problems:
        console.print("\n[bold red]It does not agree:[/bold red]")
        for problem in result.problems:
            console.print(f"  {problem}", markup=False, soft_wrap=True)
    else:
        console.print(
            "\n[bold green]Queue manager, lake, replay and the known answer agree.[/bold green]"
        )
