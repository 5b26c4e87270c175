"""Publish/subscribe: how many copies a second reach the queues of 100 subscribers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.figures import Figure, at_least, median, seconds_of
from bench.raw import put_seconds
from mayfly import QueueManager

_BODY = os.urandom(200)
_SELECTOR = "JMSPriority > 3"


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    subscribers: int = 100
    publications: int = 200


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 5, 4)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    name = f"fan-out to {size.subscribers}, non-persistent"
    yield _figure(size, name, 20_000)
    yield _figure(size, f"{name}, each with a selector", 15_000, _SELECTOR)
    yield from _durable(size)


def _durable(size: Size) -> Iterator[Figure]:
    """Persistent publications beside the bare inserts of their copies, a commit each.

    One loop inserts for one queue, whose rows follow one another on few pages; the other for as
    many queues as there are copies, each of which has pages of its own.
    """
    rates, raw, spread = list[float](), list[float](), list[float]()
    for _ in range(size.rounds):
        raw.append(_raw_rate(size, 1))
        with tempfile.TemporaryDirectory() as folder:
            rates.append(_rate(size, Path(folder), "", persistent=True))
        spread.append(_raw_rate(size, size.subscribers))
    name, aim = f"fan-out to {size.subscribers}, persistent", least_rate(0.5)
    yield at_least(name, median(rates), 5_000, "/s", samples=rates)
    name, loop = f"{name}, beside bare inserts", f"a loop of inserts, {size.subscribers} a commit"
    ratios = _ratios(rates, raw)
    note = f"{loop}: {median(raw):,.0f}/s"
    yield at_least(name, median(ratios), aim, "x", note, samples=ratios)
    ratios = _ratios(rates, spread)
    note = f"{loop}: {median(spread):,.0f}/s"
    yield at_least(f"{name} for as many queues", median(ratios), aim, "x", note, samples=ratios)


def _raw_rate(size: Size, queue_count: int) -> float:
    count = size.subscribers * size.publications
    with tempfile.TemporaryDirectory() as folder:
        seconds = put_seconds(
            Path(folder), count, size.subscribers, _BODY, queue_count, are_copies=True
        )
        return count / seconds


def _ratios(rates: list[float], others: list[float]) -> list[float]:
    return [a / b for a, b in zip(rates, others, strict=True)]


def _figure(size: Size, name: str, floor: float, selector: str = "") -> Figure:
    rates = [_rate(size, None, selector, persistent=False) for _ in range(size.rounds)]
    note = f"{size.publications} publications of 200 bytes"
    return at_least(name, median(rates), floor, "/s", note, samples=rates)


def _rate(size: Size, folder: Path | None, selector: str, *, persistent: bool) -> float:
    with QueueManager("BENCH", folder) as manager, manager.session() as session:
        for number in range(size.subscribers):
            manager.mqsc(f"DEFINE QLOCAL(Q{number}) MAXDEPTH(999999999)")
            session.subscribe("bench/+", queue=f"Q{number}", selector=selector)

        def publish() -> None:
            for _ in range(size.publications):
                session.publish("bench/a", _BODY, persistent=persistent, priority=4)

        seconds = seconds_of(publish)
        assert manager.curdepth("Q0") == size.publications
        return size.subscribers * size.publications / seconds
