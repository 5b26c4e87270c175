"""Non-ASF mode, L1 to L9 and L15: each session receives in a transaction of its own."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import Status, Transaction, current_transaction
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from tests.listener.scene import (
    RECEIVE_TIMEOUT_MS,
    Calls,
    backout_count,
    fail,
    idle,
    port_of,
    put,
    receiving,
    started,
    ticking_until,
    until,
)


@pytest.mark.parametrize(("timeout_ms", "receiving_count"), [(1, 2), (110_000, 2), (0, 0)])
def test_L1_a_receive_timeout_but_zero_is_non_asf(
    manager: QueueManager, timeout_ms: int, receiving_count: int
) -> None:
    with started(port_of(manager, receive_timeout_ms=timeout_ms, max_sessions=2)) as port:
        now = port.statistics()
        assert (now.threads, now.receiving) == (receiving_count, receiving_count)


def test_L14_the_platform_of_the_queue_manager_does_not_matter(clock: VirtualClock) -> None:
    """What z/OS has not is the application server's affair."""
    with QueueManager("QMZ", clock=clock, platform="zos") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        calls = Calls()
        with started(port_of(manager, calls)):
            put(manager, "on z/OS")
            assert calls.next().text == "on z/OS"


def test_L2_threads_are_as_many_as_sessions_whatever_there_is_to_do(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(is_held=True)
    with started(port_of(manager, calls, max_sessions=5)) as port:
        assert receiving(port, 5).threads == 5
        clock.advance(RECEIVE_TIMEOUT_MS)
        assert idle(port, 5).threads == 5
        receiving(port, 5)
        put(manager, "1", "2")
        calls.next()
        calls.next()
        assert (port.statistics().threads, receiving(port, 3).threads) == (5, 5)
        calls.let_go()
    assert (port.statistics().threads, port.statistics().connections) == (0, 0)


def test_L3_each_thread_has_a_session_a_consumer_and_a_transaction_of_its_own(
    manager: QueueManager, clock: VirtualClock
) -> None:
    """Three messages at work at once: one thread's rollback leaves the others' as they are."""
    held = [Calls(is_held=True) for _ in range(3)]
    mine: dict[str, tuple[int, Transaction]] = {}

    def work(message: jms.TextMessage) -> None:
        text = str(message.text)
        mine[text] = threading.get_ident(), current_transaction()
        held[int(text)](message)
        if text == "1":
            current_transaction().set_rollback_only()

    put(manager, "0", "1", "2")
    with started(port_of(manager, work, max_sessions=3, max_retries=0)) as port:
        for calls in held:
            calls.next()
        threads, transactions = zip(*mine.values(), strict=True)
        sessions = [transaction.session for transaction in transactions]
        assert len(set(threads)) == len(set(transactions)) == len(set(sessions)) == 3
        assert port.statistics().connections == 1
        held[1].let_go()
        until(port, lambda now: now.rolled_back == 1)
        assert mine["0"][1].status is mine["2"][1].status is Status.ACTIVE
        assert (manager.curdepth("Q1"), manager.counts("Q1").locked) == (1, 2)
        held[0].let_go()
        held[2].let_go()
        until(port, lambda now: now.committed == 2)
    assert manager.curdepth("Q1") == 1


@pytest.mark.parametrize(
    ("sessions", "per_connection", "connections"),
    [(1, 10, 1), (10, 10, 1), (11, 10, 2), (3, 2, 2), (4, 1, 4)],
)
def test_L4_sessions_share_connections(
    manager: QueueManager, sessions: int, per_connection: int, connections: int
) -> None:
    port = port_of(manager, max_sessions=sessions, conversations_per_connection=per_connection)
    with started(port):
        assert port.statistics().connections == connections


def test_L5_an_empty_receive_rolls_back_and_begins_anew(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls()
    with started(port_of(manager, calls)) as port:
        for count in (1, 2, 3):
            receiving(port)
            clock.advance(RECEIVE_TIMEOUT_MS - 1)
            assert port.statistics().idle_rollbacks == count - 1
            clock.advance(1)
            idle(port, count)
        put(manager, "late")
        assert calls.next().get_property("JMSXDeliveryCount") == 1
        now = until(port, lambda now: now.committed == 1)
        assert (now.rolled_back, now.timed_out, now.idle_rollbacks) == (0, 0, 3)


def test_L5_a_message_there_at_the_end_of_the_receive_wins(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls()
    put(manager, "just", delay_ms=RECEIVE_TIMEOUT_MS)
    with started(port_of(manager, calls)) as port:
        clock.advance(RECEIVE_TIMEOUT_MS)
        assert calls.text() == "just"
        assert until(port, lambda now: now.committed == 1).idle_rollbacks == 0


def test_L6_what_the_selector_refuses_stays_untouched(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls()
    with started(port_of(manager, calls, selector="colour = 'red'")) as port:
        put(manager, "blue 1", properties={"colour": "blue"})
        put(manager, "red", properties={"colour": "red"})
        put(manager, "blue 2", properties={"colour": "blue"})
        assert calls.text() == "red"
        until(port, lambda now: now.committed == 1)
        receiving(port)
        clock.advance(RECEIVE_TIMEOUT_MS)
        idle(port, 1)
        counts = manager.counts("Q1")
        assert (counts.live, counts.locked, backout_count(manager)) == (2, 0, 0)


def test_L7_success_commits_in_order_and_all_on_one_thread(manager: QueueManager) -> None:
    threads: list[int] = []
    calls = Calls(lambda _message: threads.append(threading.get_ident()))
    put(manager, "1", "2", "3")
    with started(port_of(manager, calls)) as port:
        assert [calls.text() for _ in range(3)] == ["1", "2", "3"]
        until(port, lambda now: now.committed == 3)
        assert len(set(threads)) == 1
        assert manager.curdepth("Q1") == manager.counts("Q1").locked == 0


def test_L7_what_raises_is_rolled_back_and_comes_again(manager: QueueManager) -> None:
    calls = Calls(lambda message: fail(message) if message.text == "bad" else None)
    put(manager, "bad")
    with started(port_of(manager, calls, destination="POISONED")) as port:
        put(manager, "bad", "good", name="POISONED")
        found = [calls.next() for _ in range(3)]
        assert [message.text for message in found] == ["bad", "bad", "good"]
        assert [message.get_property("JMSXDeliveryCount") for message in found] == [1, 2, 1]
        assert [message.jms_redelivered for message in found] == [False, True, False]
        now = until(port, lambda now: now.committed == 1)
        assert (now.delivered, now.rolled_back, now.requeued) == (3, 2, 1)
        assert (manager.curdepth("POISONED"), manager.curdepth("BACKOUTS")) == (0, 1)
        assert backout_count(manager, "BACKOUTS") == 0


@pytest.mark.parametrize(("is_good", "reply_count"), [(True, 1), (False, 0)])
def test_L7_what_on_message_sends_is_part_of_its_transaction(
    manager: QueueManager, *, is_good: bool, reply_count: int
) -> None:
    def answer(message: jms.TextMessage) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        producer = session.create_producer(session.create_queue("REPLIES"))
        producer.send(session.create_text_message(f"re: {message.text}"))
        producer.close()
        if not is_good:
            current_transaction().set_rollback_only()

    put(manager, "request")
    port = port_of(manager, answer, max_retries=0)
    with started(port):
        until(port, lambda now: now.committed + now.rolled_back == 1)
    assert manager.curdepth("REPLIES") == reply_count
    assert manager.curdepth("Q1") == 1 - reply_count


def test_there_is_no_transaction_outside_of_on_message() -> None:
    with pytest.raises(jms.IllegalStateException, match="outside of on_message"):
        current_transaction()


def test_L8_one_session_at_work_does_not_hold_the_others_up(manager: QueueManager) -> None:
    calls = Calls(is_held=True)
    with started(port_of(manager, calls, max_sessions=2)) as port:
        put(manager, "1", "2", "3")
        assert {calls.text(), calls.text()} == {"1", "2"}
        assert manager.counts("Q1").locked == 2
        assert (manager.curdepth("Q1"), port.statistics().receiving) == (1, 0)
        calls.let_go()
        assert calls.text() == "3"
        until(port, lambda now: now.committed == 3)


@pytest.mark.parametrize("timeout_ms", [RECEIVE_TIMEOUT_MS, 0])
@pytest.mark.slow
def test_L8_eight_sessions_have_each_message_once(manager: QueueManager, timeout_ms: int) -> None:
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def note(message: jms.TextMessage) -> None:
        with lock:
            seen[str(message.text)] += 1

    texts = [str(number) for number in range(400)]
    port = port_of(manager, note, receive_timeout_ms=timeout_ms, max_sessions=8)
    put(manager, *texts[:200])
    with started(port):
        put(manager, *texts[200:])
        until(port, lambda now: now.committed == 400)
    assert seen == Counter(texts)
    assert (port.statistics().delivered, manager.curdepth("Q1")) == (400, 0)


def test_L15_what_has_expired_is_never_delivered(
    manager: QueueManager, clock: VirtualClock
) -> None:
    put(
        manager,
        "old",
        time_to_live_ms=1_000,
        report=c.MQRO_EXPIRATION,
        reply_to_q="REPLIES",
    )
    put(manager, "young", time_to_live_ms=1_001)
    clock.advance(1_000)
    calls = Calls()
    with started(port_of(manager, calls)) as port:
        assert calls.text() == "young"
        now = until(port, lambda now: now.committed == 1)
        assert (now.delivered, manager.curdepth("Q1"), manager.curdepth("REPLIES")) == (1, 0, 1)


def test_L15_a_message_whose_life_ends_during_on_message_is_not_delivered_again(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(fail, is_held=True)
    with started(port_of(manager, calls)) as port:
        put(manager, "x", time_to_live_ms=5_000, report=c.MQRO_EXPIRATION, reply_to_q="REPLIES")
        assert calls.text() == "x"
        clock.advance(5_000)
        calls.let_go()
        until(port, lambda now: now.rolled_back == 1 and now.receiving == 1)
        assert calls.is_empty
        assert (manager.curdepth("Q1"), manager.curdepth("REPLIES")) == (0, 1)
    with manager.session() as session:
        report = session.get("REPLIES")
        assert report is not None
        assert report.descriptor.feedback == c.MQFB_EXPIRATION


def test_a_topic_is_heard_by_its_sessions_together(manager: QueueManager) -> None:
    calls = Calls()
    port = port_of(manager, calls, destination="topic://gates/A1", max_sessions=3)
    with started(port), jms.ConnectionFactory(manager).create_context() as context:
        producer = context.create_producer()
        for text in ("1", "2"):
            producer.send(context.create_topic("gates/A1"), text)
        assert {calls.text(), calls.text()} == {"1", "2"}
        assert until(port, lambda now: now.committed == 2).delivered == 2


@pytest.mark.parametrize("timeout_ms", [RECEIVE_TIMEOUT_MS, 0])
def test_poison_that_nobody_takes_is_a_failure_of_the_port(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    assert manager.mqsc("ALTER QLOCAL(POISONED) BOQNAME(NOWHERE)").ok
    properties: dict[str, str | int] = {"MAX.RECOVERY.RETRIES": 1}
    port = port_of(
        manager,
        fail,
        destination="POISONED",
        receive_timeout_ms=timeout_ms,
        properties=properties,
    )
    with started(port):
        put(manager, "x", name="POISONED")
        until(port, lambda now: now.rolled_back == 2)
        ticking_until(port, clock, lambda: not port.is_running)
    assert port.statistics().listener_retries == 1
    assert manager.curdepth("POISONED") == 1
