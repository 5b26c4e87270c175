"""What verbs and the work behind them cost as a folder fills: one process, one folder that grows.

Half of the messages wait on a queue and have a deadline far away, half are delayed for as long. At
each size a small folder is measured in turn, so that a load of the machine is not taken for growth.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.child import resident_mb
from bench.figures import seconds_of
from bench.turns import Costs, in_turn
from mayfly import QueueManager
from mayfly.engine.session import Session
from mayfly.lifetime.times import SECOND_MS
from mayfly.testing import VirtualClock

_BODY: Final = os.urandom(200)
_PER_UNIT, _FILL_PER_UNIT = 100, 10_000
#: Deadlines and delays of what fills the folder; no measurement comes that far.
_FAR_MS: Final = 10**9
_SEED: Final = 21
_SCRIPT = """
ALTER QMGR EXPRYINT(1) MAXUMSGS(100000)
ALTER QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE) MAXDEPTH(999999999)
DEFINE QLOCAL(Q1) MAXDEPTH(999999999)
"""


class Grown(NamedTuple):
    """What was measured at one size, and in turn at the smallest; bytes of disk and memory."""

    size: int
    costs_us: Costs
    smallest_us: Costs
    fill_rate: float
    disk_bytes: int
    #: Of the process, and how many of them it had before there was a message.
    resident_bytes: float
    empty_bytes: float


def grown(counts: Sequence[int], rounds: int, batch: int) -> list[Grown]:
    """Fill a folder up to each of the counts, ascending; measure so many rounds of batches there.

    It is meant for a process of its own, whose memory is told.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, empty_bytes = _Folder(Path(name), batch), resident_mb() * 1e6
        return [_measured(folder, count, counts[0], rounds, empty_bytes) for count in counts]


def _measured(folder: _Folder, count: int, smallest: int, rounds: int, empty_bytes: float) -> Grown:
    fill_rate = folder.fill(count, rounds)
    with tempfile.TemporaryDirectory() as name:
        # A new one each time: a round takes messages that the next one does not find.
        small = _Folder(Path(name), folder.batch)
        small.fill(smallest, rounds)
        large_us, small_us = in_turn(rounds, folder.round, small.round)
        disk_bytes = folder.disk_bytes()
        small_us["verify, a message"] = [small.verify_us()[0]]
    verify_us, resident_bytes = folder.verify_us()
    large_us["verify, a message"] = [verify_us]
    return Grown(count, large_us, small_us, fill_rate, disk_bytes, resident_bytes, empty_bytes)


class _Folder:
    """A folder that grows, its open queue manager, and ids of messages to be got."""

    def __init__(self, path: Path, batch: int) -> None:
        """Take the path of an empty folder; each step of a round is done with so many messages."""
        self._path, self.batch = path, batch
        self._clock, self._random = VirtualClock(), random.Random(_SEED)
        self._count = 0
        self._ids: list[bytes] = []
        with self._opened() as manager:
            assert manager.mqsc(_SCRIPT).ok
        #: An empty folder has its log, its ballast and its definitions.
        self._empty_bytes = self._bytes()

    def fill(self, count: int, rounds: int) -> float:
        """Fill up to a count, to measure so many rounds there; return messages a second."""
        filled = count - self._count
        with self._opened() as manager:
            seconds = seconds_of(lambda: self._fill(manager, count, rounds * self.batch))
        return filled / seconds

    def disk_bytes(self) -> int:
        """Return the bytes of all files, but for those of an empty folder."""
        return self._bytes() - self._empty_bytes

    def verify_us(self) -> tuple[float, float]:
        """Return what a verification costs a message, and the bytes resident after it."""
        with self._opened() as manager:
            verified = seconds_of(manager.verify)
            return verified / self._count * 1e6, resident_mb() * 1e6

    def _bytes(self) -> int:
        return sum(file.stat().st_size for file in self._path.iterdir())

    def _opened(self) -> QueueManager:
        return QueueManager("BENCH", self._path, self._clock)

    def _fill(self, manager: QueueManager, count: int, wanted_ids: int) -> None:
        # The first half may be got in order before.
        available = range(self._count, count, 2)
        picked = set(self._random.sample(available[len(available) // 2 :], wanted_ids))
        self._ids = []
        with manager.session(transacted=True) as session:
            for number in range(self._count, count):
                if number % 2:
                    session.put("Q1", _BODY, persistent=True, delay_ms=_FAR_MS + number)
                else:
                    msg_id = session.put("Q1", _BODY, persistent=True, time_to_live_ms=_FAR_MS)
                    if number in picked:
                        self._ids.append(msg_id)
                if number % _FILL_PER_UNIT == _FILL_PER_UNIT - 1:
                    session.commit()
            session.commit()
        self._random.shuffle(self._ids)
        self._count = count

    def round(self) -> Iterator[tuple[str, float]]:
        """Yield each step and its cost: of a message where the step does many."""
        manager = self._opened()
        with manager.session(transacted=True) as session:
            for step, run in self._steps(manager, session):
                yield step, seconds_of(run) / self.batch * 1e6
        yield "checkpoint and close", seconds_of(manager.close) * 1e6
        yield "open, depth and first get", seconds_of(self._look) * 1e6

    def _steps(
        self, manager: QueueManager, session: Session
    ) -> Iterator[tuple[str, Callable[[], object]]]:
        ids = [self._ids.pop() for _ in range(self.batch)]
        yield "put", lambda: self._in_units(session, lambda _: self._put(session))
        yield "get", lambda: self._in_units(session, lambda _: session.get("Q1"))
        yield "get by MsgId", lambda: self._in_units(session, lambda n: _get(session, ids[n]))
        # As many as were got by an id come again, so the depth stays.
        self._in_units(session, lambda _: self._put(session, delay_ms=SECOND_MS))
        yield "release", lambda: self._clock.advance(SECOND_MS)
        depth = manager.curdepth("Q1")
        self._in_units(session, lambda _: self._put(session, time_to_live_ms=SECOND_MS))
        yield "expiry scan", lambda: self._clock.advance(2 * SECOND_MS)
        assert manager.curdepth("Q1") == depth

    def _put(
        self, session: Session, *, delay_ms: int = 0, time_to_live_ms: int = _FAR_MS
    ) -> object:
        return session.put(
            "Q1", _BODY, persistent=True, delay_ms=delay_ms, time_to_live_ms=time_to_live_ms
        )

    def _in_units(self, session: Session, verb: Callable[[int], object]) -> None:
        for number in range(self.batch):
            done = verb(number)
            assert done is not None
            if number % _PER_UNIT == _PER_UNIT - 1:
                session.commit()
        session.commit()

    def _look(self) -> None:
        with self._opened() as manager, manager.session(transacted=True) as session:
            assert manager.curdepth("Q1")
            assert session.get("Q1") is not None
            session.backout()


def _get(session: Session, msg_id: bytes) -> object:
    return session.get("Q1", msg_id=msg_id)
