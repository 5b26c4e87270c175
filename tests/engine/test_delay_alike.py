"""Due messages that are alike are released as one, in the order of all, whoever is among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.lifetime.times import SECOND_MS
from mayfly.store.keys import due_ms_of
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.engine.conftest import FindAlike
from tests.engine.delay_scene import LONG_MS, advance
from tests.spec.scene import STAGING, bodies, local

COUNT = 20
#: So many are released with one transaction.
BATCH = 2_000
Put: TypeAlias = Callable[[Session, bytes], object]


def plain(session: Session, body: bytes) -> object:
    return session.put("Q1", body, persistent=True, delay_ms=SECOND_MS)


def urgent(session: Session, body: bytes) -> object:
    return session.put("Q1", body, persistent=True, delay_ms=SECOND_MS, priority=9)


def volatile(session: Session, body: bytes) -> object:
    return session.put("Q1", body, persistent=False, delay_ms=SECOND_MS)


def elsewhere(session: Session, body: bytes) -> object:
    return session.put("Q2", body, persistent=True, delay_ms=SECOND_MS)


def by_alias(session: Session, body: bytes) -> object:
    return session.put("A1", body, persistent=True, delay_ms=SECOND_MS)


def mortal(session: Session, body: bytes) -> object:
    return session.put(
        "Q1", body, persistent=True, delay_ms=SECOND_MS, time_to_live_ms=2 * SECOND_MS
    )


def long(session: Session, body: bytes) -> object:
    return session.put("Q1", body.ljust(1_000, b"."), persistent=True, delay_ms=SECOND_MS)


def backed_out(session: Session, body: bytes) -> object:
    """Get it from the staging queue and give it back, as an operator's program may."""
    msg_id = session.put("Q1", body, persistent=True, delay_ms=SECOND_MS)
    session.commit()
    assert session.get(STAGING, correl_id=msg_id) is not None
    session.backout()
    return msg_id


#: Those of which a look at each is needed, however many others there are.
OTHERS: Sequence[Put] = (urgent, volatile, elsewhere, by_alias, backed_out)


def scene(qm: QueueManager) -> QueueManager:
    """Define another queue and an alias beside Q1."""
    local(qm, "Q2")
    assert qm.mqsc("ALTER QMGR MAXUMSGS(100000)\nDEFINE QALIAS(A1) TARGET(Q1)").ok
    return qm


def put_all(qm: QueueManager, count: int, other: Put = plain, places: Sequence[int] = ()) -> None:
    with qm.session(transacted=True) as session:
        for n in range(count):
            (other if n in places else plain)(session, b"%d" % n)
            session.commit()


def test_messages_that_differ_in_data_and_times_alone_are_alike(
    on_clock: QueueManager, find_alike: FindAlike
) -> None:
    scene(on_clock)
    put_all(on_clock, COUNT, long, [3])
    put_all(on_clock, COUNT, mortal, [3])
    found = find_alike(on_clock, BATCH)
    assert found is not None
    keys, largest_bytes = found
    assert len(keys) == 2 * COUNT
    assert list(keys) == sorted(keys)
    assert {due_ms_of(key) for key in keys} == {on_clock.now_ms() + SECOND_MS}
    assert largest_bytes == 1_000
    assert find_alike(on_clock, 17) == (keys[:17], 1_000)


@pytest.mark.parametrize("place", [0, 1, COUNT - 2])
@pytest.mark.parametrize("other", OTHERS)
def test_one_that_is_of_another_kind_asks_for_a_look_at_each(
    on_clock: QueueManager, find_alike: FindAlike, other: Put, place: int
) -> None:
    scene(on_clock)
    put_all(on_clock, COUNT, other, [place])
    assert find_alike(on_clock, BATCH) is None


