"""Helpers of the tests of delayed messages in this folder: many messages, and their arrivals."""

from __future__ import annotations

from collections import Counter

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import ScheduleFilter

EVERYTHING = ScheduleFilter()
LONG_MS = 1_000_000
MANY = 200


def advance(qm: QueueManager, ms: int) -> None:
    clock = qm.clock
    assert isinstance(clock, VirtualClock)
    clock.advance(ms)


def put_many(qm: QueueManager, count: int = MANY, delay_ms: int = LONG_MS) -> list[bytes]:
    """Put messages of both persistences in one unit of work, all due at once; return their ids."""
    with qm.session(transacted=True) as session:
        return [
            session.put("Q1", b"%d" % n, delay_ms=delay_ms, persistent=bool(n % 3))
            for n in range(count)
        ]


def delivered(qm: QueueManager) -> Counter[bytes]:
    with qm.session() as session:
        return Counter(message.msg_id for message in session.browse("Q1"))
