"""``mayfly libmqm``: the C library for programs of IBM MQ's client."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode, group
from mayfly.cli.show import JsonOption, print_json
from mayfly.cli.values import local_path
from mayfly.pymqi.libmqm.library import CannotBuild, default_folder, install, variables

libmqm = group()


@libmqm.callback()
def _group() -> None:
    """Keep ``env`` a command of a group, although it is the only one."""


@libmqm.command()
def env(
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FOLDER",
            help="Where the library is, or is put; by default in the user's cache.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the variables with which programs for IBM MQ load Mayfly's library.

    A library that is not in the package is compiled first, which needs a C compiler. MQSERVER or a
    channel table leads programs to their queue manager, as with IBM MQ.

    \b
    Examples:
      eval "$(mayfly libmqm env)"
      mayfly libmqm env --json
    """
    try:
        place = install((folder or default_folder()).absolute())
    except CannotBuild as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error
    found = variables(place)
    if "MAYFLY_LIBPYTHON" not in found:
        print(
            "mayfly: this Python has no shared library (libpython): Python programs alone can "
            "load libmqm",
            file=sys.stderr,
        )
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        print(f"export {name}={shlex.quote(value)}")
