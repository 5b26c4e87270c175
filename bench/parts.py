"""The parts of bench by name, and how one of them is measured."""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module

from bench.figures import Curve, Figure
from bench.record import Part

PARTS = (
    "units",
    "messaging",
    "before",
    "remote_clients",
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
    "pipeline",
    "queue_source",
    "release_by_spark",
    "sink",
    "delay_line",
    "replay",
    "story",
    "lake",
    "demo",
)
#: Parts that start Spark or fill millions of messages; without names they run with --long only.
LONG = frozenset(PARTS[PARTS.index("staged") :]) - {"timeline"}
#: Parts without a peer, a server or a browser: ``make test`` tries them at their smallest size.
TRIED = ("units", "steady", "growth")


def usual_parts() -> list[str]:
    """Return the parts that run when none is named."""
    return [part for part in PARTS if part not in LONG]


def known_part(name: str) -> str:
    """Return the name of a part; argparse tells of any other name."""
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"unknown part {name!r}")
    return name


def measured(name: str, *, most: int | None = None, smallest: bool = False) -> Part:
    """Measure a part in this process.

    ``most`` is how many messages ``growth`` fills at most. ``smallest`` only shows that the part,
    one of TRIED, runs: its figures say nothing.
    """
    module = import_module(f"bench.{name}")
    sizes = [module.SMALLEST] if smallest else []
    if most is not None and hasattr(module.Size, "up_to"):
        sizes = [module.Size().up_to(most)]
    if sys.stderr.isatty():
        print(f"measuring {name} …", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    told = list(module.figures(*sizes))
    figures = [one for one in told if isinstance(one, Figure)]
    curves = [one for one in told if isinstance(one, Curve)]
    return Part(name, time.perf_counter() - begin, figures, curves)
