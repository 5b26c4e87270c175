"""``mayfly user``: the users of a queue manager who may connect to it, and their groups."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from mayfly.admin.security.users import Users
from mayfly.cli.managers import FolderOption, Name, existing_folder
from mayfly.cli.outcomes import CommandFailed, ExitCode, group, wrong_values
from mayfly.cli.served import check_owns
from mayfly.cli.show import JsonOption, print_json

user = group()
UserName = Annotated[str, typer.Argument(metavar="USER", help="1 to 12 characters.")]
GroupOption = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GROUP", help="A group of the user; may be given repeatedly."),
]
StdinOption = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from the first line of standard input."
    ),
]


@user.command()
def add(
    name: Name,
    user_name: UserName,
    *,
    group: GroupOption = None,
    password_stdin: StdinOption = False,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a user; asks for the password twice.

    The user connects by the channels that are defined (CHLTYPE(SVRCONN)), and may do what its
    authority records and those of its groups allow. A running server knows the user at once.

    \b
    Examples:
      mayfly user add QM1 anna --group staff
      mayfly user add QM1 app --password-stdin < password.txt
    """
    folder = existing_folder(name, path)
    check_owns(name, folder)
    password = _password(user_name, is_piped=password_stdin)
    with wrong_values():
        Users(folder).add(user_name, password, group or [])
    _print_user(folder, user_name, "added", as_json=as_json)


@user.command()
def passwd(
    name: Name,
    user_name: UserName,
    *,
    password_stdin: StdinOption = False,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a user another password; connections that are open stay open.

    \b
    Example:
      mayfly user passwd QM1 anna
    """
    folder = existing_folder(name, path)
    check_owns(name, folder)
    password = _password(user_name, is_piped=password_stdin)
    with wrong_values():
        Users(folder).change(user_name, password=password)
    _print_user(folder, user_name, "has a new password", as_json=as_json)


@user.command()
def groups(
    name: Name,
    user_name: UserName,
    group: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP]...", help="The groups; none for no group."),
    ] = None,
    *,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a user into groups, and into no others; they count from its next connection on.

    \b
    Examples:
      mayfly user groups QM1 anna staff operators
      mayfly user groups QM1 anna
    """
    folder = existing_folder(name, path)
    check_owns(name, folder)
    with wrong_values():
        Users(folder).change(user_name, groups=group or [])
    _print_user(folder, user_name, "has other groups", as_json=as_json)


@user.command()
def remove(
    name: Name, user_name: UserName, *, path: FolderOption = None, as_json: JsonOption = False
) -> None:
    """Remove a user; connections that are open stay open (STOP CONN ends them).

    \b
    Example:
      mayfly user remove QM1 anna
    """
    folder = existing_folder(name, path)
    check_owns(name, folder)
    Users(folder).remove(user_name)
    if as_json:
        print_json({"user": user_name, "removed": True})
    else:
        print(f"user {user_name} removed")


@user.command("list")
def list_users(name: Name, *, path: FolderOption = None, as_json: JsonOption = False) -> None:
    """List the users with their groups; exit code 1 when there are none.

    \b
    Example:
      mayfly user list QM1
    """
    found = Users(existing_folder(name, path)).all()
    if as_json:
        print_json([{"user": one.name, "groups": list(one.groups)} for one in found])
    else:
        for one in found:
            print(f"{one.name:<12}  {' '.join(one.groups)}".rstrip())
    if not found:
        raise typer.Exit(ExitCode.NOTHING)


def _password(user_name: str, *, is_piped: bool) -> str:
    """Return a password: a line of standard input if ``is_piped``, else typed twice.

    Raises CommandFailed without a terminal, and if the two are not equal.
    """
    if is_piped:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        text = "there is no terminal to ask for the password: give --password-stdin"
        raise CommandFailed(ExitCode.USAGE, text)
    password = getpass.getpass(f"Password of {user_name}: ")
    if getpass.getpass("Again: ") != password:
        raise CommandFailed(ExitCode.USAGE, "the two passwords are not the same")
    return password


def _print_user(folder: Path, user_name: str, done: str, *, as_json: bool) -> None:
    """Print a user with groups after a change; prints nothing if the user does not exist now.

    ``folder`` is that of the queue manager. ``done`` is what was done, such as "added" or "has a
    new password".
    """
    found = Users(folder).find(user_name)
    if found is None:
        # Somebody has removed it meanwhile.
        return
    if as_json:
        print_json({"user": found.name, "groups": list(found.groups)})
    else:
        in_groups = f", groups: {', '.join(found.groups)}" if found.groups else ""
        print(f"user {found.name} {done}{in_groups}")
