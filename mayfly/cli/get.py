"""``mayfly get``: take messages off a queue."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mayfly.cli.managers import JsonOption, Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.put import Queue
from mayfly.cli.queues import opened_queue, whole_id
from mayfly.cli.show import as_json as message_as_json
from mayfly.cli.show import body_of, print_json, write_body
from mayfly.cli.values import CorrelIdOption, MsgIdOption
from mayfly.cli.values import wait_ms as read_wait
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.verbs.messages import Message

WaitOption = Annotated[
    int | None,
    typer.Option(
        "--wait", parser=read_wait, metavar="TIME", help="How long to wait, as in 10s, or forever."
    ),
]
_OPTIONS = c.MQGMO_WAIT | c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
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

    The body is printed as it is, with --json the descriptor, too. The message leaves the queue only
    once it is printed. One from the staging queue is printed without its delay header, which --json
    shows as "delayed". Exit code 1 when there is none.

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
                    msg_id=whole_id(msg_id),
                    correl_id=whole_id(correl_id),
                )
            except NoMessage:
                break
            _print(result.message, as_json=as_json)
            connection.commit()
            count += 1
    if not count:
        raise CommandFailed(ExitCode.NOTHING, f"no message on {queue}")


def _print(message: Message, *, as_json: bool) -> None:
    if as_json:
        print_json(message_as_json(message), indent=None)
    else:
        write_body(body_of(message))
    sys.stdout.flush()
