"""The parts of bench by name, and how one of them is measured."""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module

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


def usual_parts() -> list[str]:
    """Return the parts that run when none is named."""
    return [part for part in PARTS if part not in LONG]


def known_part(name: str) -> str:
    """Return the name of a part; argparse tells of any other name."""
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"unknown part {name!r}")
    return name


def measured(name: str) -> Part:
    """Measure a part in this process."""
    if sys.stderr.isatty():
        print(f"measuring {name} …", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    figures = list(import_module(f"bench.{name}").figures())
    return Part(name, time.perf_counter() - begin, figures)
