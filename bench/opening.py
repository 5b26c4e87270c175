"""How long a folder with a million messages takes to open."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, at_most, median
from bench.messaging import BODY
from mayfly import QueueManager

_PER_UNIT = 10_000


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 3
    message_count: int = 1_000_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 20)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Fill a folder, then open it and get the first message, several times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder, size.message_count)
        size_mb = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        opened = [_open(folder, size.message_count) for _ in range(size.rounds)]
    note = f"{size_mb:,.0f} MB; depth, counts and first get included"
    name = f"opening a folder with {size.message_count:,} messages"
    yield at_most(name, median(opened), 0.5, " s", note, samples=opened)


def _fill(folder: Path, count: int) -> None:
    with QueueManager("BENCH", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        with manager.session(transacted=True) as session:
            for number in range(count):
                session.put("Q1", BODY, persistent=True, time_to_live_ms=10**9)
                if number % _PER_UNIT == _PER_UNIT - 1:
                    session.commit()
            session.commit()


def _open(folder: Path, count: int) -> float:
    begin = time.perf_counter()
    manager = QueueManager("BENCH", folder)
    assert manager.curdepth("Q1") == count
    with manager.session(transacted=True) as session:
        assert session.get("Q1") is not None
        session.backout()
    seconds = time.perf_counter() - begin
    manager.close()
    return seconds
