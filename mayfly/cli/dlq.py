"""``mayfly dlq``: list dead letters, and apply rules to them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Annotated

import typer

from mayfly.cli.managers import Name, PlaceOption, connected, is_here
from mayfly.cli.messages import browsed
from mayfly.cli.outcomes import CommandFailed, ExitCode, group
from mayfly.cli.show import JsonOption, aligned, counted, note, print_json, remaining
from mayfly.cli.signals import stop_event
from mayfly.cli.values import local_path
from mayfly.client.connection import Connection
from mayfly.mqi.constants import MQWI_UNLIMITED
from mayfly.mqi.reasons import cause_name
from mayfly.services.dead_letter import (
    DeadLetter,
    DeadLetterHandler,
    Outcome,
    RuleTable,
    RuleTableError,
    dead_letter_of,
    dead_letter_queue,
    parse_patterns,
    parse_rules,
    preview,
)
from mayfly.services.dead_letter.dead_letters import letter_as_json
from mayfly.services.dead_letter.handler import summary_as_json
from mayfly.verbs.messages import Message

#: Interval of progress messages on a terminal.
_SHOW_SECONDS = 1.0
_PAGE_COUNT = 1_000
#: So soon a handler on a server notices that it is to stop.
_REMOTE_WAIT_MS = 1_000
HEAD = ("MsgId", "reason", "for queue", "age", "expires in", "bytes")


dlq = group()

RulesFile = Annotated[
    Path,
    typer.Argument(
        parser=local_path, metavar="RULES_FILE", help="The rule table; see docs/WHY.md."
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Argument(metavar="QMGR", help="Name of the queue manager, if not INPUTQM's."),
]
QueueOption = Annotated[
    str, typer.Option("--queue", metavar="QUEUE", help="Its queue, if not the dead-letter queue.")
]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where", metavar="PATTERNS", help="Only these, as in 'REASON(MQRC_Q_FULL) DESTQ(A*)'."
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")]


@dlq.command()
def run(
    rules_file: RulesFile,
    name: ManagerOption = None,
    *,
    queue: QueueOption = "",
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a rule table to the dead-letter queue, as runmqdlq does.

    Works as long as WAIT in the table says, or until interrupted, and then prints what was done.
    Each letter is a unit of work of its own, and keeps its deadline wherever it is put.

    \b
    Example:
      mayfly dlq run rules.dlq QM1
    """
    with _refusals(str(rules_file)):
        # Editors of Windows begin a file with a mark of its coding.
        table = parse_rules(rules_file.read_text("utf-8-sig", errors="replace"))
    manager_name = name or table.manager.strip()
    if not manager_name:
        raise CommandFailed(ExitCode.USAGE, f"name a queue manager: {rules_file} has no INPUTQM")
    with (
        connected(manager_name, path, program="mayfly dlq") as connection,
        _handling(connection, table, queue) as handler,
    ):
        if table.wait_ms == MQWI_UNLIMITED:
            note(f"waits for letters on {handler.queue}; an interrupt ends it")
        handler.run()
    _print(handler.counts, handler.failures, as_json=as_json)
    if failures := failed_with(handler):
        note(failures)


@dlq.command("list")
def list_(
    name: Name, *, queue: QueueOption = "", path: PlaceOption = None, as_json: JsonOption = False
) -> None:
    """List dead letters: reason, target queue, age, and how long each one still lives.

    With --json as one JSON line each, and [] when there is none. Exit code 1 when there is none.

    \b
    Example:
      mayfly dlq list QM1
    """
    count = 0
    with connected(name, path, program="mayfly dlq") as connection:
        dead_queue = queue or dead_letter_queue(connection)
        rows: list[tuple[str, ...]] = [] if as_json else [HEAD]
        for message in browsed(connection, dead_queue):
            count += 1
            letter = dead_letter_of(message)
            if as_json:
                print_json(letter_as_json(message, letter), indent=None)
            else:
                rows.append(letter_cells(message, letter))
            if len(rows) > _PAGE_COUNT:
                print(*aligned(rows), sep="\n")
                rows = []
    if not count:
        if as_json:
            print_json([])
        raise CommandFailed(ExitCode.NOTHING, f"nothing on {dead_queue}")
    if rows:
        print(*aligned(rows), sep="\n")