def test_one_that_has_expired_or_is_held_and_a_few_ask_for_a_look_at_each(
    on_clock: QueueManager, find_alike: FindAlike
) -> None:
    scene(on_clock)
    assert find_alike(on_clock, BATCH) is None
    put_all(on_clock, 15)
    assert find_alike(on_clock, BATCH) is None
    with on_clock.session() as session:
        held_id = session.put("Q1", b"", persistent=True, delay_ms=SECOND_MS)
    put_all(on_clock, 5)
    with on_clock.session(transacted=True) as unit:
        assert unit.get(STAGING, correl_id=held_id) is not None
        assert find_alike(on_clock, BATCH) is None
        unit.backout()
    with on_clock.session() as session:
        session.put("Q1", b"", persistent=True, delay_ms=1, time_to_live_ms=2)
    assert find_alike(on_clock, BATCH) is None


def test_a_volatile_one_that_is_due_later_asks_for_no_look(
    on_clock: QueueManager, find_alike: FindAlike
) -> None:
    scene(on_clock)
    put_all(on_clock, COUNT)
    with on_clock.session() as session:
        session.put("Q1", b"", persistent=False, delay_ms=LONG_MS)
    assert find_alike(on_clock, BATCH) is not None


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("place", range(3, 9))
@pytest.mark.parametrize("other", [plain, long, mortal, volatile, elsewhere, by_alias])
def test_all_arrive_once_and_in_order_whoever_is_among_them(
    on_clock: QueueManager, other: Put, place: int
) -> None:
    scene(on_clock)
    put_all(on_clock, COUNT, other, [place])
    advance(on_clock, SECOND_MS)
    with on_clock.session() as session:
        arrived = [*bodies(session, "Q1"), *bodies(session, "Q2")]
    order = [b"%d" % n for n in range(COUNT)]
    if other is elsewhere:
        order.append(order.pop(place))
    assert [body.rstrip(b".") for body in arrived] == order
    assert on_clock.counts("Q1").staged == on_clock.counts("Q2").staged == 0


@pytest.mark.usefixtures("small_batches")
def test_a_queue_that_fills_up_and_one_too_small_take_what_they_can(
    on_clock: QueueManager,
) -> None:
    scene(on_clock)
    local(on_clock, "DEAD")
    assert on_clock.mqsc("ALTER QMGR DEADQ(DEAD)\nALTER QLOCAL(Q1) MAXDEPTH(8)").ok
    put_all(on_clock, COUNT, long, [7])
    assert on_clock.mqsc("ALTER QLOCAL(Q1) MAXMSGL(500)").ok
    advance(on_clock, SECOND_MS)
    with on_clock.session() as session:
        assert bodies(session, "Q1") == [b"%d" % n for n in (0, 1, 2, 3, 4, 5, 6, 8)]
    assert on_clock.curdepth("DEAD") == COUNT - 8


@pytest.mark.usefixtures("small_batches")
def test_one_that_is_cancelled_leaves_the_others(on_clock: QueueManager) -> None:
    scene(on_clock)
    put_all(on_clock, COUNT)
    with on_clock.session() as session:
        msg_id = session.put("Q1", b"x", persistent=True, delay_ms=SECOND_MS)
        put_all(on_clock, COUNT)
        assert session.schedule.cancel(msg_id) == Receipt.CANCELLED
        advance(on_clock, SECOND_MS)
        assert bodies(session, "Q1") == [b"%d" % n for n in range(COUNT)] * 2


def test_a_flood_of_alike_ones_says_all_their_lives_after_a_restart(tmp_path: Path) -> None:
    count, clock = 2 * BATCH + 7, VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm, MAXDEPTH=count)
        assert qm.mqsc("ALTER QMGR MAXUMSGS(100000)").ok
        with qm.session(transacted=True) as unit:
            ids = [unit.put("Q1", b"%d" % n, persistent=True, delay_ms=10) for n in range(count)]
            unit.commit()
        clock.advance(10)
        assert qm.counts("Q1").live == count
        lateness = qm.engine.release_lateness.counts()
        assert (sum(lateness.counts), lateness.sum_ms) == (count, 0)
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert qm.verify().ok
        with qm.session() as session:
            assert [message.msg_id for message in session.browse("Q1")] == ids
            receipts = {session.schedule.cancel(msg_id) for msg_id in ids[::97]}
        assert receipts == {Receipt.ALREADY_RELEASED}
