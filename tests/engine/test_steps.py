"""How many Python functions the shortest paths call, so that steps do not creep back in.

A call takes 0.05 to 0.2 µs, and a non-persistent pair is little else. Each bound is what was
counted when it was set. A change that takes steps out lowers it; one that needs more raises it, and
its message says why. Built-in functions do not count, nor do compiled ones, so the bounds hold for
both builds.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median_low
from types import FrameType

import pytest

from mayfly import QueueManager, pymqi
from mayfly.engine import Session
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

BODY = bytes(200)
WARM_UP, TIMES = 20, 100


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[QueueManager]:
    """Return a queue manager on disk with Q1, under a virtual clock."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999)")
        yield manager


@pytest.fixture
def session(qm: QueueManager) -> Iterator[Session]:
    """Return a session without syncpoint."""
    with qm.session() as session:
        yield session


@pytest.fixture
def unit(qm: QueueManager) -> Iterator[Session]:
    """Return a session with a unit of work."""
    with qm.session(transacted=True) as session:
        yield session


def put(session: Session, count: int = 1) -> None:
    """Put persistent messages."""
    for _ in range(count):
        session.put("Q1", BODY, persistent=True)


def get(session: Session, count: int = 1) -> None:
    """Get messages that are there."""
    for _ in range(count):
        assert session.get("Q1") is not None


def calls_of(verb: Callable[[], object], prepare: Callable[[], object]) -> int:
    """Return how many Python functions a function usually calls: the median of TIMES."""
    counts = [0] * (WARM_UP + TIMES)
    before = sys.getprofile()
    for time in range(WARM_UP + TIMES):

        def note(_frame: FrameType, event: str, _value: object, time: int = time) -> None:
            counts[time] += event == "call"

        prepare()
        # A collection would call what ends dropped objects of other tests.
        gc.disable()
        sys.setprofile(note)
        try:
            verb()
        finally:
            sys.setprofile(before)
            gc.enable()
    # The call of the function itself is none of its own.
    return median_low(counts[WARM_UP:]) - 1


def check(
    verb: Callable[[], object], most: int, prepare: Callable[[], object] = lambda: None
) -> None:
    """Fail when a function calls more than ``most`` others; ``prepare`` goes before, uncounted."""
    calls = calls_of(verb, prepare)
    assert calls <= most, f"{calls} calls, where {most} were enough"


def test_a_non_persistent_put_and_get(session: Session) -> None:
    def pair() -> None:
        session.put("Q1", BODY)
        session.get("Q1")

    check(pair, 71)


def test_a_non_persistent_put_and_get_of_pymqi(qm: QueueManager) -> None:
    connection = pymqi.connect(qm.name)
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT | CMQC.MQOO_INPUT_AS_Q_DEF)

    def pair() -> None:
        queue.put(BODY, pymqi.MD(), pymqi.PMO())
        queue.get(None, pymqi.MD(), pymqi.GMO())

    check(pair, 117)
    queue.close()
    connection.disconnect()


def test_a_durable_put_and_get(session: Session) -> None:
    def pair() -> None:
        session.put("Q1", BODY, persistent=True)
        session.get("Q1")

    check(pair, 183)


def test_a_put_in_a_unit_of_work(unit: Session) -> None:
    check(lambda: unit.put("Q1", BODY, persistent=True), 20)


def test_a_hundred_gets_by_one_call(unit: Session) -> None:
    """So many for all of them: a loop of gets makes 3,300."""

    def hundred_more() -> None:
        put(unit, 100)
        unit.commit()

    check(lambda: unit.get_many("Q1", 100), 458, hundred_more)


def test_a_get_in_a_unit_of_work(unit: Session) -> None:
    put(unit, WARM_UP + TIMES)
    unit.commit()
    check(lambda: unit.get("Q1"), 30)


def test_a_commit_of_a_hundred_puts(unit: Session) -> None:
    """One call for each keeps it in memory, so that its get reads nothing."""
    check(unit.commit, 293, prepare=lambda: put(unit, 100))


def test_a_commit_of_a_hundred_gets(session: Session, unit: Session) -> None:
    def a_hundred_gets() -> None:
        put(unit, 100)
        unit.commit()
        get(unit, 100)

    check(unit.commit, 93, prepare=a_hundred_gets)


def test_a_delayed_put(session: Session) -> None:
    check(lambda: session.put("Q1", BODY, delay_ms=1_000), 49)


def test_a_put_with_a_life(session: Session) -> None:
    """The life is checked, and the request made: two calls more than a put without."""
    check(lambda: session.put("Q1", BODY, time_to_live_ms=60_000), 35)
