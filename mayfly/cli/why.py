"""``mayfly why``: say where a message is, or what became of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.lake_archive import LakeArchive
from mayfly.cli.managers import JsonOption, Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.progress import seconds_told
from mayfly.cli.show import print_json
from mayfly.cli.values import message_id
from mayfly.connection.json_values import whereabouts_as_json
from mayfly.engine import Sources, Step, Teller, whole_story
from mayfly.lifetime.spelling import spelled_moment

_HEAD = ("at (UTC)", "what", "queue", "")

Identifier = Annotated[
    bytes,
    typer.Argument(parser=message_id, metavar="ID", help="MsgId or CorrelId, in hexadecimal."),
]


LakeOption = Annotated[
    Path | None,
    typer.Option(
        "--lake",
        metavar="FOLDER",
        help="A lake of the ledger, in which to look as well. Needs mayfly-mq[lake].",
    ),
]


def why(
    name: Name,
    identifier: Identifier,
    *,
    path: PlaceOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say where a message is, or what became of it: in one sentence, then step by step.

    Looks on all queues, among delayed messages, dead letters, claims and open units of work, and
    in the ledger of what has ended, on all queue managers that its server serves. Changes
    nothing. Exit code 1 when nothing is known; the sentence says what retention has taken.

    \b
    Example:
      mayfly why QM1 414d5120514d31202020202020202020a10eb26700000001
    """
    with (
        connected(name, path, program="mayfly why") as connection,
        seconds_told(sys.stderr, "the ledger is searched"),
    ):
        asked = Teller(name, connection.admin.stories.of)
        archives = [] if lake is None else [LakeArchive(lake.absolute())]
        found = whole_story(Sources(asked, archives=archives), identifier)
    if as_json:
        print_json(whereabouts_as_json(found))
    elif found.is_known:
        print(found.sentence)
        print(*lines_of(found.steps), *found.notes, sep="\n")
    if not found.is_known:
        raise CommandFailed(ExitCode.NOTHING, found.sentence)


def lines_of(steps: tuple[Step, ...]) -> list[str]:
    """Return the steps as a table, with the queue managers where there are several."""
    several = len({step.queue_manager for step in steps}) > 1
    rows = [
        (spelled_moment(step.at_ms), *((step.queue_manager,) if several else ()), *step[1:4])
        for step in steps
    ]
    rows.insert(0, (_HEAD[0], *(("queue manager",) if several else ()), *_HEAD[1:]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
