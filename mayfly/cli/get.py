"""``mayfly get``: take messages off a queue."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mayfly.cli.managers import JsonOption, Name, PlaceOption, operated
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.put import Queue
from mayfly.cli.show import as_json as message_as_json
from mayfly.cli.show import body_of, print_json, write_body
from mayfly.cli.values import CorrelIdOption, MsgIdOption
from mayfly.cli.values import wait_ms as read_wait
from mayfly.engine import Message

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

    The body is printed as it is, with --json the descriptor, too. The message leaves the queue only
    once it is printed. One from the staging queue is printed without its delay header, which --json
    shows as "delayed". Exit code 1 when there is none.

    \b
    Example:
      mayfly get QM1 Q1 --wait 10s --json
    """
    wait_ms = 0 if wait_ms is None else wait_ms
    count = 0
    with (
        operated(name, path) as queue_manager,
        queue_manager.session(transacted=True, program="mayfly get") as session,
    ):
        while (
            message := session.get(queue, wait_ms=wait_ms, msg_id=msg_id, correl_id=correl_id)
        ) is not None:
            _print(message, as_json=as_json)
            session.commit()
            count += 1
            if not is_all:
                break
    if not count:
        raise CommandFailed(ExitCode.NOTHING, f"no message on {queue}")


def _print(message: Message, *, as_json: bool) -> None:
    if as_json:
        print_json(message_as_json(message), indent=None)
    else:
        write_body(body_of(message))
    sys.stdout.flush()
