"""``mayfly browse``: look at the messages of a queue without taking them."""

from __future__ import annotations

from mayfly.cli.managers import JsonOption, Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.put import Queue
from mayfly.cli.queues import browsed
from mayfly.cli.show import LINE_HEAD, as_line, print_json
from mayfly.cli.show import as_json as message_as_json
from mayfly.cli.values import CorrelIdOption, MsgIdOption


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
