"""``mayfly demo``: a real day of flights on two clocks, and the whole year in Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from mayfly.cli.lake_engine import pipeline_errors
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import JsonOption, moment, print_json, quiet_stderr
from mayfly.cli.values import local_path

if TYPE_CHECKING:
    from mayfly.cli.airport.day import DaySnapshot
    from mayfly.cli.airport.run import DemoResult
    from mayfly.cli.airport.wall_clock import WallSeen

OutOption = Annotated[
    Path,
    typer.Option("--out", parser=local_path, metavar="FOLDER", help="Where files are written."),
]
DateOption = Annotated[
    str, typer.Option("--date", metavar="2013-MM-DD", help="The day that is lived through.")
]
_DATE = re.compile(r"2013-(\d{2})-(\d{2})")


def demo(
    *, out: OutOption = Path("out"), date: DateOption = "2013-03-08", as_json: JsonOption = False
) -> None:
    """Live through a day of real flights twice, then replay their year in Spark.

    Each flight that left New York in 2013 is a boarding call: put 3 hours before its schedule, kept
    back for an hour, got when the flight leaves, expired half an hour after its schedule. The day
    passes on a virtual clock, exact to the millisecond, and on the wall clock, an hour a second:
    there Spark puts the calls. Exit code 1 when queue managers, lakes, replay and the known answer
    do not agree.

    \b
    Example, the day before Thanksgiving:
      mayfly demo --date 2013-11-27
    """
    month, day = _month_and_day(date)
    with quiet_stderr() as terminal, _watcher(terminal) as watcher, pipeline_errors():
        watcher.step("Getting ready")
        from mayfly.cli.airport.run import DemoPlan, run_demo

        result = run_demo(DemoPlan(out, month, day), watcher)
    print_result(result, as_json=as_json)


def print_result(result: DemoResult, *, as_json: bool) -> None:
    """Print the result of the demo; raises CommandFailed (exit code 1) if it has problems."""
    from mayfly.cli.airport.run import print_summary

    if as_json:
        print_json(result.as_json())
    else:
        print_summary(result)
    if result.problems:
        raise CommandFailed(
            ExitCode.NOTHING, f"{len(result.problems)} do not agree, first: {result.problems[0]}"
        )


def _month_and_day(date: str) -> tuple[int, int]:
    """Return month and day of a date ``2013-MM-DD``; raises CommandFailed for another text."""
    from mayfly.cli.airport.flights import day_of_year

    found = _DATE.fullmatch(date)
    if found is None:
        raise CommandFailed(ExitCode.USAGE, f"--date {date!r} is not 2013-MM-DD")
    month, day = int(found[1]), int(found[2])
    with wrong_values():
        day_of_year(month, day)
    return month, day


class _Watcher:
    """Shows the progress of the demo on a terminal: a bar, and counts or a picture of the day."""

    def __init__(self, progress: Progress) -> None:
        """Begin without a step; ``progress`` draws the bars."""
        self._progress = progress
        self._below: RenderableType = Text()
        self._task: TaskID | None = None

    def picture(self) -> RenderableType:
        """Return the bars, with the latest counts or table below them."""
        return Group(self._progress, self._below)

    def step(self, text: str) -> None:
        """Show that a step begins; the step before it is shown as done."""
        self.finish()
        self._task = self._progress.add_task(text, total=None)

    def day(self, seen: DaySnapshot, done: float, lake_rows: int) -> None:
        """Show the counts of the day on the virtual clock; ``done`` is its share from 0 to 1.

        ``lake_rows`` is the number of ledger rows in the lake.
        """
        self._done(done)
        self._below = Text(
            f"  {moment(seen.now_ms)[-8:-3]}  waiting {seen.staged_count:>3}   "
            f"on the queues {seen.available_count:>3}   got {seen.got_count:>3}   "
            f"expired {seen.expired_count:>3}   in the lake {lake_rows:>5,}",
            style="bold",
        )

    def wall(self, seen: WallSeen) -> None:
        """Show a table of the day on the wall clock."""
        from mayfly.cli.airport.run import picture

        self._done(seen.done)
        self._below = picture(seen)

    def _done(self, done: float) -> None:
        """Set the bar of the step to a share from 0 to 1; does nothing before the first step."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=1)

    def finish(self) -> None:
        """Show the last step as done; does nothing before the first step."""
        if self._task is not None:
            self._progress.update(self._task, completed=1, total=1)
            self._progress.stop_task(self._task)


@contextmanager
def _watcher(terminal: TextIO) -> Iterator[_Watcher]:
    """Return a context with a watcher that draws on a terminal; in a pipe it draws nothing."""
    console = Console(file=terminal)
    columns = (
        SpinnerColumn(finished_text="[green]✓[/green]"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    watcher = _Watcher(Progress(*columns))
    live = Live(get_renderable=watcher.picture, console=console, refresh_per_second=10)
    with live if console.is_terminal else nullcontext():
        yield watcher
        watcher.finish()
