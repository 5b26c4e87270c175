"""The demo on a terminal: a table of the day while it passes, and the summary at the end."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mayfly.cli.airport import summary, wall_clock
from mayfly.cli.airport.day import Day
from mayfly.cli.airport.flights import (
    DELAY_MS,
    EXPIRY_TENTHS,
    LIFE_MS,
    MINUTE_MS,
    SOURCE,
    spelled,
)
from mayfly.cli.airport.plots import AIRPORTS
from mayfly.cli.airport.run import DemoResult
from mayfly.cli.airport.wall_clock import LateSummary, QueueSeen, WallDay, WallSeen
from mayfly.cli.show import moment
from mayfly.lifetime.times import SECOND_MS, spelled_moment

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
