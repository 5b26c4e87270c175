"""The parts of bench by name, and how one of them is measured."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module

from bench.figures import Figure
from bench.record import Part

PARTS = (
    "units",
    "messaging",
    "before",
    "remote_clients",
    "libmqm",
    "client_peers",
    "amqp",
    "http",
    "consoles",
    "console",
    "by_id",
    "authority",
    "channel",
    "listener",
    "fanout",
    "opening",
    "steady",
    "delay",
    "selectors",
    "staged",
    "flood",
    "growth",
    "timeline",
    "replica",
    "ledger_copy",
    "queue_source",
    "release_by_spark",
    "sink",
    "delay_line",
    "replay",
    "trace",
    "lake",
    "lake_scale",
    "demo",
    "tasks",
)
#: Parts that start Spark or fill millions of messages; without names they run with --long only.
LONG = frozenset(PARTS[PARTS.index("staged") :]) - {"timeline"}
#: Parts that ``make test`` tries at their smallest size, without a peer.
TRIED = (
    "units",
    "messaging",
    "client_peers",
    "by_id",
    "authority",
    "channel",
    "listener",
    "fanout",
    "opening",
    "steady",
    "delay",
    "selectors",
    "flood",
    "growth",
)
#: Parts with peers: what of them compares makes is measured by ``--peers``.
PEERED = ("units", "client_peers", "amqp", "delay", "growth")


def usual_parts() -> list[str]:
    """Return the parts that run when none is named."""
    return [part for part in PARTS if part not in LONG]


def known_part(name: str) -> str:
    """Return the name of a part; argparse tells of any other name."""
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"unknown part {name!r}")
    return name


def measured(name: str, how: str = "", *, most: int | None = None) -> Part:
    """Measure a part in this process.

    ``how`` names a size of the part: ``SMALLEST`` only shows that it runs, ``BESIDE`` is what
    compares makes; empty for all of it. ``most`` is how many messages ``growth`` fills at most.
    """
    try:
        module = import_module(f"bench.{name}")
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] in ("bench", "mayfly"):
            raise
        why = f"Python package {missing.name} not installed"
        return Part(name, 0, [Figure(name, "-", "-", True, why)])
    sizes = [getattr(module, how)] if how else []
    if most is not None and hasattr(module, "Size") and hasattr(module.Size, "up_to"):
        (size,) = sizes or [module.Size()]
        sizes = [size.up_to(most)]
    if sys.stderr.isatty():
        print(f"measuring {name} …", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    told = list(module.figures(*sizes))
    return Part.of(name, time.perf_counter() - begin, told, os.getloadavg()[0])
