"""What the demo says at its end: two messages, a day and a year in numbers, and where to look."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from mayfly.cli.show import moment
from mayfly.demo import summary
from mayfly.demo.day import Day
from mayfly.demo.flights import LIFE_MS, MINUTE_MS, SOURCE, spelled
from mayfly.demo.plots import AIRPORTS
from mayfly.demo.run import DemoResult

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
    flight = waited.flight
    due_ms = flight.put_ms + 60 * MINUTE_MS
    early, in_time = ("there" if found else "nothing there" for found in _found(day))
    console.print("[bold]A message that waited for its time[/bold]")
    _facts(
        console,
        ("flight", spelled(flight.correl_id)),
        ("MsgId", waited.msg_id.hex()),
        ("put", f"{moment(flight.put_ms)}, delivery delay 60 min"),
        ("asked for", f"{_precise(due_ms - 1)}: {early}"),
        ("asked for", f"{_precise(due_ms)}: {in_time}"),
        (
            "got",
            "never"
            if waited.got_ms is None
            else f"{moment(waited.got_ms)}, when the flight left; "
            f"{waited.remaining_tenths:,} tenths of its life were left",
        ),
    )


def _found(day: Day) -> tuple[bool, bool]:
    return day.waited.found_early, day.waited.found_in_time


def _print_expired(console: Console, day: Day) -> None:
    reports = {report.about: report for report in day.reports}
    expired = [f for f in day.expired if f.departed_ms is not None] or day.expired
    if not expired:
        return
    flight = expired[0]
    msg_id = day.msg_ids[flight.correl_id]
    report = reports.get(msg_id)
    left = "never: cancelled" if flight.departed_ms is None else moment(flight.departed_ms)
    console.print("[bold]A message that expired, and its report[/bold]")
    _facts(
        console,
        ("flight", spelled(flight.correl_id)),
        ("MsgId", msg_id.hex()),
        ("put", f"{moment(flight.put_ms)}, expiry 126,300 tenths"),
        ("deadline", moment(flight.put_ms + LIFE_MS)),
        ("left", left),
        ("report", "none" if report is None else f"{report.msg_id.hex()}"),
        *(
            []
            if report is None
            else [
                ("", f"sent {moment(report.put_ms)}, feedback MQFB_EXPIRATION, CorrelId as above")
            ]
        ),
    )


def _facts(console: Console, *facts: tuple[str, str]) -> None:
    for name, value in facts:
        console.print(f"  [dim]{name:<10}[/dim] {value}", soft_wrap=True)
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
    day = result.as_json()["day"]
    year = result.as_json()["year"]
    console.print("\n[bold]Does it all agree?[/bold]")
    _facts(
        console,
        ("conserved", f"{day['calls']:,} put = {day['got']:,} got + {day['expired']:,} expired"),
        ("reports", f"{day['reports']:,}, one for each call that expired"),
        (
            "lake",
            (
                f"{result.lake_rows:,} ledger rows in {result.batch_count} batches, "
                f"{result.rows_during_day:,} of them while the day went on"
            ),
        ),
        (
            "compared",
            f"{result.difference_count} differences between lake and replay, call by call",
        ),
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
    return f"{moment(at_ms)}.{at_ms % 1000:03d}"
