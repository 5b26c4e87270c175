"""Publish/subscribe: how many copies a second reach the queues of 100 subscribers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.aims import least_rate
from bench.figures import Figure, at_least, median, seconds_of
from bench.raw import put_seconds
from mayfly import QueueManager

_SUBSCRIBERS = 100
_PUBLICATIONS = 200
_ROUNDS = 5
_BODY = os.urandom(200)
_SELECTOR = "JMSPriority > 3"


def figures() -> Iterator[Figure]:
    """Measure everything of this file."""
    yield _figure("fan-out to 100, non-persistent", 20_000)
    yield _figure("fan-out to 100, non-persistent, each with a selector", 15_000, _SELECTOR)
    yield from _durable()


def _durable() -> Iterator[Figure]:
    """Persistent publications beside the bare inserts of their copies, a commit each."""
    count, rates, raw = _SUBSCRIBERS * _PUBLICATIONS, list[float](), list[float]()
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            raw.append(count / put_seconds(Path(folder), count, _SUBSCRIBERS, _BODY))
        with tempfile.TemporaryDirectory() as folder:
            rates.append(_rate(Path(folder), "", persistent=True))
    name = "fan-out to 100, persistent"
    yield at_least(name, median(rates), 5_000, "/s", samples=rates)
    ratios = [a / b for a, b in zip(rates, raw, strict=True)]
    note = f"a loop of inserts, 100 a commit: {median(raw):,.0f}/s"
    aim = least_rate(0.5)
    yield at_least(f"{name}, beside bare inserts", median(ratios), aim, "x", note, samples=ratios)


def _figure(name: str, floor: float, selector: str = "") -> Figure:
    rates = [_rate(None, selector, persistent=False) for _ in range(_ROUNDS)]
    note = f"{_PUBLICATIONS} publications of 200 bytes"
    return at_least(name, median(rates), floor, "/s", note, samples=rates)


def _rate(folder: Path | None, selector: str, *, persistent: bool) -> float:
    with QueueManager("BENCH", folder) as manager, manager.session() as session:
        for number in range(_SUBSCRIBERS):
            manager.mqsc(f"DEFINE QLOCAL(Q{number}) MAXDEPTH(999999999)")
            session.subscribe("bench/+", queue=f"Q{number}", selector=selector)

        def publish() -> None:
            for _ in range(_PUBLICATIONS):
                session.publish("bench/a", _BODY, persistent=persistent, priority=4)

        seconds = seconds_of(publish)
        assert manager.curdepth("Q99") == _PUBLICATIONS
        return _SUBSCRIBERS * _PUBLICATIONS / seconds
