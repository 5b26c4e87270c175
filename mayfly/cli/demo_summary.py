"""What the demo says at its end: two messages, a day and a year in numbers, and where to look."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from mayfly.cli.show import moment
from mayfly.demo import summary
from mayfly.demo.day import Day
from mayfly.demo.flights import (
    DELAY_MS,
    EXPIRY_TENTHS,
    LIFE_MS,
    MINUTE_MS,
    SOURCE,
    spelled,
)
from mayfly.demo.plots import AIRPORTS
from mayfly.demo.run import DemoResult
from mayfly.lifetime.times import SECOND_MS

_BAR_WIDTH = 20


def print_summary(result: DemoResult) -> None:
    """Print it all."""
    console = Console(highlight=False)
    plan = result.plan
    date = f"{plan.day} {summary.MONTHS[plan.month - 1]} 2013"
    console.print()
    _print_waited(console, result.day)
    _print_expired(console, result.day)
    console.print(_hours(result.day_outcomes, f"{date}, live, by hour of scheduled departure"))
    console.print(_airports(result.day_outcomes, f"{date}, live, by airport"))
    console.print(_airports(result.year_outcomes, "The whole of 2013, replayed in Spark"))
    _print_checks(console, result)
    console.print("\n[bold]Look[/bold]")
    for file in result.files:
        console.print(f"  {file}", soft_wrap=True)
    console.print(f"\nSource: {SOURCE}; times are local.", style="dim")


def _print_waited(console: Console, day: Day) -> None:
    waited = day.waited
    put_ms = waited.flight.put_ms
    due_ms = put_ms + DELAY_MS
    got = "never"
    if waited.got_ms is not None:
        left = f"expiry still {waited.remaining_tenths:,} tenths"
        got = f"{moment(waited.got_ms)}, when the flight left; {left}"
    console.print("[bold]A message that waited for its time[/bold]")
    _facts(
        console,
        ("flight", spelled(waited.flight.correl_id)),
        ("MsgId", waited.msg_id.hex()),
        ("put", f"{moment(put_ms)}, delivery delay {DELAY_MS // MINUTE_MS} min"),
        ("asked for", f"{_precise(due_ms - 1)}: {_presence(waited.found_early)}"),
        ("asked for", f"{_precise(due_ms)}: {_presence(waited.found_in_time)}"),
        ("got", got),
    )


def _print_expired(console: Console, day: Day) -> None:
    expired = [flight for flight in day.expired if flight.departed_ms is not None] or day.expired
    if not expired:
        return
    flight = expired[0]
    msg_id = day.msg_ids[flight.correl_id]
    left = "never: cancelled" if flight.departed_ms is None else moment(flight.departed_ms)
    console.print("[bold]A message that expired, and its report[/bold]")
    _facts(
        console,
        ("flight", spelled(flight.correl_id)),
        ("MsgId", msg_id.hex()),
        ("put", f"{moment(flight.put_ms)}, expiry {EXPIRY_TENTHS:,} tenths"),
        ("deadline", moment(flight.put_ms + LIFE_MS)),
        ("it left", left),
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
    return "there" if was_found else "nothing there"


def _facts(console: Console, *facts: tuple[str, str]) -> None:
    for name, value in facts:
        console.print(f"  [dim]{name:<10}[/dim]{value}", soft_wrap=True)
    console.print()


def _airports(outcomes: pa.Table, title: str) -> Table:
    rows = summary.by_airport(outcomes).to_pylist()
    return _shares(title, "airport", [(AIRPORTS.get(r["airport"], "all"), r) for r in rows])


def _hours(outcomes: pa.Table, title: str) -> Table:
    rows = summary.by_hour(outcomes).to_pylist()
    return _shares(title, "hour", [(f"{r['hour']:02d}", r) for r in rows])


def _shares(title: str, key: str, rows: list[tuple[str, dict[str, int | float]]]) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
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


def _print_checks(console: Console, result: DemoResult) -> None:
    day, year = result.day_counts(), result.year_counts()
    present = day["calls"] - day["got"] - day["expired"]
    ended = f"{day['got']:,} got + {day['expired']:,} expired"
    arrived = f"{result.rows_during_day:,} of them while the day went on"
    console.print("\n[bold]Does it all agree?[/bold]")
    _facts(
        console,
        ("conserved", f"{day['calls']:,} put = {ended} + {present} present"),
        ("reports", f"{day['reports']:,}, one for each call that expired"),
        ("lake", f"{result.lake_rows:,} rows in {result.batch_count} batches, {arrived}"),
        ("compared", f"{result.difference_count} differences between lake and replay"),
        ("the year", f"{year['calls']:,} = {year['got']:,} got + {year['expired']:,} expired"),
    )
    if result.problems:
        console.print("[bold red]It does not agree:[/bold red]")
        for problem in result.problems:
            console.print(f"  {problem}", markup=False, soft_wrap=True)
    else:
        console.print(
            "[bold green]Queue manager, lake, replay and the known answer agree.[/bold green]"
        )


def _precise(at_ms: int) -> str:
    return f"{moment(at_ms)}.{at_ms % SECOND_MS:03d}"
