"""Carry out what ``mayfly schedule`` is asked for, by id or for all that match, with receipts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

import typer

from mayfly.cli.managers import connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.schedule_filters import Wanted
from mayfly.cli.show import print_json
from mayfly.client.connection import Schedule
from mayfly.verbs.schedule import Receipt, ScheduleFilter

#: A longer operation shows its progress on a terminal.
_SILENT_SECONDS = 1.0


class Action(NamedTuple):
    """An operation: its verb, the receipts that mean success, and the calls that do it."""

    verb: str
    wanted: tuple[Receipt, ...]
    one: Callable[[Schedule, bytes], Receipt]
    bulk: Callable[[Schedule, ScheduleFilter], Iterator[int]]


class Request(NamedTuple):
    """The messages of an operation, by ids or by filter, and the form of its output."""

    name: str
    path: str | None
    msg_ids: list[bytes] | None
    wanted: Wanted
    is_all: bool
    is_sure: bool
    as_json: bool


@contextmanager
def opened_schedule(name: str, path: str | None, *, delivers: bool = False) -> Iterator[Schedule]:
    """Open the schedule of a queue manager for a block, in the name of the command's user.

    With ``delivers`` due messages are put on their queues before the command ends: a message that
    it reported as released can be got then. Warns when the delay processor does not run.
    """
    with connected(name, path, program="mayfly schedule") as connection:
        yield connection.schedule
        if delivers:
            connection.admin.run_due()
        status = connection.admin.delay_processor_status()
        if status != "running":
            what = f"nothing is delivered on {name}, delay processor {status}"
            typer.echo(f"mayfly: {what}", err=True)


def carry_out(action: Action, request: Request) -> None:
    """Do it and print the receipts; CommandFailed with NOTHING when one is not what was asked."""
    _check(action, request)
    missed: Counter[Receipt] = Counter()
    delivers = Receipt.RELEASED in action.wanted
    with opened_schedule(request.name, request.path, delivers=delivers) as waiting:
        if request.msg_ids:
            missed = _one_by_one(action, waiting, request.msg_ids, as_json=request.as_json)
        else:
            _all(action, waiting, request)
    if missed:
        reasons = ", ".join(f"{count} {receipt}" for receipt, count in sorted(missed.items()))
        said = f"{missed.total()} of {len(request.msg_ids or ())} not {action.wanted[0]}: {reasons}"
        if missed[Receipt.UNKNOWN]:
            said += f"; mayfly why {request.name} ID tells more"
        raise CommandFailed(ExitCode.NOTHING, said)


def _check(action: Action, request: Request) -> None:
    """Raise CommandFailed unless it is clear what is meant: ids, or --all."""
    has_filter = not request.wanted.is_everything
    if request.msg_ids and (request.is_all or has_filter):
        raise CommandFailed(ExitCode.USAGE, "give ids, or a filter with --all, not both")
    if not request.msg_ids and not request.is_all:
        missing = "all that match: add --all" if has_filter else "what? Give ids, or --all"
        raise CommandFailed(ExitCode.USAGE, f"{action.verb} {missing}")
    if request.is_all and not has_filter and not request.is_sure and not sys.stdin.isatty():
        raise CommandFailed(
            ExitCode.USAGE, f"{action.verb} --all without a filter is everything: add --yes"
        )


def _one_by_one(
    action: Action, waiting: Schedule, msg_ids: list[bytes], *, as_json: bool
) -> Counter[Receipt]:
    """Do each MsgId on its own and return the counts of receipts that mean no success.

    A printed receipt stands, also when a later message is refused.
    """
    missed: Counter[Receipt] = Counter()
    for msg_id in msg_ids:
        receipt = action.one(waiting, msg_id)
        count = receipt.message_count
        if as_json:
            told = {"msg_id": msg_id.hex(), "receipt": receipt, "message_count": count}
            print_json(told, indent=None)
        else:
            print(f"{msg_id.hex()}  {receipt}{f', {count:,} messages' if count > 1 else ''}")
        sys.stdout.flush()
        if receipt not in action.wanted:
            missed[receipt] += 1
    return missed


def _all(action: Action, waiting: Schedule, request: Request) -> None:
    """All that match; that there is none is no mistake, so that it can be said twice."""
    if request.wanted.is_everything and not request.is_sure:
        question = f"{action.verb} all {waiting.count():,} messages that wait on {request.name}?"
        typer.echo(f"{question} [y/N] ", nl=False, err=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandFailed(ExitCode.NOTHING, "nothing was done")
    done = action.wanted[0]
    count = _last(action.bulk(waiting, request.wanted.at(waiting.now_ms())), done)
    if request.as_json:
        print_json({"receipt": done, "message_count": count}, indent=None)
    else:
        print(f"{count:,} {done}")


def _last(counts: Iterator[int], done: Receipt) -> int:
    """Return the last count; a terminal is told those on the way."""
    count, is_shown, is_complete, start_seconds = 0, False, False, perf_counter()
    is_terminal = sys.stderr.isatty()
    try:
        for count in counts:
            if is_terminal and perf_counter() - start_seconds > _SILENT_SECONDS:
                typer.echo(f"\r{count:,} {done}", nl=False, err=True)
                is_shown = True
        is_complete = True
    finally:
        if is_shown:
            typer.echo("\r\033[K", nl=False, err=True)
        if count and not is_complete:
            # Interrupted, or the disk is full: batches before that stay done.
            typer.echo(f"mayfly: {count:,} {done} until then", err=True)
    return count
