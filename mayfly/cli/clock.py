"""``mayfly clock``: compare a queue manager's own time with the wall clock, and adjust it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from mayfly.cli.managers import (
    FolderOption,
    Name,
    PlaceOption,
    bring_back,
    connected,
    folder_of,
    is_here,
    operating,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode, group
from mayfly.cli.show import JsonOption, is_confirmed, moment, print_json
from mayfly.cli.values import duration_ms
from mayfly.client.connection import Administration
from mayfly.lifetime.times import SLEW_MS, spelled_duration
from mayfly.verbs.facts import OwnTime

clock = group()
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@clock.command()
def show(name: Name, *, path: PlaceOption = None, as_json: JsonOption = False) -> None:
    """Show both times, and the effects of accepting the wall clock.

    A queue manager keeps its own time in two cases: the wall clock steps back, or forward by more
    than an hour; or its folder has a time that is later than the wall clock.

    \b
    Example:
      mayfly clock show QM1
    """
    with connected(name, path, program="mayfly clock") as connection:
        found = Administration(connection.call).own_time()
    if as_json:
        print_json({**found._asdict(), "difference_ms": found.difference_ms})
    else:
        print(*lines_of_clock(name, found), sep="\n")


@clock.command()
def advance(
    name: Name,
    by_ms: Annotated[
        int, typer.Argument(metavar="DURATION", parser=duration_ms, help="As in 60s or 2d.")
    ],
    *,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Advance the time of a queue manager that mayfly serve --dev --virtual-clock serves.

    All work that falls due on the way is done when this ends: releases, ends of waits, scans.

    \b
    Example:
      mayfly clock advance QM1 60s
    """
    with operating(name, folder_of(name, path)) as connection:
        found = Administration(connection.call).advance_clock(by_ms)
    if as_json:
        print_json({"own_ms": found.own_ms})
    else:
        print(f"{name} has {moment(found.own_ms)} UTC")


@clock.command()
def accept(
    name: Name, *, is_sure: YesOption = False, path: PlaceOption = None, as_json: JsonOption = False
) -> None:
    """Set a queue manager's own time to the wall clock; shows the effects first.

    Forward, this works at any time. Back, it works only while the queue manager is not served:
    messages that have expired by its own time are discarded first, with reports, so that none comes
    back to life. Exit code 1 when nothing was done.

    \b
    Example:
      mayfly clock accept QM1 --yes
    """
    with connected(name, path, program="mayfly clock") as connection:
        found = Administration(connection.call).own_time()
        if abs(found.difference_ms) <= SLEW_MS:
            raise CommandFailed(
                ExitCode.NOTHING, f"nothing to accept: {_difference_text(name, found)}"
            )
        is_back = found.difference_ms < 0
        if is_back and not is_here(connection):
            raise CommandFailed(
                ExitCode.USAGE,
                f"{_difference_text(name, found)}; time goes back only while it is not served: "
                "end mayfly serve, accept, serve again",
            )
        _ask(name, found, is_sure=is_sure)
        if not is_back:
            Administration(connection.call).follow_wall()
    if is_back:
        bring_back(name, path)
    if as_json:
        print_json({**found._asdict(), "difference_ms": found.difference_ms})
    else:
        print(f"{name} has the time of the wall clock")


def _ask(name: str, found: OwnTime, *, is_sure: bool) -> None:
    """Print the effects of accepting the wall clock, and ask for consent unless ``is_sure``.

    Raises CommandFailed if the user refuses, or without a terminal to ask on.
    """
    for line in lines_of_clock(name, found):
        typer.echo(line, err=True)
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(ExitCode.USAGE, "nothing was done: add --yes to accept it")
    if not is_confirmed("accept the wall clock?"):
        raise CommandFailed(ExitCode.NOTHING, "nothing was done")


def lines_of_clock(name: str, found: OwnTime) -> Iterator[str]:
    """Yield lines: both times, their difference, and the effects of accepting the wall clock."""
    yield f"own time    {moment(found.own_ms)} UTC"
    yield f"wall clock  {moment(found.wall_ms)} UTC, {found.step_count} steps since the start"
    yield _difference_text(name, found)
    difference_ms = found.difference_ms
    if difference_ms > SLEW_MS:
        yield "accepting the wall clock, forward:"
        yield f"  {found.due_count:,} delayed messages are released at once"
        yield f"  {found.expiring_count:,} messages expire at once"
    elif difference_ms < -SLEW_MS:
        apart = spelled_duration(-difference_ms)
        yield "accepting the wall clock, back:"
        yield f"  {found.expired_count:,} expired messages are discarded first"
        yield (
            f"  {found.put_ahead_count:,} messages that were put later than the wall clock says "
            "are moved back with their deadlines"
        )
        yield (
            f"  other deadlines and delivery times come {apart} later; "
            f"{found.waiting_count:,} messages have one"
        )


def _difference_text(name: str, found: OwnTime) -> str:
    """Return the difference of a queue manager's time and the wall clock as a sentence."""
    difference_ms = found.difference_ms
    if abs(difference_ms) <= SLEW_MS:
        return f"{name} has the time of the wall clock"
    place = "behind" if difference_ms > 0 else "ahead of"
    return f"{name} is {spelled_duration(abs(difference_ms))} {place} the wall clock"
