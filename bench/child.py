"""A measurement in a process of its own, whose memory is then its own too."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_child(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function of a module returns in a fresh interpreter."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def peak_mb() -> float:
    """Return the most memory this process has ever had resident, in MB, interpreter included."""
    # Not getrusage: there a child begins with the peak of its parent.
    return _status_mb("VmHWM")


def resident_mb() -> float:
    """Return the memory this process has resident now, in MB."""
    return _status_mb("VmRSS")


def processor_seconds(pid: int) -> float:
    """Return how long a process has run: the 14th and 15th field, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb_of(pid: int) -> float:
    """Return the memory a process and those it has started have resident now, in MB.

    Memory that several of them share counts once, in the first.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    own = [_status_mb("VmRSS", str(pid)), *(_status_mb("RssAnon", child) for child in children)]
    return sum(own)


def _status_mb(field: str, process: str = "self") -> float:
    for line in Path(f"/proc/{process}/status").read_text("ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024 / 1e6
    raise LookupError(field)
