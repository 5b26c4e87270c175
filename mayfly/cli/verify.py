"""``mayfly verify``: prove that counters, totals and messages of a store agree."""

from __future__ import annotations

from typing import Annotated

import typer

from mayfly.cli.managers import (
    JsonOption,
    Name,
    PlaceOption,
    connected,
    existing_folder,
    is_remote,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import print_json
from mayfly.cli.values import local_path

AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-older",
        help="The folder was restored on purpose: take its database as it is, although it holds "
        "less than identity.json says.",
    ),
]


def verify(
    name: Name,
    *,
    accept_older: AcceptOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that no message is lost or counted twice, and that no file is damaged.

    Recounts every queue: each message that was put has ended or is present. Reads every file of
    the folder. Exit code 1 when something is wrong.

    \b
    Example:
      mayfly verify QM1
    """
    if accept_older:
        _accept_older(name, path)
    with connected(name, path, program="mayfly verify") as connection:
        report = connection.admin.verify()
    if as_json:
        print_json(report._asdict())
    else:
        for problem in report.problems:
            print(problem)
        if report.ok:
            print(f"{name} is in order: {report.messages} messages on {report.queues} queues")
    if not report.ok:
        raise CommandFailed(ExitCode.NOTHING, f"{len(report.problems)} problems in {name}")


def _accept_older(name: str, place: str | None) -> None:
    from mayfly.store.restoring import accept_older

    if place is not None and is_remote(place):
        raise CommandFailed(ExitCode.USAGE, "--accept-older is for a folder that nobody has open")
    accept_older(existing_folder(name, None if place is None else local_path(place)), name)
