"""``mayfly put``, ``get`` and ``browse``: the messages of a queue, one by one."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from mayfly.cli.managers import (
    LevelOption,
    Name,
    PlaceOption,
    PlatformOption,
    SettingOption,
    configuration_of,
    connected,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import LINE_HEAD, JsonOption, as_line, body_of, print_json, write_body
from mayfly.cli.show import as_json as message_as_json
from mayfly.cli.values import (
    CorrelIdOption,
    MsgIdOption,
    duration_ms,
    local_path,
    message_id,
    report_option,
)
from mayfly.cli.values import wait_ms as read_wait
from mayfly.client.connection import Connection
from mayfly.engine import LONGEST_MESSAGE_BYTES
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import Message

_OPTIONS = c.MQGMO_WAIT | c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2


def opened_queue(connection: Connection, name: str, options: int) -> int:
    """Open a queue and return its handle; ``options`` are MQOO_*.

    A model queue raises MQRC_UNKNOWN_OBJECT_NAME, because its dynamic queue would end with the
    command. Raises the other reason codes of MQOPEN.
    """
    try:
        return connection.call(ask.Open(name, options, dynamic_name="")).handle
    except MQError as error:
        if error.reason != rc.MQRC_DYNAMIC_Q_NAME_ERROR:
            raise
        text = f"{name!r} is the name of a model queue"
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, text) from None


def full_id(typed: bytes | None) -> bytes:
    """Return an id padded to 24 bytes with zeros; for None return b"", which means any id."""
    return b"" if typed is None else stored_id(typed, "id")


def browsed(
    connection: Connection,
    name: str,
    *,
    msg_id: bytes | None = None,
    correl_id: bytes | None = None,
) -> Iterator[Message]:
    """Yield the messages of a queue in get order, and leave them there.

    ``msg_id`` and ``correl_id`` select messages; None selects all. Each message is read when the
    caller asks for it. Raises the reason codes of MQOPEN and MQGET.
    """
    handle = opened_queue(connection, name, c.MQOO_BROWSE)
    while True:
        try:
            result = connection.get(
                handle,
                c.MQGMO_BROWSE_NEXT | c.MQGMO_PROPERTIES_FORCE_MQRFH2,
                msg_id=full_id(msg_id),
                correl_id=full_id(correl_id),
            )
        except NoMessage:
            return
        yield result.message


Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
Body = Annotated[str | None, typer.Argument(help="The body as text; without it, stdin.")]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", parser=local_path, metavar="FILE", help="Take the body from a file."
    ),
]
ExpiryOption = Annotated[
    int | None,
    typer.Option(
        "--expiry", parser=duration_ms, metavar="TIME", help="How long it lives, as in 20s or 2h."
    ),
]
DelayOption = Annotated[
    int | None,
    typer.Option(
        "--delay", parser=duration_ms, metavar="TIME", help="How long it cannot be got, as in 5s."
    ),
]
PriorityOption = Annotated[int | None, typer.Option(help="0 to 9; else the queue's.")]
PutMsgId = Annotated[
    bytes | None,
    typer.Option("--msg-id", parser=message_id, metavar="HEX", help="Its id, else a new one."),
]
PutCorrelId = Annotated[
    bytes | None,
    typer.Option("--correl-id", parser=message_id, metavar="HEX", help="Its correlation id."),
]
ReportOption = Annotated[
    list[int] | None,
    typer.Option(
        "--report", parser=report_option, metavar="NAME", help="A report to ask for: expiration, …"
    ),
]
ReplyOption = Annotated[str, typer.Option("--reply-to", metavar="QUEUE", help="Where reports go.")]


def put(
    name: Name,
    queue: Queue,
    body: Body = None,
    *,
    file: FileOption = None,
    expiry_ms: ExpiryOption = None,
    delay_ms: DelayOption = None,
    priority: PriorityOption = None,
    msg_id: PutMsgId = None,
    correl_id: PutCorrelId = None,
    report: ReportOption = None,
    reply_to: ReplyOption = "",
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put one message on a queue and print its id.

    The message is persistent: one that is not would end together with this command.

    \b
    Example, a message that can be got in 5 seconds and for 15 seconds then:
      mayfly put QM1 Q1 "hello" --delay 5s --expiry 20s --report expiration --reply-to REPORTS
    """
    content = _content(body, file)
    given = configuration_of(platform, command_level, setting)
    reply_to_q, _, reply_to_q_mgr = reply_to.partition("@")
    descriptor = Descriptor(
        report=reduce(or_, report or [], c.MQRO_NONE),
        priority=c.MQPRI_PRIORITY_AS_Q_DEF if priority is None else priority,
        persistence=c.MQPER_PERSISTENT,
        reply_to_q=reply_to_q,
        reply_to_q_mgr=reply_to_q_mgr,
    )
    with connected(name, path, program="mayfly put", given=given) as connection:
        put_result = connection.put(
            opened_queue(connection, queue, c.MQOO_OUTPUT),
            content,
            descriptor,
            msg_id=full_id(msg_id),
            correl_id=full_id(correl_id),
            time_to_live_ms=expiry_ms,
            delay_ms=0 if delay_ms is None else delay_ms,
        )
    assert put_result is not None
    new_id = put_result.msg_id.hex()
    if as_json:
        print_json({"msg_id": new_id, "queue": queue, "bytes": len(content)})
    else:
        print(new_id)


