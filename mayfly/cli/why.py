"""``mayfly why``: say where a message is, or what became of it."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from mayfly.cli.managers import JsonOption, Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.progress import seconds_told
from mayfly.cli.show import print_json
from mayfly.cli.values import message_id
from mayfly.engine import Stay, Step, Whereabouts
from mayfly.lifetime.spelling import spelled_moment
from mayfly.mqi.causes import cause_name

_HEAD = ("at (UTC)", "what", "queue", "")

Identifier = Annotated[
    bytes,
    typer.Argument(parser=message_id, metavar="ID", help="MsgId or CorrelId, in hexadecimal."),
]


def why(
    name: Name, identifier: Identifier, *, path: PlaceOption = None, as_json: JsonOption = False
) -> None:
    """Say where a message is, or what became of it: in one sentence, then step by step.

    Looks on all queues, among delayed messages, dead letters, claims and open units of work, and
    in the ledger of what has ended. Changes nothing. Exit code 1 when nothing is known; the
    sentence says what retention has taken.

    \b
    Example:
      mayfly why QM1 414d5120514d31202020202020202020a10eb26700000001
    """
    with (
        connected(name, path, program="mayfly why") as connection,
        seconds_told(sys.stderr, "the ledger is searched"),
    ):
        found = connection.admin.why(identifier)
    if as_json:
        print_json(_for_json(found))
    elif found.is_known:
        print(found.sentence)
        print(*_lines(found.steps), sep="\n")
    if not found.is_known:
        raise CommandFailed(ExitCode.NOTHING, found.sentence)


def _lines(steps: tuple[Step, ...]) -> list[str]:
    rows = [_HEAD, *((spelled_moment(s.at_ms), s.what, s.queue, s.text) for s in steps)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _for_json(found: Whereabouts) -> dict[str, Any]:
    """Return an answer for JSON: ids in hexadecimal, and reasons by name as well."""
    return {
        "id": found.asked_id.hex(),
        "at_ms": found.at_ms,
        "is_known": found.is_known,
        "sentence": found.sentence,
        "steps": [step._asdict() for step in found.steps],
        "stays": [_stay_for_json(stay) for stay in found.stays],
        "is_cut": found.is_cut,
        "ledger_position": found.ledger_position,
        "ledger_ms": found.ledger_ms,
    }


def _stay_for_json(stay: Stay) -> dict[str, Any]:
    ids = {"msg_id": stay.msg_id.hex(), "correl_id": stay.correl_id.hex()}
    named = {"reason_name": cause_name(stay.reason) if stay.reason else None}
    return stay._asdict() | ids | named
