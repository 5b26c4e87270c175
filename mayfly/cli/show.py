"""Shows results of commands: JSON for programs, lines for people, progress on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from threading import Event, Thread
from typing import Annotated, Any, TextIO, TypeVar

import typer

from mayfly.lifetime.times import spelled_duration, spelled_moment
from mayfly.verbs.messages import Message

_Outcome = TypeVar("_Outcome", bound=StrEnum)
_BODY_CHARACTERS = 40
LINE_HEAD = f"{'MsgId':<48}  {'put (UTC)':<19}  {'expires in':>12}  {'bytes':>7}  body"
_STDERR = 2
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON, at once also into a pipe; ``indent`` None prints it on one line."""
    print(json.dumps(value, indent=indent, ensure_ascii=False), flush=True)


def note(text: str) -> None:
    """Print a line on stderr: the reason of a wait, or a remark beside the result."""
    typer.echo(f"mayfly: {text}", err=True)


def is_confirmed(question: str) -> bool:
    """Ask on stderr, and return True if the line on stdin is ``y`` or ``yes``."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def counted(counts: Mapping[_Outcome, int], outcomes: type[_Outcome]) -> str:
    """Return counts by outcome on one line, without zeros; "nothing to do" if all are 0."""
    happened = [f"{counts[o]:,} {o.value.replace('_', ' ')}" for o in outcomes if counts.get(o)]
    return ", ".join(happened) or "nothing to do"


def as_json(message: Message) -> dict[str, Any]:
    """Return a message as a dict for JSON, with ids in hexadecimal.

    The body is text under ``body``, or ``body_hex`` if it is not UTF-8. A message from the staging
    queue also has ``delayed``, the fields of its delay header.
    """
    descriptor = message.descriptor
    fields: dict[str, Any] = {
        "queue": message.queue,
        "msg_id": message.msg_id.hex(),
        "correl_id": message.correl_id.hex(),
        "put_ms": message.put_ms,
        "deliver_at_ms": message.deliver_at_ms,
        "expire_at_ms": message.expire_at_ms,
        "remaining_ms": message.remaining_ms,
        "priority": message.priority,
        "persistent": message.persistent,
        "backout_count": message.backout_count,
        "msg_type": descriptor.msg_type,
        "feedback": descriptor.feedback,
        "report": descriptor.report,
        "reply_to_q": descriptor.reply_to_q.strip(),
        "format": descriptor.format.strip(),
        "user_identifier": descriptor.user_identifier.strip(),
    }
    header = message.delay_header
    if header is not None:
        fields["delayed"] = {
            "target_queue": header.target_queue,
            "target_manager": header.target_manager,
            "deliver_at_ms": header.deliver_at_ms,
            "msg_id": header.msg_id.hex(),
            "correl_id": header.correl_id.hex(),
            "format": header.format,
        }
    body = body_of(message)
    try:
        return fields | {"body": body.decode()}
    except UnicodeDecodeError:
        return fields | {"body_hex": body.hex()}


def body_of(message: Message) -> bytes:
    """Return the body of a message; a delay header in front of it is removed."""
    header = message.delay_header
    return message.body if header is None else message.body[header.length_bytes :]


def as_line(message: Message) -> str:
    """Return a message on one line: id, put time, remaining time, bytes, beginning of its body."""
    left = remaining(message.remaining_ms)
    body = body_of(message)
    start = body[:_BODY_CHARACTERS].decode(errors="replace")
    shown = "".join(character if character.isprintable() else "·" for character in start)
    return f"{message.msg_id.hex()}  {moment(message.put_ms)}  {left:>12}  {len(body):>7}  {shown}"


def aligned(
    rows: Sequence[Sequence[str]], *, right: Collection[int] | None = None
) -> Iterator[str]:
    """Yield rows of cells as aligned lines.

    ``right`` are the columns that are aligned right; None means all but the first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if right is None:
        right = range(1, len(widths))
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def moment(at_ms: int) -> str:
    """Return ms since 1970 as UTC text to the second, such as ``2026-11-20 18:00:00``."""
    return spelled_moment(at_ms).partition(".")[0]


def remaining(remaining_ms: int | None) -> str:
    """Return a remaining lifetime in its two largest units, "never" for None (no deadline).

    The text is never 0 while the message can still be got.
    """
    return "never" if remaining_ms is None else spelled_duration(remaining_ms)


def write_body(body: bytes) -> None:
    """Write a message body to stdout unchanged, and a line end after it."""
    sys.stdout.buffer.write(body + b"\n")


@contextmanager
def seconds_shown(stderr: TextIO, what: str) -> Iterator[None]:
    """Return a context that shows on a terminal each second how long ``what`` has taken.

    The line is cleared at the end. Nothing is shown if ``stderr`` is no terminal.
    """
    if not stderr.isatty():
        yield
        return
    is_over = Event()
    teller = Thread(target=_show_seconds, args=(stderr, what, is_over), name="mayfly-seconds")
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _show_seconds(stderr: TextIO, what: str, is_over: Event) -> None:
    """Show each second until the event is set; then clear the line. Runs in a thread."""
    seconds = 0
    while not is_over.wait(1.0):
        seconds += 1
        stderr.write(f"\r\033[Kmayfly: {what}, {seconds} s")
        stderr.flush()
    if seconds:
        stderr.write("\r\033[K")
        stderr.flush()


@contextmanager
def quiet_stderr() -> Iterator[TextIO]:
    """Return a context that discards all output to stderr and yields the real stderr.

    It holds for this process and its children: Java and Spark's workers inherit stderr, and print
    warnings that do not concern the user.
    """
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with open(kept, "w", encoding="utf-8") as real:  # noqa: PTH123  # a descriptor, no path
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)
        try:
            yield real
        finally:
            sys.stderr.flush()
            os.dup2(kept, _STDERR)
