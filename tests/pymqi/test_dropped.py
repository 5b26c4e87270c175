"""Objects that a program drops without closing them are closed, wherever they are collected."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Thread

import pytest

from mayfly import MQError, QueueManager, pymqi
from mayfly.mqi import reasons as rc
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock
from tests.spec.scene import JOIN_SECONDS


class Collecting(VirtualClock):
    """A clock at whose looks the collector runs: it may do so in the midst of anything."""

    is_armed = False

    def now_ms(self) -> int:
        if self.is_armed:
            gc.collect()
        return super().now_ms()


@pytest.fixture
def clock() -> Iterator[Collecting]:
    gc.disable()
    yield Collecting(start_ms=1_700_000_000_000)
    gc.enable()


def drop_a_connection_in_a_cycle() -> str:
    """Return the name of a temporary queue whose connection and handle nobody holds any more."""
    connection = pymqi.connect("QM1")
    od = pymqi.OD(ObjectName="SYSTEM.DEFAULT.MODEL.QUEUE")
    queue = pymqi.Queue(connection, od, CMQC.MQOO_OUTPUT)
    queue.put(b"x", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    vars(connection)["itself"], vars(queue)["itself"] = connection, queue
    return str(od.ObjectName.decode()).strip()


def in_time(thread: Thread) -> bool:
    thread.start()
    thread.join(JOIN_SECONDS)
    return not thread.is_alive()


@pytest.mark.in_process
def test_what_is_collected_in_the_midst_of_the_engine_ends_at_the_next_verb(
    clock: Collecting,
) -> None:
    qm = QueueManager("QM1", clock=clock)
    try:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        with qm.session() as session:
            name = drop_a_connection_in_a_cycle()
            clock.is_armed = True
            counting = Thread(target=qm.counts, args=("Q1",), daemon=True)
            assert in_time(counting), "the collector has ended a connection under a lock"
            clock.is_armed = False
            assert len(qm.engine.left_behind.objects) == 2
            assert session.get("Q1") is None
            assert not qm.engine.left_behind.objects
            with pytest.raises(MQError) as caught:
                session.get(name)
        assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
        assert qm.verify().ok
    finally:
        qm.close()


def test_what_a_program_drops_itself_ends_at_once(clock: Collecting) -> None:
    """Disconnecting commits (MQDISC)."""
    with QueueManager("QM1", clock=clock) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        connection = pymqi.connect("QM1")
        queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
        queue.put(b"x", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
        assert qm.counts("Q1").uncommitted == 1
        del queue, connection
        assert qm.counts("Q1").live == 1
        assert not qm.engine.left_behind.objects
