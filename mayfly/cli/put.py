"""``mayfly put``: put one message on a queue."""

from __future__ import annotations

import stat
import sys
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from mayfly.cli.configuration import (
    LevelOption,
    PlatformOption,
    SettingOption,
    configuration_of,
)
from mayfly.cli.managers import JsonOption, Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.queues import opened_queue, whole_id
from mayfly.cli.show import print_json
from mayfly.cli.values import duration_ms, local_path, message_id, report_option
from mayfly.engine import LONGEST_MESSAGE_BYTES
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error

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

    It is persistent: one that is not would end together with this command.

    \b
    Example, a message that can be got in 5 seconds and for 15 seconds then:
      mayfly put QM1 Q1 "hello" --delay 5s --expiry 20s --report expiration --reply-to REPORTS
    """
    content = _content(body, file)
    given = configuration_of(platform, command_level, setting)
    descriptor = _descriptor(priority, reduce(or_, report or [], c.MQRO_NONE), reply_to)
    with connected(name, path, program="mayfly put", given=given) as connection:
        put_result = connection.put(
            opened_queue(connection, queue, c.MQOO_OUTPUT),
            content,
            descriptor,
            msg_id=whole_id(msg_id),
            correl_id=whole_id(correl_id),
            time_to_live_ms=expiry_ms,
            delay_ms=0 if delay_ms is None else delay_ms,
        )
    assert put_result is not None
    new_id = put_result.msg_id.hex()
    if as_json:
        print_json({"msg_id": new_id, "queue": queue, "bytes": len(content)})
    else:
        print(new_id)


def _descriptor(priority: int | None, report: int, reply_to: str) -> Descriptor:
    reply_to_q, _, reply_to_q_mgr = reply_to.partition("@")
    return Descriptor(
        report=report,
        priority=c.MQPRI_PRIORITY_AS_Q_DEF if priority is None else priority,
        persistence=c.MQPER_PERSISTENT,
        reply_to_q=reply_to_q,
        reply_to_q_mgr=reply_to_q_mgr,
    )


def _content(body: str | None, file: Path | None) -> bytes:
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
    """Return all of a source, which may be a device without end."""
    content = source.read(LONGEST_MESSAGE_BYTES + 1)
    if len(content) > LONGEST_MESSAGE_BYTES:
        raise _too_long(name)
    return content


def _too_long(name: str) -> MQError:
    return mq_error(
        rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR,
        f"{name} has more than {LONGEST_MESSAGE_BYTES:,} bytes, the most that MAXMSGL can be",
    )
