"""A get or browse lasts longer than a moment; what it decides and tells is of one moment all the
same. The clock of these tests goes on by a millisecond each time that somebody looks at it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest
from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import BROWSE, INPUT, START_MS, lives, local

#: More than a get looks at the clock.
LIVES_MS = range(1, 40)


class Ticking(VirtualClock):
    """Goes on by a millisecond with each look at it."""

    def __init__(self) -> None:
        super().__init__(START_MS)
        self._looks = itertools.count()

    def now_ms(self) -> int:
        return super().now_ms() + next(self._looks)


@pytest.fixture
def qm() -> Iterator[QueueManager]:
    with QueueManager("QM1", clock=Ticking()) as manager:
        local(manager, "Q1")
        yield manager


@pytest.mark.parametrize(
    "options",
    [
        c.MQGMO_NO_SYNCPOINT,
        c.MQGMO_SYNCPOINT,
        c.MQGMO_BROWSE_FIRST,
        c.MQGMO_ALL_MSGS_AVAILABLE,
        c.MQGMO_ALL_MSGS_AVAILABLE | c.MQGMO_BROWSE_FIRST,
    ],
)
def test_E4_what_is_still_there_never_shows_0(
    qm: QueueManager, options: int, new_session: NewSession
) -> None:
    found = 0
    with new_session(qm) as session:
        handle = session.open("Q1", INPUT | BROWSE)
        for life_ms in LIVES_MS:
            session.put("Q1", b"x", time_to_live_ms=life_ms)
            try:
                message = handle.get(GetRequest(), options).message
            except NoMessage:
                continue
            found += 1
            assert message.remaining_tenths > 0
            session.commit()
            qm.mqsc("CLEAR QLOCAL(Q1)")
    assert 0 < found < len(LIVES_MS)


@pytest.mark.parametrize("options", [c.MQGMO_BROWSE_MSG_UNDER_CURSOR, c.MQGMO_MSG_UNDER_CURSOR])
def test_E16_what_is_under_the_cursor_never_shows_0(
    qm: QueueManager, options: int, new_session: NewSession
) -> None:
    found = 0
    with new_session(qm) as session:
        handle = session.open("Q1", INPUT | BROWSE)
        for life_ms in LIVES_MS:
            session.put("Q1", b"x", time_to_live_ms=life_ms)
            try:
                handle.get(GetRequest(), c.MQGMO_BROWSE_FIRST)
                message = handle.get(GetRequest(), options).message
            except NoMessage:
                continue
            found += 1
            assert message.remaining_tenths > 0
            qm.mqsc("CLEAR QLOCAL(Q1)")
    assert 0 < found < len(LIVES_MS)


@pytest.mark.parametrize("options", [c.MQGMO_NO_SYNCPOINT, c.MQGMO_ALL_MSGS_AVAILABLE])
def test_E4_the_ledger_has_got_before_the_deadline_and_expired_from_it_on(
    qm: QueueManager, options: int, new_session: NewSession
) -> None:
    with new_session(qm) as session:
        handle = session.open("Q1", INPUT)
        for life_ms in LIVES_MS:
            session.put("Q1", b"x", time_to_live_ms=life_ms)
            try:
                handle.get(GetRequest(), options)
            except NoMessage:
                continue
    ended = lives(qm, "Q1")
    assert {life.outcome for life in ended} == {State.GOT.value, State.EXPIRED.value}
    for life in ended:
        assert life.expire_at_ms is not None
        assert (life.ended_ms < life.expire_at_ms) == (life.outcome == State.GOT.value), life
