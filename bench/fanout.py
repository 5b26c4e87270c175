"""Publish/subscribe: how many copies a second reach the queues of 100 subscribers, and leave."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.figures import Figure, at_least, at_most, median, seconds_of
from bench.raw import put_seconds
from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.store.database import DATABASE_FILE

_BODY = os.urandom(200)
_LARGE_BODY = os.urandom(10_000)
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
    yield from _large(size)
    yield _drained(size)


def _large(size: Size) -> Iterator[Figure]:
    """Persistent publications of 10 KB, and by how much each makes the folder larger."""
    rates, disk_bytes = list[float](), list[float]()
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rates.append(_rate(size, Path(folder), "", persistent=True, body=_LARGE_BODY))
            file_bytes = (Path(folder) / DATABASE_FILE).stat().st_size
            disk_bytes.append(file_bytes / size.publications / 1_000)
    name = f"fan-out of 10 KB to {size.subscribers}, persistent"
    note = "10 KB a publication, and as much again for its copies"
    yield at_least(name, median(rates), least_rate(20_000), "/s", samples=rates)
    yield at_most(f"{name}, disk", median(disk_bytes), 20, " KB", note, samples=disk_bytes)


def _drained(size: Size) -> Figure:
    """Gets of the copies, queue after queue, in units of work of 100."""
    rates = list[float]()
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rates.append(_drain_rate(size, Path(folder)))
    name = f"copies got by {size.subscribers} subscribers, persistent, 100 a unit"
    return at_least(name, median(rates), least_rate(20_000), "/s", samples=rates)


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


def _rate(
    size: Size, folder: Path | None, selector: str, *, persistent: bool, body: bytes = _BODY
) -> float:
    with QueueManager("BENCH", folder) as manager, manager.session() as session:
        _subscribe(size, manager, session, selector)

        def publish() -> None:
            for _ in range(size.publications):
                session.publish("bench/a", body, persistent=persistent, priority=4)

        seconds = seconds_of(publish)
        assert manager.curdepth("Q0") == size.publications
        return size.subscribers * size.publications / seconds


def _drain_rate(size: Size, folder: Path) -> float:
    with (
        QueueManager("BENCH", folder) as manager,
        manager.session() as session,
        manager.session(transacted=True) as unit,
    ):
        _subscribe(size, manager, session, "")
        for _ in range(size.publications):
            session.publish("bench/a", _BODY, persistent=True, priority=4)

        def drain() -> None:
            for number in range(size.subscribers):
                for count in range(1, size.publications + 1):
                    assert unit.get(f"Q{number}") is not None
                    if not count % 100:
                        unit.commit()
                unit.commit()

        return size.subscribers * size.publications / seconds_of(drain)


def _subscribe(size: Size, manager: QueueManager, session: Session, selector: str) -> None:
    for number in range(size.subscribers):
        manager.mqsc(f"DEFINE QLOCAL(Q{number}) MAXDEPTH(999999999)")
        session.subscribe("bench/+", queue=f"Q{number}", selector=selector)
