"""kill -9 of a driver with all that it has started: its Java has a session of its own."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def kill_tree(pid: int) -> None:
    """Kill a group by the process that leads it, and what any of it has started; oneself last."""
    started = descendants(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for one in sorted(started, key=lambda one: one == os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the processes that one has started, and those that these have started."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        # It may have ended meanwhile.
        with suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(stat[1])
    found, left = [], [pid]
    while left:
        parent = left.pop()
        children = [child for child, of in parents.items() if of == parent]
        found += children
        left += children
    return found
