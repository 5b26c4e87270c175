"""How long a folder with a million messages takes to open."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, at_most, median
from bench.messaging import BODY
from mayfly import QueueManager

_COUNT, _PER_UNIT = 1_000_000, 10_000
_ROUNDS = 3


def figures() -> Iterator[Figure]:
    """Fill a folder, then open it and get the first message, several times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        size_mb = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        opened = [_open(folder) for _ in range(_ROUNDS)]
    note = f"median of {_ROUNDS}; {size_mb:,.0f} MB; depth, counts and first get included"
    name = "opening a folder with 1M messages"
    yield at_most(name, median(opened), 0.5, " s", note, samples=opened)


def _fill(folder: Path) -> None:
    with QueueManager("BENCH", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        with manager.session(transacted=True) as session:
            for _ in range(_COUNT // _PER_UNIT):
                for _ in range(_PER_UNIT):
                    session.put("Q1", BODY, persistent=True, time_to_live_ms=10**9)
                session.commit()


def _open(folder: Path) -> float:
    begin = time.perf_counter()
    manager = QueueManager("BENCH", folder)
    assert manager.curdepth("Q1") == _COUNT
    with manager.session(transacted=True) as session:
        assert session.get("Q1") is not None
        session.backout()
    seconds = time.perf_counter() - begin
    manager.close()
    return seconds
