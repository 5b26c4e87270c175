"""Keeper: runs one command as a child process that ends with the starter of this script.

Start it as ``python -I keeper.py COMMAND…`` with a pipe as standard input, which the starter keeps
open. The pipe closes when the starter ends: by a return, an interrupt or a kill -9. Then the
command gets SIGTERM, and SIGKILL if it does not end in time. Processes of the command are killed
after it has ended, because a killed worker leaves executors behind. The exit code is that of the
command.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

#: Longest time for a command to end in good order.
GRACE_SECONDS = 10.0


def main(command: list[str]) -> int:
    """Run the command until it ends or standard input closes; return its exit code.

    A command that a signal ended gives 128 + the signal's number. Processes that the command has
    started are killed at its end.
    """
    # A session of its own, by which the processes of the command are found.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: child.terminate())
    threading.Thread(target=_end_with_starter, args=(child,), daemon=True).start()
    code = child.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    return 128 - code if code < 0 else code


def _end_with_starter(child: subprocess.Popen[bytes]) -> None:
    """Wait until standard input closes, then end the command: SIGTERM, after 10 s SIGKILL."""
    # Not through sys.stdin: its lock would be held here when the command ends by itself.
    while os.read(0, 1):
        pass
    child.terminate()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
