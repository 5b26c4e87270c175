"""Carry out what ``mayfly schedule`` is asked for, by id or for all that match, with receipts."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import typer

from mayfly.cli.managers import opened
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import print_json
from mayfly.engine.schedule import Receipt, Schedule, ScheduleFilter

_EVERYTHING = ScheduleFilter()
#: Whoever waits longer than this at a terminal is told how far it is.
_SILENT_SECONDS = 1.0


class Action(NamedTuple):
    """What is done: its verb, the receipts that are what was asked for, and how it is done."""

    verb: str
    wanted: tuple[Receipt, ...]
    one: Callable[[Schedule, bytes], Receipt]
    bulk: Callable[[Schedule, ScheduleFilter], Iterator[int]]


class Request(NamedTuple):
    """To what it is done, by ids or by filter, and how that is told."""

    name: str
    path: Path | None
    msg_ids: list[bytes] | None
    wanted: ScheduleFilter
    is_all: bool
    is_sure: bool
    as_json: bool


@contextmanager
def opened_schedule(name: str, path: Path | None) -> Iterator[Schedule]:
    """Open the schedule of a queue manager for a block, in the name of who runs the command."""
    with (
        opened(name, path) as queue_manager,
        queue_manager.session(user=_user(), program="mayfly schedule") as session,
    ):
        yield session.schedule


def carry_out(action: Action, request: Request) -> None:
    """Do it and print the receipts; CommandFailed with NOTHING when one is not what was asked."""
    _check(action, request)
    with opened_schedule(request.name, request.path) as waiting:
        if request.msg_ids:
            _one_by_one(action, waiting, request.msg_ids, as_json=request.as_json)
        else:
            _all(action, waiting, request)


def _check(action: Action, request: Request) -> None:
    """Raise CommandFailed unless it is clear what is meant: ids, or --all."""
    has_filter = request.wanted != _EVERYTHING
    if request.msg_ids and (request.is_all or has_filter):
        raise CommandFailed(ExitCode.USAGE, "give ids, or a filter with --all, not both")
    if not request.msg_ids and not request.is_all:
        missing = "all that match: add --all" if has_filter else "what? Give ids, or --all"
        raise CommandFailed(ExitCode.USAGE, f"{action.verb} {missing}")
    if request.is_all and not has_filter and not request.is_sure and not sys.stdin.isatty():
        raise CommandFailed(
            ExitCode.USAGE, f"{action.verb} --all without a filter is everything: add --yes"
        )


def _one_by_one(action: Action, waiting: Schedule, msg_ids: list[bytes], *, as_json: bool) -> None:
    """Each on its own: what was printed is done, also when a later one is refused."""
    missed: Counter[Receipt] = Counter()
    for msg_id in msg_ids:
        receipt = action.one(waiting, msg_id)
        if as_json:
            print_json({"msg_id": msg_id.hex(), "receipt": receipt}, indent=None)
        else:
            print(f"{msg_id.hex()}  {receipt}")
        sys.stdout.flush()
        if receipt not in action.wanted:
            missed[receipt] += 1
    if missed:
        reasons = ", ".join(f"{count} {receipt}" for receipt, count in sorted(missed.items()))
        raise CommandFailed(
            ExitCode.NOTHING,
            f"{missed.total()} of {len(msg_ids)} not {action.wanted[0]}: {reasons}",
        )


def _all(action: Action, waiting: Schedule, request: Request) -> None:
    """All that match; that there is none is no mistake, so that it can be said twice."""
    if request.wanted == _EVERYTHING and not request.is_sure:
        question = f"{action.verb} all {waiting.count():,} messages that wait on {request.name}?"
        typer.echo(f"{question} [y/N] ", nl=False, err=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandFailed(ExitCode.NOTHING, "nothing was done")
    done = action.wanted[0]
    count = _last(action.bulk(waiting, request.wanted), done)
    if request.as_json:
        print_json({"receipt": done, "count": count})
    else:
        print(f"{count:,} {done}")


def _last(counts: Iterator[int], done: Receipt) -> int:
    """Return the last count; a terminal is told those on the way."""
    count, is_shown, start_seconds = 0, False, perf_counter()
    is_terminal = sys.stderr.isatty()
    for count in counts:
        if is_terminal and perf_counter() - start_seconds > _SILENT_SECONDS:
            typer.echo(f"\r{count:,} {done}", nl=False, err=True)
            is_shown = True
    if is_shown:
        typer.echo("\r\033[K", nl=False, err=True)
    return count


def _user() -> str:
    """Return who runs the command, empty where the machine does not know."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
