"""Locks are taken in one order everywhere, and nobody waits for the disk with the engine's lock."""

from functools import partial
from pathlib import Path
from threading import Event

from mayfly import QueueManager, jms
from mayfly.testing import VirtualClock
from tests.runtime.checked import ENGINE, CheckedRuntime, Order
from tests.spec.scene import JOIN_SECONDS, Running

THREADS, MESSAGES = 4, 20
SCRIPT = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(QM2) USAGE(XMITQ)
DEFINE QREMOTE(FAR) RNAME(Q1) RQMNAME(QM2) XMITQ(QM2)
DEFINE CHANNEL(QM1.QM2) CHLTYPE(SDR) TRPTYPE(LOCAL) CONNAME('QM2') XMITQ(QM2)
DEFINE TOPIC(NEWS) TOPICSTR('news')
START CHANNEL(QM1.QM2)
"""


def test_lock_that_is_taken_the_other_way_round_elsewhere_is_found() -> None:
    order = Order()
    for names in (("a", "b"), ("b", "c"), ("c", "a")):
        locks = [object(), object()]
        for name, lock in zip(names, locks, strict=True):
            order.wait_for(name, lock)
            order.take(name, lock)
        for lock in locks:
            order.free(lock)
    assert set(order.circle()) == {"a", "b", "c"}
    order.pairs.remove(("c", "a"))
    assert order.circle() == []


def work(qm: QueueManager, number: int) -> None:
    """Put, get, delay, publish and send elsewhere; each thread has its part."""
    with qm.session(transacted=bool(number % 2)) as session:
        for count in range(MESSAGES):
            body = b"%d-%d" % (number, count)
            session.put("Q1", body, persistent=bool(count % 2), time_to_live_ms=1_000)
            session.put("Q1", body, persistent=True, delay_ms=10)
            session.put("FAR", body, persistent=True)
            session.put("Q1", body)
            assert session.get("Q1", wait_ms=5) is not None
            if number % 2:
                session.commit()


def test_every_lock_has_its_place_in_one_order(tmp_path: Path) -> None:
    runtime = CheckedRuntime()
    clock = VirtualClock(runtime=runtime)
    with (
        QueueManager("QM2", tmp_path / "QM2", clock, runtime=runtime) as far,
        QueueManager("QM1", tmp_path / "QM1", clock, runtime=runtime) as qm,
    ):
        far.mqsc("DEFINE QLOCAL(Q1)\nDEFINE CHANNEL(QM1.QM2) CHLTYPE(RCVR) TRPTYPE(LOCAL)")
        assert qm.mqsc(SCRIPT).ok
        threads = [Running(partial(work, qm, number)) for number in range(THREADS)]
        for thread in threads:
            thread.finish()
        clock.advance(5_000)
        assert far.curdepth("Q1") == THREADS * MESSAGES
        assert qm.verify().ok
        assert qm.mqsc("DEFINE QLOCAL(Q2)\nDELETE QLOCAL(Q2)\nSTOP CHANNEL(QM1.QM2)").ok
    pairs = runtime.order.pairs
    # It has looked: a transaction takes the totals.
    assert ("transaction", "totals") in pairs
    assert runtime.order.circle() == []
    assert (ENGINE, "transaction") not in pairs


def test_jms_takes_no_lock_of_its_own_inside_of_the_engines() -> None:
    runtime = CheckedRuntime()
    kept: list[str] = []
    has_all = Event()

    def keep(message: jms.Message) -> None:
        assert isinstance(message, jms.TextMessage)
        kept.append(message.text or "")
        if len(kept) == THREADS * MESSAGES:
            has_all.set()

    with QueueManager("QM1", clock=VirtualClock(runtime=runtime), runtime=runtime) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        connection = jms.ConnectionFactory(qm).create_connection()
        consumers = []
        for _ in range(2):
            session = connection.create_session()
            consumers.append(session.create_consumer(session.create_queue("Q1")))
            consumers[-1].set_message_listener(keep)

        def put(number: int) -> None:
            with qm.session() as session:
                for count in range(MESSAGES):
                    session.put("Q1", b"%d-%d" % (number, count), format_name="MQSTR")

        threads = [Running(partial(put, number)) for number in range(THREADS)]
        for _ in range(MESSAGES):
            # With the listener of one consumer left out and back, and all of them stopped.
            connection.start()
            consumers[0].set_message_listener(None)
            consumers[0].set_message_listener(keep)
            connection.stop()
        connection.start()
        for thread in threads:
            thread.finish()
        assert has_all.wait(JOIN_SECONDS)
        connection.close()
    assert sorted(set(kept)) == sorted(kept)
    pairs = runtime.order.pairs
    assert ("jms session", ENGINE) in pairs
    assert [inner for outer, inner in pairs if outer == ENGINE and inner.startswith("jms")] == []
    assert runtime.order.circle() == []
