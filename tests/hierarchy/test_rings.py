"""Queue managers that are connected in a ring by mistake: nothing goes round in it for ever."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.hierarchy.scene import bodies, connect, proxies, run, subscribe

Ring = tuple[QueueManager, QueueManager, QueueManager]
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


@pytest.fixture
def ring(clock: VirtualClock) -> Iterator[Ring]:
    """QM0, QM1 and QM2: each is the parent of the one before it."""
    with ExitStack() as stack:
        one, two, three = (
            stack.enter_context(QueueManager(f"QM{n}", clock=clock)) for n in range(3)
        )
        for here, there in ((one, two), (two, three), (three, one)):
            connect(here, there)
        for manager in (one, two, three):
            run(manager, f"ALTER QMGR PSMODE(ENABLED) DEADQ({DEAD})")
        for here, there in ((one, two), (two, three), (three, one)):
            run(here, f"ALTER QMGR PARENT({there.name})")
        clock.advance(0)
        yield one, two, three


def test_a_publication_goes_round_a_ring_once_each_way_and_is_dead_lettered(ring: Ring) -> None:
    """As with IBM MQ, subscribers get it from both sides until the ring is broken."""
    publisher, *others = ring
    for manager in ring:
        subscribe(manager, "news/#", "NEWS")
    with publisher.session() as session:
        session.publish("news/sport", b"goal", persistent=True)
        reasons = []
        while (letter := session.get(DEAD)) is not None:
            reasons.append(int.from_bytes(letter.body[8:12], "little"))
    assert reasons == [rc.MQRC_LOOPING_PUBLICATION] * 2
    assert bodies(publisher, "NEWS") == [b"goal"]
    for manager in others:
        assert bodies(manager, "NEWS") == [b"goal"] * 2
        assert manager.curdepth(DEAD) == 0


def test_a_retained_publication_ends_in_a_ring_too(ring: Ring) -> None:
    publisher, second, third = ring
    with publisher.session() as session:
        session.publish("a", b"kept", retain=True)
    subscribe(second, "a", "A")
    subscribe(third, "#", "ALL")
    assert bodies(second, "A") == [b"kept"]
    assert bodies(third, "ALL") == [b"kept"]


def test_without_a_dead_letter_queue_it_is_dropped_with_a_line_in_the_log(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = ring[0]
    for manager in ring:
        run(manager, "ALTER QMGR DEADQ(' ')")
        subscribe(manager, "news/#", "NEWS")
    with caplog.at_level(logging.WARNING), publisher.session() as session:
        session.publish("news/sport", b"goal", persistent=True)
    assert [m.curdepth("SYSTEM.INTER.QMGR.PUBS") for m in ring] == [0, 0, 0]
    assert [m.curdepth("SYSTEM.INTER.QMGR.PUBS.RETRY") for m in ring] == [0, 0, 0]
    said = [r.getMessage() for r in caplog.records if "LOOPING_PUBLICATION" in r.getMessage()]
    assert len(said) == 2
    assert all("it came by QM0, QM" in line for line in said)


def test_a_ring_that_is_broken_is_a_tree(ring: Ring) -> None:
    publisher, *others = ring
    for manager in ring:
        subscribe(manager, "news/#", "NEWS")
    run(ring[2], "ALTER QMGR PARENT(' ')")
    with publisher.session() as session:
        session.publish("news/sport", b"goal")
    for manager in others:
        assert bodies(manager, "NEWS") == [b"goal"]
    assert publisher.curdepth(DEAD) == 0


def test_a_proxy_that_only_the_ring_kept_alive_goes_when_it_is_broken(ring: Ring) -> None:
    subscribe(ring[0], "news/#", "NEWS")
    assert len(proxies(ring[1])) == 2
    run(ring[0], "DELETE SUB('NEWS')")
    run(ring[2], "ALTER QMGR PARENT(' ')")
    assert [proxies(manager) for manager in ring] == [[], [], []]


def test_a_queue_manager_is_not_its_own_parent(clock: VirtualClock) -> None:
    with QueueManager("QM0", clock=clock) as manager:
        run(manager, "ALTER QMGR PSMODE(ENABLED) PARENT(QM0)")
        subscribe(manager, "news/#", "NEWS")
        with manager.session() as session:
            session.publish("news/sport", b"goal")
        assert bodies(manager, "NEWS") == [b"goal"]
        assert proxies(manager) == []