@dlq.command()
def redrive(
    name: Name,
    *,
    where: WhereOption = "",
    queue: QueueOption = "",
    path: PlaceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put dead letters once to the queues they were meant for; they keep their deadlines.

    Exit code 1 when one could not be put, which then stays, or when there was none. With --dry-run
    nothing is put, and the letters are counted.

    \b
    Example:
      mayfly dlq redrive QM1 --where 'REASON(MQRC_Q_FULL) DESTQ(ORDERS)'
    """
    with _refusals("--where"):
        parse_patterns(where)
        table = parse_rules(f"{where.rstrip()} ACTION(RETRY)")
    with connected(name, path, program="mayfly dlq") as connection:
        if dry_run:
            _print(preview(connection, table, queue), Counter(), as_json=as_json)
            return
        with _handling(connection, table, queue) as handler:
            handler.run_once()
    _print(handler.counts, handler.failures, as_json=as_json)
    failures = failed_with(handler)
    if failures or not handler.counts[Outcome.REDRIVEN]:
        raise CommandFailed(ExitCode.NOTHING, failures or "nothing was redriven")


@contextmanager
def _refusals(source: str) -> Iterator[None]:
    """Return a context that turns RuleTableError into CommandFailed, which names ``source``."""
    try:
        yield
    except RuleTableError as error:
        raise CommandFailed(ExitCode.USAGE, f"{source}: {error}") from error


@contextmanager
def _handling(connection: Connection, table: RuleTable, queue: str) -> Iterator[DeadLetterHandler]:
    """Return a context with a dead-letter handler; SIGINT or SIGTERM stops it.

    ``queue`` "" is the queue of the rule table, else the dead-letter queue.
    """
    longest_wait_ms = None if is_here(connection) else _REMOTE_WAIT_MS
    with (
        DeadLetterHandler(
            connection, table, queue=queue, longest_wait_ms=longest_wait_ms
        ) as handler,
        stop_event() as stopped,
        _watched(handler, stopped),
    ):
        yield handler


@contextmanager
def _watched(handler: DeadLetterHandler, stopped: Event) -> Iterator[None]:
    """Return a context that shows the handler's progress on a terminal.

    When ``stopped`` is set, the handler stops; the letter in work is either finished or unchanged.
    The end of the block sets it.
    """
    watcher = Thread(target=_watch, args=(handler, stopped))
    watcher.start()
    try:
        yield
    finally:
        stopped.set()
        watcher.join()


def _watch(handler: DeadLetterHandler, stopped: Event) -> None:
    """Show the counts on a terminal once a second until the event is set; then stop the handler.

    Runs in a thread.
    """
    shown = nothing = counted({}, Outcome)
    while not stopped.wait(_SHOW_SECONDS):
        text = counted(handler.counts, Outcome)
        if text != shown and sys.stderr.isatty():
            typer.echo(f"\r\033[K{text}", nl=False, err=True)
            shown = text
    if shown != nothing:
        typer.echo("\r\033[K", nl=False, err=True)
    handler.stop()


def _print(counts: Counter[Outcome], failures: Counter[int], *, as_json: bool) -> None:
    """Print the counts of a run, on one line or as JSON; only JSON has failures by reason code."""
    if as_json:
        print_json(summary_as_json(counts, failures))
    else:
        done = counts.copy()
        del done[Outcome.FAILED]
        print(counted(done, Outcome))


def letter_cells(message: Message, letter: DeadLetter | None) -> tuple[str, ...]:
    """Return the cells of a dead letter's line: MsgId, reason, queue, age, remaining time, bytes.

    ``letter`` None is a message without MQDLH: it has no reason, queue and age.
    """
    left = remaining(message.remaining_ms)
    if letter is None:
        return message.msg_id.hex(), "(no header)", "-", "-", left, f"{len(message.body):,}"
    since_ms = letter.since_ms
    age = "-" if since_ms is None else remaining(max(message.seen_ms - since_ms, 0))
    reason, size = cause_name(letter.reason), f"{len(letter.data):,}"
    return message.msg_id.hex(), reason, letter.target or "-", age, left, size


def failed_with(handler: DeadLetterHandler) -> str:
    """Return the numbers of failed letters by reason on one line; "" if none has failed."""
    return ", ".join(
        f"{count:,} failed with {cause_name(reason)}"
        for reason, count in sorted(handler.failures.items())
    )
