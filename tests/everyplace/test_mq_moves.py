"""Moves between a durable queue manager and one of MQ, broken off at each of their commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.everyplace import Ended, EveryplaceQueueManager, QueueEntry, QueueRule
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPER_PERSISTENT
from mayfly.mqi.errors import MQError
from mayfly.services.everyplace.fields import MQ_DATA
from mayfly.services.everyplace.mq_queues import move_from_mq, move_to_mq, settle_moves
from mayfly.testing import VirtualClock
from tests.everyplace.scene import fail_commit, quick_folder, refused, reopened, seen, text

Q1 = "Q1"


@pytest.fixture
def home() -> Iterator[Path]:
    """Where all have their folders."""
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def mq(home: Path, clock: VirtualClock) -> Iterator[QueueManager]:
    """A durable queue manager of MQ with one queue."""
    with QueueManager("QM1", home / "QM1", clock=clock) as manager:
        manager.mqsc(f"DEFINE QLOCAL({Q1})")
        yield manager


def mq_texts(mq: QueueManager) -> list[bytes]:
    with mq.session() as session:
        return [message.body for message in session.browse(Q1)]


@pytest.mark.parametrize("number", range(2))
def test_a_move_to_mq_that_is_broken_off_is_done_once(
    a: EveryplaceQueueManager, mq: QueueManager, home: Path, clock: VirtualClock, number: int
) -> None:
    a.create_queue("Q")
    for said in ("1", "2"):
        a.put_message("Q", text(clock, said))
    fail_commit(a, number)
    with mq.session() as session, pytest.raises(Ended):
        move_to_mq(a, "Q", session, Q1)
    assert mq.curdepth(Q1) == (0 if number == 0 else 1)
    with EveryplaceQueueManager("A", clock, home / "A") as opened:
        settle_moves(opened, mq)
        assert seen(opened) == (["1", "2"] if number == 0 else ["2"])
        with mq.session() as session:
            while move_to_mq(opened, "Q", session, Q1):
                pass
            moved = [message.body for message in session.browse(Q1)]
            persistence = [message.descriptor.persistence for message in session.browse(Q1)]
        assert [b'"1"' in body or b'"2"' in body for body in moved] == [True, True]
        assert (len(set(moved)), persistence) == (2, [MQPER_PERSISTENT] * 2)


@pytest.mark.parametrize("number", range(2))
def test_a_move_from_mq_that_is_broken_off_is_done_once(
    a: EveryplaceQueueManager, mq: QueueManager, home: Path, clock: VirtualClock, number: int
) -> None:
    a.create_queue("Q")
    with mq.session() as session:
        for body in (b"1", b"2"):
            session.put(Q1, body, persistent=True)
    fail_commit(a, number)
    with pytest.raises(Ended):
        move_from_mq(mq, Q1, a, "Q")
    assert mq.curdepth(Q1) == (2 if number == 0 else 1)
    with EveryplaceQueueManager("A", clock, home / "A") as opened:
        settle_moves(opened, mq)
        assert opened.inquire_queue_size("Q") == (0 if number == 0 else 1)
        while move_from_mq(mq, Q1, opened, "Q"):
            pass
        there = [m.get_array_of_byte(MQ_DATA) for m in opened.browse_messages("Q")]
    assert (there, mq_texts(mq)) == ([b"1", b"2"], [])


@pytest.mark.parametrize("is_done", [False, True])
def test_what_mq_has_not_done_is_taken_back_after_the_restart_of_both(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock, is_done: bool
) -> None:
    """MQ is closed in the middle, so that nobody can ask it before it is open again."""
    a.create_queue("Q", rule=Closing())
    with QueueManager("QM1", home / "QM1", clock=clock) as mq:
        mq.mqsc(f"DEFINE QLOCAL({Q1})")
        with mq.session() as session:
            session.put(Q1, b"x", persistent=True)
        if is_done:
            fail_commit(a, 1)
        else:
            Closing.manager = mq
        with pytest.raises(MQError):
            move_from_mq(mq, Q1, a, "Q")
    Closing.manager = None
    a = EveryplaceQueueManager("A", clock, home / "A") if is_done else reopened(a, home / "A")
    with a, QueueManager("QM1", home / "QM1", clock=clock) as mq:
        if is_done:
            refused(rc.MQRC_ENVIRONMENT_ERROR, lambda: settle_moves(a, mq))
        else:
            settle_moves(a, mq)
        a.set_rule("Q", None)
        settle_moves(a, mq)
        assert (len(a.browse_messages("Q")), mq.curdepth(Q1)) == ((1, 0) if is_done else (0, 1))
        assert (move_from_mq(mq, Q1, a, "Q") is None) is is_done
        assert (len(a.browse_messages("Q")), mq.curdepth(Q1)) == (1, 0)


class Closing(QueueRule):
    """Closes the queue manager of MQ whose message is put here."""

    manager: QueueManager | None = None

    def put_message(self, entry: QueueEntry, message: object) -> None:
        if Closing.manager is not None:
            Closing.manager.close()


@pytest.mark.parametrize("number", [0, 1])
def test_M6_what_comes_from_mq_too_late_meets_its_rule_once(
    a: EveryplaceQueueManager, mq: QueueManager, home: Path, clock: VirtualClock, number: int
) -> None:
    """Not before MQ has let it go, for it would be met again."""

    counting = Counting()
    counting.wait = lambda: clock.advance(10)
    a.create_queue("Q", rule=counting)
    a.create_queue("FIRED")
    with mq.session() as session:
        session.put(Q1, b"x", persistent=True, time_to_live_ms=10)
    fail_commit(a, number)
    with pytest.raises(Ended):
        move_from_mq(mq, Q1, a, "Q")
    with EveryplaceQueueManager("A", clock, home / "A") as opened:
        opened.set_rule("Q", Counting())
        settle_moves(opened, mq)
        assert opened.inquire_queue_size("Q") == 0
        assert opened.inquire_queue_size("FIRED") == number
    with mq.session() as session:
        assert session.get(Q1) is None


class Counting(QueueRule):
    """Leaves a message for each that expires, and may let time pass at a put."""

    def __init__(self) -> None:
        self.wait: Callable[[], object] = lambda: None

    def put_message(self, entry: QueueEntry, message: object) -> None:
        if entry.queue == "Q":
            self.wait()

    def message_expired(self, entry: QueueEntry, message: object) -> None:
        entry.owner.put_message("FIRED", text(entry.owner.clock))


def test_a_move_inside_a_rule_is_a_transaction_of_its_own(
    a: EveryplaceQueueManager, mq: QueueManager, home: Path, clock: VirtualClock
) -> None:
    """What MQ has is never here as well, though the verb around it is broken off."""

    class Mover(QueueRule):
        def message_expired(self, entry: QueueEntry, message: object) -> None:
            with mq.session() as session:
                move_to_mq(a, "OUT", session, Q1)
            raise KeyboardInterrupt

    a.create_queue("OUT")
    a.put_message("OUT", text(clock, "out"))
    a.create_queue("Q", rule=Mover())
    a.put_message("Q", text(clock, relative_ms=1))
    clock.advance(1)
    with pytest.raises(KeyboardInterrupt):
        a.inquire_queue_size("Q")
    with EveryplaceQueueManager("A", clock, home / "A") as opened:
        settle_moves(opened, mq)
        assert (seen(opened, "OUT"), mq.curdepth(Q1)) == ([], 1)


def test_a_move_from_an_empty_queue_writes_nothing(
    a: EveryplaceQueueManager, mq: QueueManager
) -> None:
    a.create_queue("Q")
    fail_commit(a, 0)
    with mq.session() as session:
        assert move_to_mq(a, "Q", session, Q1) is None
    assert move_from_mq(mq, Q1, a, "Q") is None
