"""``mayfly create``, ``verify`` and ``compact``: make and check the folder of a queue manager."""

from __future__ import annotations

from typing import Annotated

import typer

from mayfly.cli.managers import (
    FolderOption,
    LevelOption,
    Name,
    PlaceOption,
    PlatformOption,
    SettingOption,
    configuration_of,
    connected,
    existing_folder,
    folder_of,
    is_remote,
    opened,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, print_json
from mayfly.cli.values import local_path
from mayfly.client.connection import Administration
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.database import DATABASE_FILE


def create(
    name: Name,
    *,
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    path: FolderOption = None,
) -> None:
    """Make a queue manager, as crtmqm does.

    A platform determines the rules of its edition and the defaults of its settings, for good. A
    queue manager that exists stays as it is: exit code 3.

    \b
    Examples:
      mayfly create QM1
      mayfly create QMI --platform ibmi
      mayfly create QMZ --platform zos --setting expiry.max_check=always
    """
    folder = folder_of(name, path)
    if (folder / DATABASE_FILE).exists():
        text = f"there is a queue manager in {folder}; ALTER SETTING changes what it was made with"
        raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, text)
    given = configuration_of(platform, command_level, setting)
    with opened(name, path, make=True, given=given):
        pass


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
