"""The cost of authority checks for a put: beside puts of the opener, unchecked, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, at_most, median, seconds_of
from mayfly import QueueManager
from mayfly.engine.session import Session

_BODY = bytes(200)
_PER_UNIT = 100
_SCRIPT = """
DEFINE QLOCAL(BENCH.A.Q1) MAXDEPTH(999999999)
SET AUTHREC OBJTYPE(QMGR) GROUP('nobody') AUTHADD(CONNECT)
SET AUTHREC PROFILE(BENCH.*.Q?) OBJTYPE(QUEUE) GROUP('ops') AUTHADD(PUT)
"""
#: Records that have nothing to do with it.
_OTHERS = "\n".join(
    f"SET AUTHREC PROFILE(OTHER{n}.**) OBJTYPE(QUEUE) GROUP('ops') AUTHADD(GET)" for n in range(100)
)


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 31
    puts: int = 2_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(2, 20)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Put as the opener and as a user with 100 other profiles, turn by turn; medians of ratios."""
    for name, persistent in (("non-persistent", False), ("persistent, 100 a unit of work", True)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) if persistent else None
            with QueueManager("BENCH", path) as manager:
                assert manager.mqsc(_SCRIPT + _OTHERS).ok
                opener = manager.session(transacted=persistent)
                user = manager.session("alice", transacted=persistent, groups=["ops"])
                ratios, put_us = _compared(size, manager, opener, user, persistent=persistent)
        note = f"{put_us:.1f} us a put of the opener"
        yield at_most(
            f"authority: put of a user, {name}", median(ratios), 1.05, "x", note, samples=ratios
        )


def _compared(
    size: Size, manager: QueueManager, opener: Session, user: Session, *, persistent: bool
) -> tuple[list[float], float]:
    """Return how much longer the user's puts take, and one of the opener's in microseconds."""
    ratios, waits = [], []
    for number in range(size.rounds):
        taken = {}
        # The two take turns in coming first, because the second one finds a longer queue.
        for session in (opener, user) if number % 2 else (user, opener):
            taken[session] = seconds_of(partial(_put, session, size.puts, persistent=persistent))
        manager.mqsc("CLEAR QLOCAL(BENCH.A.Q1)")
        ratios.append(taken[user] / taken[opener])
        waits.append(1e6 * taken[opener] / size.puts)
    return ratios, median(waits)


def _put(session: Session, count: int, *, persistent: bool) -> None:
    for number in range(count):
        session.put("BENCH.A.Q1", _BODY, persistent=persistent)
        if persistent and number % _PER_UNIT == _PER_UNIT - 1:
            session.commit()