def _content(body: str | None, file: Path | None) -> bytes:
    """Return the body of the message to put: from the argument, a file, or standard input.

    Raises MQRC_MSG_TOO_BIG_FOR_Q_MGR if it is longer than any message, and CommandFailed for both a
    body and a file.
    """
    if body is not None and file is not None:
        raise CommandFailed(ExitCode.USAGE, "give the body as text or with --file, not both")
    if file is not None:
        found = file.stat()
        if stat.S_ISREG(found.st_mode) and found.st_size > LONGEST_MESSAGE_BYTES:
            raise _too_long(f"--file {file}")
        with file.open("rb") as source:
            return _read(source, f"--file {file}")
    if body is None:
        return _read(sys.stdin.buffer, "the standard input")
    # A word of the command line that is not UTF-8 goes through as the bytes that it was.
    return body.encode(errors="surrogateescape")


def _read(source: BinaryIO, name: str) -> bytes:
    """Return all bytes of a source; ``name`` is its name in the error.

    Raises MQRC_MSG_TOO_BIG_FOR_Q_MGR if it is longer than any message.
    """
    content = source.read(LONGEST_MESSAGE_BYTES + 1)
    if len(content) > LONGEST_MESSAGE_BYTES:
        raise _too_long(name)
    return content


def _too_long(name: str) -> MQError:
    """Return the error MQRC_MSG_TOO_BIG_FOR_Q_MGR about the body from the source ``name``."""
    return mq_error(
        rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR,
        f"{name} has more than {LONGEST_MESSAGE_BYTES:,} bytes, the most that MAXMSGL can be",
    )


WaitOption = Annotated[
    int | None,
    typer.Option(
        "--wait", parser=read_wait, metavar="TIME", help="How long to wait, as in 10s, or forever."
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Take all that match, one after another.")]


def get(
    name: Name,
    queue: Queue,
    *,
    wait_ms: WaitOption = None,
    msg_id: MsgIdOption = None,
    correl_id: CorrelIdOption = None,
    is_all: AllOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take the next message off a queue and print it.

    The body is printed unchanged; --json prints the descriptor too. The message leaves the queue
    only after it is printed. One from the staging queue is printed without its delay header, which
    --json shows as "delayed". Exit code 1 when there is none.

    \b
    Example:
      mayfly get QM1 Q1 --wait 10s --json
    """
    wait_ms = 0 if wait_ms is None else wait_ms
    count = 0
    with connected(name, path, program="mayfly get") as connection:
        handle = opened_queue(connection, queue, c.MQOO_INPUT_SHARED)
        while is_all or not count:
            try:
                result = connection.get(
                    handle,
                    _OPTIONS,
                    wait_ms=wait_ms,
                    msg_id=full_id(msg_id),
                    correl_id=full_id(correl_id),
                )
            except NoMessage:
                break
            _print(result.message, as_json=as_json)
            connection.call(ask.Commit())
            count += 1
    if not count:
        raise CommandFailed(ExitCode.NOTHING, f"no message on {queue}")


def _print(message: Message, *, as_json: bool) -> None:
    """Print a message: its body unchanged, or all fields as one JSON line."""
    if as_json:
        print_json(message_as_json(message), indent=None)
    else:
        write_body(body_of(message))
    sys.stdout.flush()


def browse(
    name: Name,
    queue: Queue,
    *,
    msg_id: MsgIdOption = None,
    correl_id: CorrelIdOption = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the messages of a queue, and leave them there.

    They come in the order in which they would be got, with --json as one JSON line each. Messages
    that wait for their delivery time are not shown. Exit code 1 when there is none.

    \b
    Example:
      mayfly browse QM1 Q1 --json
    """
    count = 0
    with connected(name, path, program="mayfly browse") as connection:
        for message in browsed(connection, queue, msg_id=msg_id, correl_id=correl_id):
            if as_json:
                print_json(message_as_json(message), indent=None)
            else:
                print(as_line(message) if count else f"{LINE_HEAD}\n{as_line(message)}")
            count += 1
    if not count:
        raise CommandFailed(ExitCode.NOTHING, f"no message on {queue}")
