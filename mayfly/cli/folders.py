"""``mayfly verify`` and ``mayfly compact``: check the folder of a queue manager, and shrink it."""

from __future__ import annotations

from typing import Annotated

import typer

from mayfly.cli.managers import (
    FolderOption,
    Name,
    PlaceOption,
    connected,
    existing_folder,
    is_remote,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, print_json
from mayfly.cli.values import local_path
from mayfly.client.connection import Administration

AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-restored",
        help="The folder was restored or copied on purpose: take its database as it is, although "
        "it holds less than identity.json says, or is not the file that Mayfly has written.",
    ),
]


def verify(
    name: Name,
    *,
    accept_restored: AcceptOption = False,
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
    if accept_restored:
        _accept_restored(name, path)
    with connected(name, path, program="mayfly verify") as connection:
        report = Administration(connection.call).verify()
    if as_json:
        print_json(report._asdict())
    else:
        for problem in report.problems:
            print(problem)
        if report.ok:
            print(f"{name} is in order: {report.messages} messages on {report.queues} queues")
    if not report.ok:
        raise CommandFailed(ExitCode.NOTHING, f"{len(report.problems)} problems in {name}")


def _accept_restored(name: str, place: str | None) -> None:
    """Accept a database that was restored and is older than ``identity.json`` says.

    ``place`` is the folder, None the usual one. Raises CommandFailed for a URL, FolderInUse if a
    process has the folder open.
    """
    from mayfly.store.restoring import accept_restored

    if place is not None and is_remote(place):
        raise CommandFailed(
            ExitCode.USAGE, "--accept-restored is for a folder that nobody has open"
        )
    accept_restored(existing_folder(name, None if place is None else local_path(place)), name)


def compact(name: Name, *, path: FolderOption = None, as_json: JsonOption = False) -> None:
    """Give the disk back what the database no longer needs, and its pages checksums.

    No process may have the queue manager open. The database is replaced only at the end; until then
    the disk needs space for a second one.

    \b
    Example:
      mayfly compact QM1
    """
    from mayfly.store.restoring import compact as compact_folder

    found = compact_folder(existing_folder(name, path), name)
    if as_json:
        print_json(found._asdict())
        return
    checksums = "with" if found.is_protected else "without"
    print(
        f"{name}: {found.bytes_before:,} bytes before, {found.bytes_after:,} now, "
        f"{checksums} checksums"
    )
