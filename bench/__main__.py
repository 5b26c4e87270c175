"""Measure the parts named, print a table; ``--json`` and ``--page`` keep the run."""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

from bench.figures import table
from bench.machine import machine
from bench.page import write_page
from bench.record import Part, Run, from_json, to_json

PARTS = (
    "messaging",
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
    "delay",
    "selectors",
    "staged",
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


def main(arguments: list[str]) -> int:
    """Run as told; 1 when an aim was missed, 2 for a wrong argument (from argparse)."""
    told = _parser().parse_args(arguments)
    if told.read:
        run = from_json(told.read.read_text())
    else:
        names = told.parts or [part for part in PARTS if told.long or part not in LONG]
        run = Run(machine(), [])
        for name in names:
            run = run._replace(parts=[*run.parts, _measured(name)])
            if told.json:
                # After each part: one that fails does not take the others along.
                told.json.write_text(to_json(run))
    if told.page:
        write_page(run, told.page)
    print(table(run.figures))
    return 0 if all(figure.holds for figure in run.figures) else 1


def _measured(name: str) -> Part:
    if sys.stderr.isatty():
        print(f"measuring {name} …", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    figures = list(import_module(f"bench.{name}").figures())
    return Part(name, time.perf_counter() - begin, figures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the parts named; without a name all that are not long.",
        epilog=(
            f"Parts: {', '.join(n + (' (long)' if n in LONG else '') for n in PARTS)}. "
            "Example: python -m bench messaging fanout --page docs/benchmarks"
        ),
    )
    parser.add_argument("parts", nargs="*", metavar="part", type=_part, help="a part, see below")
    parser.add_argument("--long", action="store_true", help="without names: the long parts too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the run, part by part")
    parser.add_argument("--page", type=Path, metavar="FOLDER", help="write the page with its plot")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: a kept run")
    return parser


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"unknown part {name!r}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
