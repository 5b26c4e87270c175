"""Measure the parts named, print a table; ``--json`` and ``--page`` keep the run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.figures import table
from bench.machine import machine
from bench.page import write_page
from bench.parts import LONG, PARTS, PEERED, TRIED, known_part, measured, usual_parts
from bench.peer_survey import survey
from bench.record import OtherMayfly, Run, from_json, merged, to_json
from bench.summary import write_summary


def main(arguments: list[str]) -> int:
    """Run as told; 1 when an aim was missed, 2 for a wrong argument (from argparse)."""
    parser = _parser()
    told = parser.parse_args(arguments)
    for option, parts in (("smallest", TRIED), ("peers", PEERED)):
        if getattr(told, option) and not {*told.parts} <= {*parts}:
            parser.error(f"--{option} is for {', '.join(parts)}")
    try:
        run = merged([*map(_kept, told.read)]) if told.read else _measured(told)
    except OtherMayfly as why:
        parser.error(f"these records are not of one Mayfly: {why}")
    if told.page:
        write_page(run, told.page)
        if told.summary:
            write_summary(told.page.parent)
    print(table(run.figures))
    return 0 if all(figure.holds for figure in run.figures) else 1


def _kept(file: Path) -> Run:
    return from_json(file.read_text())


def _measured(told: argparse.Namespace) -> Run:
    run = Run(machine(), [])
    names = told.parts or _unnamed(told)
    if {*names} & {*PEERED} and not told.smallest:
        run = run._replace(peers=survey())
        print(*(f"{make}: {what}" for make, what in run.peers.items()), sep="\n", flush=True)
    how = "SMALLEST" if told.smallest else "BESIDE" if told.peers else ""
    for name in names:
        run = run._replace(parts=[*run.parts, measured(name, how, most=told.most)])
        if told.json:
            # After each part: one that fails does not take the others along.
            told.json.write_text(to_json(run))
    return run


def _unnamed(told: argparse.Namespace) -> Sequence[str]:
    if told.smallest:
        return TRIED
    if told.peers:
        return PEERED
    return PARTS if told.long else usual_parts()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the parts named; without a name all that are not long.",
        epilog=(
            f"Parts: {', '.join(n + (' (long)' if n in LONG else '') for n in PARTS)}. "
            "Example: python -m bench messaging fanout --page docs/benchmarks"
        ),
    )
    parser.add_argument(
        "parts", nargs="*", metavar="part", type=known_part, help="a part, see below"
    )
    parser.add_argument("--long", action="store_true", help="without names: the long parts too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the run, part by part")
    parser.add_argument("--page", type=Path, metavar="FOLDER", help="write the page with its plot")
    parser.add_argument(
        "--summary", action="store_true", help="write the page of both builds, beside --page"
    )
    parser.add_argument(
        "--read",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing: a kept run; parts of further ones replace its own",
    )
    parser.add_argument("--most", type=int, metavar="N", help="growth: so many messages at most")
    parser.add_argument(
        "--peers", action="store_true", help=f"only what compares makes, of {', '.join(PEERED)}"
    )
    parser.add_argument(
        "--smallest", action="store_true", help=f"only try whether parts run: {', '.join(TRIED)}"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
