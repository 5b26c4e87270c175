"""The ``mayfly`` command: its commands, and how they end.

A command ends with one of these codes. With every code but 0 a line on stderr has the reason.

    0    done
    1    nothing there: no message to get; or a check found something wrong
    2    the command line is wrong, or a package it needs is not installed
    3    the queue manager refused: a reason code (MQRC_…) is named
    4    a folder or file cannot be used: missing, in use, not permitted, damaged
    5    the pipeline failed: server not reachable, token, lake, checkpoint, Java
    130  interrupted
"""

from __future__ import annotations

import sys

#: Packages of the extra ``cli``.
_PACKAGES = ("typer", "rich")


def main() -> None:
    """Run the ``mayfly`` command line; always ends with SystemExit, with one of the codes above."""
    try:
        from mayfly.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        print(
            f"mayfly: the package {error.name} is missing: pip install 'mayfly-mq[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    app(prog_name="mayfly")
