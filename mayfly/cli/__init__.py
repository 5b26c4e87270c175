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

import gc
import sys

#: New objects that start a look for garbage. With Python's own 700 the imports of a command are
#: scanned a hundred times, and a server scans the messages of each batch again and again: a third
#: of the time of 5,000 messages/s, measured.
OBJECTS_BEFORE_A_LOOK = 50_000
#: Packages of the extra ``cli``.
_PACKAGES = ("typer", "rich")


def main() -> None:
    """Run the ``mayfly`` command line; always ends with SystemExit, with one of the codes above."""
    gc.set_threshold(OBJECTS_BEFORE_A_LOOK)
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
    try:
        app(prog_name="mayfly")
    finally:
        # Python would look through all objects once more, a tenth of the time of most commands.
        gc.freeze()
