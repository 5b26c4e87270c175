"""A million messages due in one second, beside the least that moves as many rows, in turn.

The bare loops move each row by an UPDATE of its key, with its index entry, in one thread. The first
does nothing else. The second writes lives and lets another client commit, as the flood does that is
measured. This one also makes lives findable, keeps totals, writes its log back and is asked for
counts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.cliff import cliff
from bench.figures import Figure, at_least, median, without_aim
from bench.raw import move_seconds

#: A release moves so many in one transaction.
_PER_UNIT = 2_000
_BODY: Final = os.urandom(200)


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 3
    message_count: int = 1_000_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 500)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    count = size.message_count
    rates, raw, raw_all = list[float](), list[float](), list[float]()
    for _ in range(size.rounds):
        raw.append(_raw_rate(count, does_all=False))
        ours = cliff(count)
        assert ours.in_order
        rates.append(count / ours.seconds)
        raw_all.append(_raw_rate(count, does_all=True))
    name, each = f"{count:,} due in one second, beside bare UPDATEs", f"{_PER_UNIT:,} a commit"
    note = f"{median(rates):,.0f}/s against {median(raw):,.0f}/s of UPDATEs, {each}"
    ratios = _ratios(rates, raw)
    yield at_least(name, median(ratios), least_rate(0.8), "x", note, samples=ratios)
    note = f"{median(raw_all):,.0f}/s of UPDATEs with the lives and another's commits, {each}"
    ratios = _ratios(rates, raw_all)
    name += ", lives and another's commits"
    yield without_aim(name, median(ratios), "x", note, is_rate=True, samples=ratios)


def _raw_rate(count: int, *, does_all: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return count / move_seconds(Path(folder), count, _PER_UNIT, _BODY, does_all=does_all)


def _ratios(rates: list[float], others: list[float]) -> list[float]:
    return [a / b for a, b in zip(rates, others, strict=True)]
