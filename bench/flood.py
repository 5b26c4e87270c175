"""A million messages due in one second, beside the least that moves as many rows, in turn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.cliff import SLACK_MS, cliff
from bench.figures import Figure, at_least, median
from bench.raw import move_seconds

#: A release moves so many in one transaction.
_PER_UNIT = 2_000
_BODY: Final = os.urandom(200)
#: How many puts a second are expected at least, until a round has shown better.
_PUTS_A_SECOND = 10_000


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    message_count: int = 1_000_000
    slack_ms: int = SLACK_MS


#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 500, 500)


def figures(size: Size = Size()) -> Iterator[Figure]:  # noqa: B008  # it cannot be changed
    """Measure everything of this file."""
    count = size.message_count
    rates, raw, put_rate = list[float](), list[float](), float(_PUTS_A_SECOND)
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            raw.append(count / move_seconds(Path(folder), count, _PER_UNIT, _BODY))
        ours = cliff(count, put_rate, size.slack_ms)
        assert ours.in_order
        rates.append(count / ours.seconds)
        # A wait for the moment at which all are due takes no longer than it has to.
        put_rate = 0.8 * ours.fill_rate
    ratios = [a / b for a, b in zip(rates, raw, strict=True)]
    note = f"{median(rates):,.0f}/s against {median(raw):,.0f}/s of UPDATEs, {_PER_UNIT:,} a commit"
    name = f"{count:,} due in one second, beside bare UPDATEs"
    yield at_least(name, median(ratios), least_rate(0.8), "x", note, samples=ratios)
